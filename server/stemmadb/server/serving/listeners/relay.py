"""A relay: bytes go both ways between a client and the owner of its space, unread, with backpressure.

Each end is the protocol of one transport. What arrives at one is written to the other, and while the other's
transport has more than `RELAY_BYTES_MAX` unsent, nothing is read here: so a relay keeps a bounded number of bytes,
however slow either side is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, cast

from stemmadb.server.serving.listeners.half_close import half_close
from stemmadb.server.serving.ownership.port import LeavingConnection

RELAY_BYTES_MAX: Final = 64 * 1024

Connect: TypeAlias = Callable[[Callable[[], asyncio.Protocol]], Awaitable[object]]
"""Opens a transport to the owner with the protocol that is made: `create_connection` without its other arguments."""


class RelayEnd(asyncio.Protocol):
    """One end; `other` is the one whose transport gets what arrives here."""

    def __init__(self, transport: asyncio.Transport | None = None) -> None:
        self.transport = transport
        self.other: RelayEnd | None = None
        self.ending: Callable[[], None] = _nothing
        """Called when the owner has ended its direction: the client has to close soon."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # that of uvloop only looks like one
        self.transport.set_write_buffer_limits(high=RELAY_BYTES_MAX)

    def data_received(self, data: bytes) -> None:
        if (writes := self._opposite()) is not None:
            writes.write(data)

    def pause_writing(self) -> None:
        """The peer of this end is slow: nothing more is read at the other."""
        if (reads := self._opposite()) is not None:
            reads.pause_reading()

    def resume_writing(self) -> None:
        if (reads := self._opposite()) is not None:
            reads.resume_reading()

    def eof_received(self) -> bool | None:
        """A client that has ended is gone. An owner that has ended still reads until the client closes."""
        if self.ending is not _nothing:
            return None
        if (writes := self._opposite()) is not None:
            half_close(writes)
            assert self.other is not None, "it has a transport"
            self.other.ending()
            return True
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        writes, other = self._opposite(), self.other
        self.other = self.transport = None
        if writes is None or other is None:
            return
        if exc is None:
            writes.close()  # what was written is still sent, in bounded time
            other.ending()
        else:
            writes.abort()

    def _opposite(self) -> asyncio.Transport | None:
        transport = None if self.other is None else self.other.transport
        return None if transport is None or transport.is_closing() else transport


def _nothing() -> None:
    """There is nothing to do."""


async def begin_relay(leaving: LeavingConnection, connect: Connect, *, opening: bytes) -> RelayEnd:
    """Relays a connection: `opening` is written to the owner first, then what the client sends. Returns its end.

    What `connect` raises is raised. The client's transport was paused and is read from again.
    """
    client, owner = RelayEnd(leaving.transport), RelayEnd()
    client.other, owner.other = owner, client
    client.ending = leaving.ending
    await connect(lambda: owner)
    assert owner.transport is not None, "it is connected"
    if leaving.transport.is_closing():
        owner.transport.abort()
        return client
    leaving.transport.set_write_buffer_limits(high=RELAY_BYTES_MAX)
    owner.transport.write(opening)
    if owner.transport.get_write_buffer_size() <= RELAY_BYTES_MAX:  # else `resume_writing` does it
        leaving.transport.resume_reading()
    return client
