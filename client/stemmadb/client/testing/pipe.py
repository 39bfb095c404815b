"""One direction of a connection: what goes in comes out later, in order, each once, or is lost with all behind it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Final, NamedTuple, TypeAlias

import msgspec

from stemmadb.protocol.wire.codec.msgpack_codec import Data

CUT: Final = 1006
"""The close code of a connection that ended without a close frame."""


class End(NamedTuple):
    """The last thing in a pipe: the close frame, or that there will be none."""

    code: int


Item: TypeAlias = Data | End


class HoldReason(Enum):
    """Why nothing comes out."""

    PAUSED = "the receiver does not read"
    STALLED = "the client is slow"
    FROZEN = "nothing gets through"


class Weather(msgspec.Struct, kw_only=True):
    """How a line is now; pipes look at it with each message."""

    latency: float
    """Seconds in one direction, at least."""
    jitter: float
    """Seconds that chance adds, at most."""
    bytes_per_second: float | None = None
    """None is as many as there are."""

    def delay(self, random: Random) -> float:
        return self.latency + random.random() * self.jitter


class _Sent(NamedTuple):
    item: Item
    size: int
    due: float


class SimulatedPipe:
    """`deliver` is called from the loop, never from inside `put`. `passes` says whether the next message gets through
    at all; if it does not, `broke` is called instead, and it is for the owner to sever both directions."""

    def __init__(
        self,
        weather: Weather,
        random: Random,
        *,
        deliver: Callable[[Item], None],
        passes: Callable[[Data], bool],
        broke: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._weather = weather
        self._random = random
        self._deliver, self._passes, self._broke = deliver, passes, broke
        self._queue: deque[_Sent] = deque()
        self._held: set[HoldReason] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.last_due = 0.0
        """When the last thing that went in comes out."""
        self._is_open = True
        self.bytes = 0
        """That went in and have not come out."""

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, item: Item) -> None:
        """Takes it; nothing follows an `End`."""
        if not self._is_open:
            return
        self._is_open = not isinstance(item, End)
        size = 0 if isinstance(item, End) else len(item)
        self.last_due = max(self.last_due, self._loop.time() + self._weather.delay(self._random)) + self._takes(size)
        self._queue.append(_Sent(item, size, self.last_due))
        self.bytes += size
        self._arm()

    def _takes(self, size: int) -> float:
        rate = self._weather.bytes_per_second
        return size / rate if rate else 0.0

    def sever(self, *, keep: int | None = None) -> int:
        """Loses what is in flight from the message `keep` on, by chance if None, and ends; how many were lost."""
        messages = [sent for sent in self._queue if not isinstance(sent.item, End)]
        keep = self._random.randint(0, len(messages)) if keep is None else keep
        self._queue = deque(messages[:keep])
        self.bytes = sum(sent.size for sent in self._queue)
        self.last_due = self._queue[-1].due if self._queue else self._loop.time()
        self._is_open = True
        self.put(End(CUT))
        return len(messages) - keep

    def shut(self) -> None:
        """Nothing comes out any more."""
        self._is_open = False
        self._queue.clear()
        self.bytes = 0
        self._disarm()

    def hold(self, why: HoldReason) -> None:
        self._held.add(why)
        self._disarm()

    def release(self, why: HoldReason) -> None:
        self._held.discard(why)
        self._arm()

    # ------------------------------------------------------------ coming out

    def _arm(self) -> None:
        if self._queue and self._timer is None and not self._held:
            self._timer = self._loop.call_at(self._queue[0].due, self._flow, self._queue[0].due)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _flow(self, due: float) -> None:
        """One read: all that has come until now arrives, also if the first of it stops the reading."""
        self._timer = None
        now = max(self._loop.time(), due)  # the loop may call a trifle early
        while self._queue and self._queue[0].due <= now:
            sent = self._queue[0]
            if not isinstance(sent.item, End) and not self._passes(sent.item):
                self._broke()
                return
            self._queue.popleft()
            self.bytes -= sent.size
            self._deliver(sent.item)
        self._arm()
