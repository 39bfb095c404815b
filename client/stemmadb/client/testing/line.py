"""The line of one client: its connections to the server, and everything that can go wrong with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final, Protocol, TypeAlias

import msgspec

from stemmadb.client.testing.link import OnSent, SimulatedConnection, Towards
from stemmadb.client.testing.pipe import Weather
from stemmadb.client.testing.trace import EventTrace, digest
from stemmadb.protocol.errors import Unreachable
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.channel import Channel, Dial
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.version import MSGPACK, Subprotocol
from stemmadb.server.service.base.transport import Arrival, ConnectionHandler

URL: Final = "ws://stemma.test"
"""The address of the server in messages; nothing listens there."""
DIAL_SECONDS: Final = 10.0
"""How long a client waits for an answer that does not come."""


Acceptor: TypeAlias = Callable[[SimulatedConnection, Arrival], ConnectionHandler]


class Doorkeeper(Protocol):
    """The server, as the network sees it."""

    limits: Limits

    def acceptor(self) -> Acceptor | None:
        """Lets a connection in; None while nobody listens."""
        ...


class MessageCount(msgspec.Struct):
    """Messages of one direction."""

    taken: int = 0
    """That arrived."""
    lost: int = 0
    """That were in flight when their connection ended."""


class ClientLine:
    """`world.network["alice"].offline()`: every fault is a method, and each lasts until it is taken back."""

    def __init__(self, name: str, keeper: Doorkeeper, weather: Weather, random: Random, trace: EventTrace) -> None:
        self.name = name
        self.links: list[SimulatedConnection] = []
        """Connections that are not over at both ends, oldest first."""
        self.dials = 0
        """Connections that were tried."""
        self.traffic = {towards: MessageCount() for towards in Towards}
        self.on_sent: OnSent | None = None
        """Called with each message of the server, in the moment in which it sends it."""
        self._keeper = keeper
        self._weather = weather
        self._random = random
        self._trace = trace
        self._is_online, self._is_silent, self._is_stalled = True, False, False
        self._drops: dict[Towards, int] = {}

    # ------------------------------------------------------------ connecting

    def dial(self, subprotocol: Subprotocol = MSGPACK) -> Dial:
        """Makes connections on this line."""
        return lambda space: self._connect(space, subprotocol)

    async def _connect(self, space: Did, subprotocol: Subprotocol) -> Channel:
        self.dials += 1
        await asyncio.sleep(self._weather.delay(self._random) + self._weather.delay(self._random))
        if not self._is_online and self._is_silent:
            await asyncio.sleep(DIAL_SECONDS)
        if not self._is_online:
            raise Unreachable(url=URL, why="there is no network")
        acceptor = self._keeper.acceptor()
        if acceptor is None:
            raise Unreachable(url=URL, why="the connection was refused")
        return self._join(acceptor, space, subprotocol)

    def _join(self, acceptor: Acceptor, space: Did, subprotocol: Subprotocol) -> Channel:
        link = SimulatedConnection(
            self, self._weather, self._random, subprotocol=subprotocol, limits=self._keeper.limits
        )
        self.links.append(link)
        if self._is_stalled:
            link.stall()
        self._trace.note(self.name, "connected", self.dials)
        arrival = Arrival(space=space, subprotocol=subprotocol, address=self.name)
        link.server.welcome(lambda: acceptor(link, arrival))
        return link.client

    # ------------------------------------------------------------ faults

    @property
    def is_online(self) -> bool:
        return self._is_online

    def offline(self, *, silent: bool = False) -> None:
        """Connections are cut and none can be made. If silent nobody is told: they hang, and so do new ones."""
        self._trace.note(self.name, "offline", silent)
        self._is_online, self._is_silent = False, silent
        for link in tuple(self.links):
            if silent:
                link.freeze()
            else:
                link.cut()

    def online(self) -> None:
        """Connections can be made again, and those that hang go on."""
        self._trace.note(self.name, "online")
        self._is_online = True
        self.melt()

    def cut(self) -> None:
        """Ends what is connected now; of what is in flight, in both directions, all from some message on is lost."""
        self._trace.note(self.name, "cut")
        for link in tuple(self.links):
            link.cut()

    def cut_channel(self, channel: Channel) -> None:
        """Ends one connection, if it is not over."""
        for link in tuple(self.links):
            if link.client is channel:
                link.cut()

    def drop_after(self, count: int, *, towards: Towards = Towards.CLIENT) -> None:
        """So many messages more arrive in this direction; the next one is lost, and its connection with it.

        With 0, before a commit is sent, it is the verdict that is lost: the commit is durable, and nobody was told.
        """
        self._trace.note(self.name, "drop", towards.value, count)
        self._drops[towards] = count

    def half_open(self) -> None:
        """What is connected now hangs: nothing arrives and nothing closes. A new connection works."""
        self._trace.note(self.name, "half_open")
        for link in tuple(self.links):
            link.freeze()

    def melt(self) -> None:
        """What hangs goes on, if the server has not given it up."""
        for link in tuple(self.links):
            link.melt()

    def stop_reading(self) -> None:
        """The client takes nothing of what it is sent, so that it piles up at the server."""
        self._trace.note(self.name, "stop_reading")
        self._is_stalled = True
        for link in self.links:
            link.stall()

    def read_on(self) -> None:
        self._trace.note(self.name, "read_on")
        self._is_stalled = False
        for link in self.links:
            link.flow()

    def slow(self, bytes_per_second: float | None) -> None:
        """No more than so many bytes get through in a second; None is as many as there are."""
        self._trace.note(self.name, "slow", bytes_per_second)
        self._weather.bytes_per_second = bytes_per_second

    def delay(self, latency: float, jitter: float = 0.0) -> None:
        """How long a message takes from now on."""
        self._trace.note(self.name, "delay", latency, jitter)
        self._weather.latency, self._weather.jitter = latency, jitter

    def heal(self) -> None:
        """Takes every fault back; what is cut stays cut."""
        self._drops.clear()
        self.online()
        self.read_on()
        self.slow(None)

    def forget(self) -> None:
        for link in self.links:
            link.up.shut()
            link.down.shut()
        self.links.clear()

    # ------------------------------------------------------------ what its connections tell

    def passes(self, towards: Towards, data: Data) -> bool:
        left = self._drops.get(towards)
        if left == 0:
            del self._drops[towards]
            return False
        if left is not None:
            self._drops[towards] = left - 1
        self.traffic[towards].taken += 1
        self._trace.note(self.name, towards.value, digest(data))
        return True

    def sent(self, link: SimulatedConnection, data: Data) -> None:
        if self.on_sent is not None:
            self.on_sent(link, data)

    def lost(self, towards: Towards, count: int) -> None:
        self.traffic[towards].lost += count

    def ended(self, link: SimulatedConnection) -> None:
        if link in self.links:
            self._trace.note(self.name, "ended")
            self.links.remove(link)
