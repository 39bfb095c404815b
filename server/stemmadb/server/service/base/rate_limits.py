"""Rates and numbers of connections for each principal: a bucket that fills with time, and a count."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.values.ids import Did

BUCKETS_MAX: Final = 10_000
"""Principals whose rate is remembered; the one that came longest ago is forgotten, which only favours it."""

REFUSED_BYTES: Final = 4_096
"""A refused message counts once more for each so many bytes."""
REFUSALS_LARGE: Final = 8
"""So many messages of any size can be refused at once."""


class Bucket:
    """Holds one second of its rate, so that a burst is taken and a flood is not."""

    __slots__ = ("_at_ms", "_level", "_rate")

    def __init__(self, rate: int, now_ms: int) -> None:
        self._rate = rate
        self._level = float(rate)
        self._at_ms = now_ms

    def take(self, now_ms: int, cost: int = 1) -> int:
        """0 if there is room for so much more, else the milliseconds until there is."""
        if now_ms > self._at_ms:
            level = self._level + (now_ms - self._at_ms) * self._rate / 1_000
            self._level = level if level < self._rate else self._rate
        self._at_ms = now_ms
        if self._level >= cost:
            self._level -= cost
            return 0
        return max(1, round((cost - self._level) * 1_000 / self._rate))


class Refusals:
    """Refused messages of one connection, each of which costs the server work; a larger one costs more."""

    __slots__ = ("_bucket", "_most")

    def __init__(self, per_second: int, now_ms: int) -> None:
        self._bucket = Bucket(per_second, now_ms)
        self._most = max(1, per_second // REFUSALS_LARGE)

    def take(self, size: int, now_ms: int) -> int:
        """As `Bucket.take`, for a message of so many bytes."""
        return self._bucket.take(now_ms, min(1 + size // REFUSED_BYTES, self._most))


class Rates:
    """One bucket for each principal."""

    def __init__(self, per_second: int, now_ms: Callable[[], int]) -> None:
        self._per_second = per_second
        self._now_ms = now_ms
        self._buckets: OrderedDict[Did, Bucket] = OrderedDict()

    def take(self, principal: Did) -> int:
        """As `Bucket.take`."""
        now = self._now_ms()
        bucket = self._buckets.get(principal)
        if bucket is None:
            bucket = self._buckets[principal] = Bucket(self._per_second, now)
            if len(self._buckets) > BUCKETS_MAX:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(principal)
        return bucket.take(now)


class PrincipalTally(Protocol):
    """The connections of each principal in all processes of a server, where there are several."""

    def count(self, key: str, step: int) -> None: ...

    def is_full(self, key: str) -> bool: ...


PRINCIPAL: Final = "p:"
"""What the keys of principals begin with in a tally."""


class Connections:
    """How many connections each principal has open."""

    def __init__(self, per_principal_max: int) -> None:
        self._max = per_principal_max
        self.tally: PrincipalTally | None = None
        """Counts those of all processes together, where there are several."""
        self._open: Counter[Did] = Counter()

    def enter(self, principal: Did) -> None:
        """`LimitExceeded` if it has as many as it may."""
        count = self._open[principal] + 1
        tally = self.tally
        if count > self._max or (tally is not None and tally.is_full(PRINCIPAL + principal)):
            actual = max(count, self._max + 1)
            raise LimitExceeded(bound="connections_per_principal_max", maximum=self._max, actual=actual)
        self._open[principal] = count
        if tally is not None:
            tally.count(PRINCIPAL + principal, 1)

    def leave(self, principal: Did) -> None:
        self._open[principal] -= 1
        if self.tally is not None:
            self.tally.count(PRINCIPAL + principal, -1)
        if not self._open[principal]:
            del self._open[principal]
