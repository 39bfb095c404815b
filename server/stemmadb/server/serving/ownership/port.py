"""The port: who serves a space, and how a connection that arrived elsewhere is passed on.

The walk of a connection, for every implementation:

    Front has read a request head that names a space        nothing was answered, reading is paused
    Ownership.known(space), or Ownership.claim({space})     pure or from memory; or asked, once for a turn of the loop
    ServedHere                                              the request is answered here
    ServedBy(address), the connection came from a client    PassingOn.pass_on: the owner answers
    ServedBy(address), it was passed on to us               503 with `Retry-After: 1`: it is never passed on twice
    OwnerUnreachable, or claim failed                       503 with `Retry-After: 1`

Where an ownership is not `is_single`, an HTTP connection ends with its first answer, because the next request may
name another space. Paths that name no space are answered where they arrive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from stemmadb.protocol.model.values.ids import Did


class ServedHere(msgspec.Struct, frozen=True):
    """This process serves the space."""


class ServedBy(msgspec.Struct, frozen=True):
    """Another process does: pass the connection on."""

    address: str
    """Means something to the `PassingOn` that comes with the ownership: a path, or host and port."""


Owner: TypeAlias = ServedHere | ServedBy
SERVED_HERE: Final = ServedHere()


class Ownership(Protocol):
    """Which process serves a space. Used from one event loop."""

    is_single: bool
    """True: every space is served here, for ever. Then nothing is asked, and connections are kept open."""

    def known(self, space: Did) -> Owner | None:
        """The owner, if it is known without waiting; None: ask `claim`. Called once for each connection."""
        ...

    async def claim(self, spaces: Collection[Did]) -> Mapping[Did, Owner]:
        """The owner of each space; a space without one is ours once this returns.

        The spaces of all requests that arrived in one turn of the loop come in one call. A space that is missing from
        the answer, and every space if this raises, is answered with 503 and `Retry-After: 1`.
        """
        ...

    def is_alive(self) -> bool:
        """True while this process may answer from memory; asked where bytes go to sockets."""
        ...


class OwnerUnreachable(Exception):
    """The owner did not take the connection, and the client has got nothing: it is answered here, with 503."""


class LeavingConnection(msgspec.Struct, frozen=True, kw_only=True):
    """A client's connection that goes to another process. Its transport is paused, and nothing was written to it."""

    transport: asyncio.Transport
    head: bytes
    """The first request's head as it came, with the empty line."""
    rest: bytes
    """What came behind the head."""
    address: str
    """The client's, for logs and limits at the owner."""
    ending: Callable[[], None]
    """Called if it is relayed and the owner ends: the client's end is closed soon, whatever the client does."""


class PassedConnection(msgspec.Struct, frozen=True):
    """A connection that another process of ours has passed on to this one, as `Gate.adopt` takes it."""

    data: bytes
    """The head of its request, and what came behind it."""
    address: str
    """The client's."""


class RelayedEnd(Protocol):
    """The client's end of a relay. The `Front` stays the transport's protocol and calls this from now on."""

    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> bool | None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...


class PassingOn(Protocol):
    """How a connection reaches the owner of its space."""

    def passed_by(self, headers: Mapping[str, Sequence[str]]) -> str | None:
        """The client's address, if the head proves that a process of ours passed this connection on; else None.

        For connections that carry the proof in the head of the request. Those that come another way (from a worker)
        are given to `Gate.adopt`, and this returns None.
        """
        ...

    async def pass_on(self, leaving: LeavingConnection, owner: ServedBy) -> RelayedEnd | None:
        """Gives the connection to its owner; `OwnerUnreachable` if it does not take it, after a second at most.

        None: the owner has the socket itself, and ours is closed without a word to the client. Otherwise the bytes go
        through this process: the head and the rest are written to the owner, and reading goes on
        (`listeners.relay.begin_relay`). The client may end at any moment: its transport is closing then, and whatever
        was opened for it has to be closed.
        """
        ...
