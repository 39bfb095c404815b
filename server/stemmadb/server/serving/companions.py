"""Companions: what other packages run beside the service, in the process of a server or in those of its workers.

With workers, each part of a companion runs in the worker of the space it works on. The parent divides it once, and
opens the sockets that it listens on: connections to a worker that has died wait there for the next one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.service.base.transport import HandlerFactory


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """What a companion gets: it runs in the server's process, beside the service, for as long as the server does."""

    service: HandlerFactory
    data: Path
    stop: asyncio.Event
    """Set it to stop the whole server."""


class DividedServer(NamedTuple):
    """What a companion is divided for: a server with workers, which are not started yet."""

    data: Path
    did: Did
    owner: Callable[[Did], int]
    """The worker that serves a space."""


class CompanionShare(NamedTuple):
    """What one worker runs of a companion."""

    name: str
    """The companion's entry point."""
    arguments: Mapping[str, Any]
    """For the worker's process, as JSON can carry it."""
    sockets: Sequence[socket.socket]
    """Only this worker accepts from them."""


class Companion(Protocol):
    """What a server runs beside its service."""

    def __call__(self, running: RunningServer) -> AbstractAsyncContextManager[Mapping[str, object]]:
        """Opens before the server is ready, and closes before it stops; it gives what `server.json` notes of it."""
        ...

    def divided(self, server: DividedServer) -> AbstractContextManager[Mapping[int, CompanionShare]]:
        """For the parent of workers: the share of each worker that has one, with sockets that are open meanwhile."""
        ...


def joined_notes(notes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What the companions of all workers note, as one: maps by their keys, lists one after the other.

    >>> joined_notes([{"memory": {"at": {"a": 1}, "http": ["x"]}}, {"memory": {"at": {"b": 2}, "http": ["y"]}}])
    {'memory': {'at': {'a': 1, 'b': 2}, 'http': ['x', 'y']}}
    """
    joined: dict[str, Any] = {}
    for note in notes:
        for key, value in note.items():
            known = joined.get(key)
            if isinstance(known, dict):
                joined[key] = joined_notes([known, value])
            else:
                joined[key] = known + value if isinstance(known, list) else value
    return joined
