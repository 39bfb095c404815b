"""The network of a world: the lines of all clients, and faults for one of them, for all, or by chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeAlias, get_args

from stemmadb.client.testing import seeds
from stemmadb.client.testing.chaos import Chaos, Fault
from stemmadb.client.testing.line import ClientLine, Doorkeeper
from stemmadb.client.testing.link import OnSent, Towards
from stemmadb.client.testing.pipe import Weather
from stemmadb.client.testing.trace import EventTrace
from stemmadb.protocol.wire.channel import Dial
from stemmadb.protocol.wire.version import MSGPACK, Subprotocol

LATENCY_SECONDS: Final = 0.005
JITTER_SECONDS: Final = 0.005
DROP_MAX: Final = 8
"""Messages that chaos lets through before it drops one."""

FaultName: TypeAlias = Literal["cut", "drop", "half_open", "offline", "silence", "stall"]
FAULTS: Final[tuple[FaultName, ...]] = get_args(FaultName)


class Network:
    """`network["alice"]` is a line; the faults of all of them have the same names here.

    Messages of one connection arrive in order, each once, or the connection ends; those of several connections
    overtake each other. The same seed gives the same delays and the same faults.
    """

    def __init__(
        self,
        keeper: Doorkeeper,
        *,
        seed: int = 0,
        trace: EventTrace | None = None,
        latency: float = LATENCY_SECONDS,
        jitter: float = JITTER_SECONDS,
    ) -> None:
        self.trace = trace or EventTrace()
        self._keeper = keeper
        self._seed = seed
        self._latency, self._jitter = latency, jitter
        self._lines: dict[str, ClientLine] = {}
        self._on_sent: OnSent | None = None
        self._chaos: Chaos | None = None
        self._chaos_count = 0

    def __getitem__(self, name: str) -> ClientLine:
        """The line of a client, made when it is asked for."""
        line = self._lines.get(name)
        if line is None:
            weather = Weather(latency=self._latency, jitter=self._jitter)
            random = seeds.stream(self._seed, "line", name)
            line = self._lines[name] = ClientLine(name, self._keeper, weather, random, self.trace)
            line.on_sent = self._on_sent
        return line

    def __iter__(self) -> Iterator[ClientLine]:
        return iter(tuple(self._lines.values()))

    def dial(self, name: str, subprotocol: Subprotocol = MSGPACK) -> Dial:
        """Makes connections for the client of this name."""
        return self[name].dial(subprotocol)

    def forget(self) -> None:
        """Drops all connections without a word: the loop they were made on ends."""
        for line in self:
            line.forget()

    def on_sent(self, callback: OnSent) -> None:
        """Calls it with each message of the server on any line, in the moment in which it sends it."""
        self._on_sent = callback
        for line in self:
            line.on_sent = callback

    # ------------------------------------------------------------ faults of all lines there are

    def offline(self, *, silent: bool = False) -> None:
        """See `ClientLine.offline`."""
        for line in self:
            line.offline(silent=silent)

    def online(self) -> None:
        for line in self:
            line.online()

    def cut(self) -> None:
        """See `ClientLine.cut`."""
        for line in self:
            line.cut()

    def half_open(self) -> None:
        """See `ClientLine.half_open`."""
        for line in self:
            line.half_open()

    def melt(self) -> None:
        for line in self:
            line.melt()

    def delay(self, latency: float, jitter: float = 0.0) -> None:
        """How long a message takes from now on, also on lines that are made later."""
        self._latency, self._jitter = latency, jitter
        for line in self:
            line.delay(latency, jitter)

    # ------------------------------------------------------------ by chance

    def chaos(self, *, every: float = 1.0, longest: float = 5.0, faults: tuple[FaultName, ...] = FAULTS) -> Chaos:
        """From now on a fault on some line `every` so many seconds on average; none lasts longer than `longest`."""
        return self.chaos_of(self.faults(longest, faults), every=every)

    def chaos_of(self, faults: dict[str, Fault], *, every: float) -> Chaos:
        """The same with faults of the caller's."""
        self.stop_chaos()
        self._chaos_count += 1
        random = seeds.stream(self._seed, "chaos", self._chaos_count)
        self._chaos = Chaos(random, every=every, faults=faults)
        return self._chaos

    def calm(self) -> None:
        """Ends the chaos and takes every fault back; what was cut stays cut."""
        self.stop_chaos()
        for line in self:
            line.heal()

    def stop_chaos(self) -> None:
        if self._chaos is not None:
            self._chaos.stop()
            self._chaos = None

    def faults(self, longest: float, names: tuple[FaultName, ...] = FAULTS) -> dict[str, Fault]:
        """The faults of a line, each on one that chance picks."""
        random = seeds.stream(self._seed, "faults", self._chaos_count)

        def lasting(
            begin: Callable[[ClientLine], None], end: Callable[[ClientLine], None]
        ) -> Callable[[ClientLine], None]:
            def fault(line: ClientLine) -> None:
                assert self._chaos is not None, "faults strike while there is chaos"
                begin(line)
                self._chaos.later(random.uniform(0, longest), lambda: end(line))

            return fault

        def on_some_line(fault: Callable[[ClientLine], None]) -> Fault:
            return lambda: fault(random.choice(lines)) if (lines := list(self._lines.values())) else None

        every: dict[FaultName, Callable[[ClientLine], None]] = {
            "cut": ClientLine.cut,
            "drop": lambda line: line.drop_after(random.randint(0, DROP_MAX), towards=random.choice(list(Towards))),
            "half_open": lasting(ClientLine.half_open, ClientLine.melt),
            "offline": lasting(ClientLine.offline, ClientLine.online),
            "silence": lasting(lambda line: line.offline(silent=True), ClientLine.online),
            "stall": lasting(ClientLine.stop_reading, ClientLine.read_on),
        }
        return {name: on_some_line(every[name]) for name in names}
