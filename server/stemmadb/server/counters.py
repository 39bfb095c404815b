"""Plain counters that any part of the server increments, without knowing what reads them.

Used from one event loop. Measurements from a worker are counted on the loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from stemmadb.protocol.model.values.ids import Did

SPACES_MAX: Final = 1_000
"""Spaces with counters of their own; all others share one set."""
BATCH_BOUNDS: Final[Sequence[float]] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SECONDS_BOUNDS: Final[Sequence[float]] = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0
)  # fmt: skip


class ValueHistogram:
    """How often a value fell between two bounds, the last one being open, and the sum of all values."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """A value equal to a bound counts as below it, as in Prometheus."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def add(self, other: ValueHistogram) -> None:
        assert self.bounds == other.bounds
        self.counts = [mine + others for mine, others in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum


class SpaceCounts:
    """What happened in one space since the process began; the last four go down again."""

    __slots__ = (
        "append_seconds",
        "batch_commits",
        "bytes_in",
        "bytes_out",
        "cache_hits",
        "cache_misses",
        "commits",
        "failures",
        "groups",
        "messages_in",
        "messages_out",
        "queued",
        "rejections",
        "sessions",
        "watches",
    )

    def __init__(self) -> None:
        self.commits = 0
        """Accepted and durable."""
        self.rejections: Counter[str] = Counter()
        """Verdicts that were not accepted, by code."""
        self.failures: Counter[str] = Counter()
        """Requests answered with an error that is no verdict, by code."""
        self.batch_commits = ValueHistogram(BATCH_BOUNDS)
        """Commits written together."""
        self.append_seconds = ValueHistogram(SECONDS_BOUNDS)
        """How long one append with its sync took."""
        self.messages_in = self.messages_out = 0
        self.bytes_in = self.bytes_out = 0
        self.cache_hits = self.cache_misses = 0
        """Heads that the writer needed and found in memory, or not."""
        self.queued = 0
        """Commits that wait now."""
        self.sessions = 0
        self.watches = 0
        self.groups = 0
        """Watches that are different: equal ones share one group."""


class Counts:
    """The counters of all spaces."""

    def __init__(self) -> None:
        self.other = SpaceCounts()
        """All spaces beyond `SPACES_MAX`."""
        self._spaces: dict[Did, SpaceCounts] = {}

    def space(self, did: Did) -> SpaceCounts:
        """The counters of a space, which may share them with others; to be asked for once and kept."""
        found = self._spaces.get(did)
        if found is None and len(self._spaces) < SPACES_MAX:
            found = self._spaces[did] = SpaceCounts()
        return self.other if found is None else found

    def spaces(self) -> Iterator[tuple[Did, SpaceCounts]]:
        """Those that are counted apart."""
        return iter(self._spaces.items())
