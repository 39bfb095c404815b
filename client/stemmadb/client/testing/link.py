"""A connection: two pipes and two ends, and what can happen to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Final, Protocol, TypeAlias

from stemmadb.client.testing.ends import ClientEnd, ServerEnd
from stemmadb.client.testing.pipe import HoldReason, Item, SimulatedPipe, Weather
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.version import Subprotocol
from stemmadb.server.service.base.transport import ConnectionHandler

HEARTBEAT_SECONDS: Final = 20.0
"""A server pings a peer that was silent so long, and cuts it off after as long again."""


class Towards(Enum):
    """A direction."""

    SERVER = "server"
    CLIENT = "client"


class Owner(Protocol):
    """The line of the client, as a connection sees it."""

    def passes(self, towards: Towards, data: Data) -> bool:
        """Whether a message gets through; it is counted by this."""
        ...

    def sent(self, link: SimulatedConnection, data: Data) -> None:
        """The server sends this."""
        ...

    def lost(self, towards: Towards, count: int) -> None: ...

    def ended(self, link: SimulatedConnection) -> None: ...


OnSent: TypeAlias = Callable[["SimulatedConnection", Data], object]


class SimulatedConnection:
    """Made once the server has answered the handshake."""

    def __init__(self, owner: Owner, weather: Weather, random: Random, *, subprotocol: Subprotocol, limits: Limits):
        self._loop = asyncio.get_running_loop()
        self._owner = owner
        self._weather = weather
        self._random = random
        self.client = ClientEnd(subprotocol, self)
        self.server = ServerEnd(
            self,
            self.client,
            message_bytes_max=2 * limits.message_bytes_max,  # as a listener: up to here the session answers
            opening_bytes_max=3 * limits.schema_bytes_max,
        )
        self.up = self._pipe(Towards.SERVER, self.server.arrived)
        self.down = self._pipe(Towards.CLIENT, self.client.arrived)
        self._is_frozen = False
        self._dead_at: asyncio.TimerHandle | None = None

    def _pipe(self, towards: Towards, deliver: Callable[[Item], None]) -> SimulatedPipe:
        return SimulatedPipe(
            self._weather,
            self._random,
            deliver=deliver,
            passes=lambda data: self._owner.passes(towards, data),
            broke=lambda: self._broke(towards),
        )

    # ------------------------------------------------------------ what happens to it

    def cut(self) -> None:
        """Both directions end; of what is in flight all from some message on is lost."""
        self._sever(None, None)

    def _broke(self, towards: Towards) -> None:
        """The next message of this direction is lost, and so is the connection."""
        self._sever(*((0, None) if towards is Towards.SERVER else (None, 0)))

    def _sever(self, keep_up: int | None, keep_down: int | None) -> None:
        self.melt()
        was_carrying = self.is_carrying
        self._owner.lost(Towards.SERVER, self.up.sever(keep=keep_up))
        self._owner.lost(Towards.CLIENT, self.down.sever(keep=keep_down))
        self.client_gone(was_carrying=was_carrying)

    def freeze(self) -> None:
        """Nothing arrives and nothing closes. The server's heartbeat finds it in the end; the client's is its own."""
        self._is_frozen = True
        for pipe in (self.up, self.down):
            pipe.hold(HoldReason.FROZEN)
        if self._dead_at is None:
            self._dead_at = self._loop.call_later(2 * HEARTBEAT_SECONDS, self._found_dead)

    def _found_dead(self) -> None:
        self._owner.lost(Towards.CLIENT, self.down.sever(keep=0))
        self.server.gone()

    def melt(self) -> None:
        """What was held arrives after all."""
        self._is_frozen = False
        self._forget_timer()
        for pipe in (self.up, self.down):
            pipe.release(HoldReason.FROZEN)

    def stall(self) -> None:
        """The client takes nothing of what it is sent."""
        self.down.hold(HoldReason.STALLED)

    def flow(self) -> None:
        self.down.release(HoldReason.STALLED)

    def abandon(self, *, silent: bool) -> ConnectionHandler | None:
        """The server's process died. Its system ends the connection, unless the machine died with it."""
        handler = self.server.die()
        if silent:
            self._is_frozen = True
            for pipe in (self.up, self.down):
                pipe.shut()
                pipe.hold(HoldReason.FROZEN)
        else:
            self.cut()
        return handler

    # ------------------------------------------------------------ what its ends tell

    def server_sent(self, data: Data) -> None:
        self._owner.sent(self, data)

    @property
    def is_carrying(self) -> bool:
        return bool(self.down.bytes or self.client.unread)

    def client_gone(self, *, was_carrying: bool) -> None:
        """The server's system knows once it gets an answer to what it sends, which is after all that came before."""
        when = self.up.last_due + self._weather.delay(self._random)
        self._loop.call_at(when, self._reset, was_carrying)

    def _reset(self, was_writing: bool) -> None:
        if not self._is_frozen:
            self.server.reset(was_writing=was_writing)

    def over(self) -> None:
        if self.server.is_over:
            self._forget_timer()
            if self.client.is_over:
                self._owner.ended(self)

    def _forget_timer(self) -> None:
        if self._dead_at is not None:
            self._dead_at.cancel()
            self._dead_at = None
