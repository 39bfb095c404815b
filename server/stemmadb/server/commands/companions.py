"""Companions of `stemmadb serve`: other packages add options, and run in the server's process if these are given.

Each is an entry point of the group `stemmadb.companions`: an object with `options`, click options whose names begin
with the companion's, and `companion(flags)`, which gives what to run, or None. The server knows none of them by name.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

if TYPE_CHECKING:
    from stemmadb.server.serving.companions import Companion
    from stemmadb.server.serving.workers.worker import StartedShare

ENTRY_POINTS: Final = "stemmadb.companions"


class CompanionMaker(Protocol):
    """What an entry point leads to."""

    @property
    def options(self) -> Sequence[click.Option]: ...

    def companion(self, flags: Mapping[str, object]) -> Companion | None:
        """What to run beside the server; None if its options were not given."""
        ...

    def share(self, arguments: Mapping[str, Any], sockets: Sequence[socket.socket]) -> Companion:
        """What to run in a worker, whose parent made this share of it (`CompanionShare`)."""
        ...


@cache
def makers() -> Sequence[CompanionMaker]:
    """Those whose packages are installed."""
    found: list[CompanionMaker] = []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            found.append(point.load())
        except ModuleNotFoundError:  # an extra that was not asked for
            continue
    return tuple(found)


def options() -> list[click.Parameter]:
    return [option for maker in makers() for option in maker.options]


def chosen(flags: dict[str, object]) -> list[Companion]:
    """The companions that the flags ask for; their flags are taken out, and the rest are settings."""
    own = {maker: {str(one.name): flags.pop(str(one.name), None) for one in maker.options} for maker in makers()}
    companions = [maker.companion(given) for maker, given in own.items()]
    return [one for one in companions if one is not None]


def shares(started: Sequence[StartedShare]) -> list[Companion]:
    """Those that a worker runs."""
    made = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    return [
        made[one.name].load().share(one.arguments, [socket.socket(fileno=number) for number in one.sockets])
        for one in started
    ]
