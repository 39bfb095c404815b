"""How many commits the log shows, in buckets by version or by time (HISTORY-4).

Time never goes back (COMMIT-7), so a bucket is a range of versions either way. For a caller that may read everything,
and without a filter, the commits in it are a difference of versions: a border costs one look-up by version, and
one bisection by time. Everything else is a walk, newest first, that ends when it is late and can go on later.

    commits that count     2  5  6 | 11 | 17 18 19       three buckets from 2 to 19 by version
    the bucket of one      (version - 2) * 3 // 18       also where the walk was cut in two
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from stemmadb.protocol.errors import UnknownBranch
from stemmadb.protocol.model.values.ids import TimeMs, Version
from stemmadb.server.engine.base.paging import MayRead, anything
from stemmadb.server.engine.read.commit_log import LogQuestion
from stemmadb.server.storage.port import LogFilter, LogReader, Order

By: TypeAlias = Literal["version", "time"]
CHUNK_FIRST: Final = 64
CHUNK: Final = 2_048
LOOKED_AT: Final = 64
"""Commits that a walk looks at between two looks at the clock."""


class CommitBucket(msgspec.Struct, frozen=True):
    """The first and the last commit that count in it, and how many do."""

    from_version: Version
    to_version: Version
    from_time: TimeMs
    to_time: TimeMs
    commits: int


class Grid(msgspec.Struct, frozen=True):
    """The first and the last commit that count at all, between which the buckets have equal lengths."""

    low: Version
    high: Version


class HistogramPlace(msgspec.Struct, frozen=True):
    """Where a walk was late: what comes before this version is still to be counted.

    On the same grid, or, if the walk was late before that was known, on one of its own.
    """

    version: Version
    grid: Grid | None


class LogHistogram(msgspec.Struct, frozen=True):
    """Buckets with a commit, oldest first; older ones are missing if there is a `next`."""

    version: Version
    buckets: tuple[CommitBucket, ...]
    next: HistogramPlace | None


class HistogramWanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted. `within` are the prefixes that cover what the caller may read, under that of the filter."""

    commits: LogFilter
    by: By
    buckets: int
    within: Sequence[str] = ("",)
    after: HistogramPlace | None = None


class CountedCommit(NamedTuple):
    """A commit that counts."""

    version: Version
    time: TimeMs


class _Late(Exception):
    """The time is over."""


def never() -> bool:
    """For a walk that has all the time it needs."""
    return False


def histogram(
    reader: LogReader, wanted: HistogramWanted, *, may_read: MayRead = anything, is_late: Callable[[], bool] = never
) -> LogHistogram:
    """The commits that `commit_log.page` shows to the same caller under the same filter, in buckets."""
    commits = wanted.commits
    if commits.branch is not None and reader.branch(commits.branch) is None:
        raise UnknownBranch(branch=commits.branch)
    version = reader.tip().version if commits.upto is None else commits.upto
    if may_read is anything and _is_unfiltered(commits):
        return LogHistogram(version, _counted_by_borders(reader, wanted, version), None)
    return _counted_by_walk(reader, wanted, version, may_read, is_late)


def _is_unfiltered(wanted: LogFilter) -> bool:
    return wanted.branch is None and wanted.author is None and wanted.session is None and wanted.prefix is None


# ------------------------------------------------------------ every commit counts


def _counted_by_borders(reader: LogReader, wanted: HistogramWanted, head: Version) -> tuple[CommitBucket, ...]:
    since, until = wanted.commits.since, wanted.commits.until
    low = 1 if since is None else reader.version_at(TimeMs(since - 1)) + 1
    high = head if until is None else min(head, reader.version_at(until))
    if low > high:
        return ()
    if wanted.by == "version":
        starts = _starts(low, high, wanted.buckets)
    else:
        ends = reader.times([Version(low), Version(high)])
        borders = _starts(ends[Version(low)], ends[Version(high)], wanted.buckets)[1:]
        found = reader.versions_at([TimeMs(border - 1) for border in borders])
        starts = [low, *(version + 1 for version in found)]
    ranges = [(start, end - 1) for start, end in pairwise((*starts, high + 1)) if start < end]
    times = reader.times([Version(one) for both in ranges for one in both])
    return tuple(
        CommitBucket(Version(one), Version(last), times[Version(one)], times[Version(last)], last - one + 1)
        for one, last in ranges
    )


def _starts(low: int, high: int, count: int) -> list[int]:
    """The least place of each bucket: the least that `_bucket_of` gives it."""
    length = high - low + 1
    count = min(count, length)
    return [low - (-number * length // count) for number in range(count)]


def _bucket_of(place: int, low: int, high: int, count: int) -> int:
    length = high - low + 1
    return (place - low) * min(count, length) // length


# ------------------------------------------------------------ a walk


def _counted_by_walk(
    reader: LogReader, wanted: HistogramWanted, version: Version, may_read: MayRead, is_late: Callable[[], bool]
) -> LogHistogram:
    walk = _Walk(reader, wanted, may_read, is_late)
    grid = (None if wanted.after is None else wanted.after.grid) or walk.grid()
    found: list[CountedCommit] = []
    stopped: Version | None = None
    try:
        found.extend(walk.commits("newest"))  # what it took before it was late stays
    except _Late:
        stopped = walk.seen
    if not found:
        return LogHistogram(version, (), _place(stopped, grid))
    buckets = _grouped(reader, wanted, grid or Grid(found[-1].version, found[0].version), found)
    if stopped is None:
        return LogHistogram(version, tuple(buckets), None)
    if grid is not None and len(buckets) > 1:
        buckets, stopped = buckets[1:], buckets[1].from_version  # the oldest may have more commits
    return LogHistogram(version, tuple(buckets), _place(stopped, grid))


def _place(stopped: Version | None, grid: Grid | None) -> HistogramPlace | None:
    return None if stopped is None else HistogramPlace(stopped, grid)


def _grouped(
    reader: LogReader, wanted: HistogramWanted, grid: Grid, newest_first: Sequence[CountedCommit]
) -> list[CommitBucket]:
    low, high = int(grid.low), int(grid.high)
    if wanted.by == "time":
        ends = reader.times([grid.low, grid.high])
        low, high = ends[grid.low], ends[grid.high]

    def bucket_of(one: CountedCommit) -> int:
        return _bucket_of(one.version if wanted.by == "version" else one.time, low, high, wanted.buckets)

    grouped = [list(commits) for _, commits in groupby(reversed(newest_first), key=bucket_of)]
    return [CommitBucket(its[0].version, its[-1].version, its[0].time, its[-1].time, len(its)) for its in grouped]


class _Walk:
    """The commits that count, in either order. `seen` is the last that was looked at."""

    def __init__(
        self, reader: LogReader, wanted: HistogramWanted, may_read: MayRead, is_late: Callable[[], bool]
    ) -> None:
        self._reader = reader
        upto = wanted.commits.upto if wanted.after is None else Version(wanted.after.version - 1)
        self._wanted = replace(wanted.commits, upto=upto)
        self._within = wanted.within
        self._may_read = may_read
        self._is_late = is_late
        self.seen: Version | None = None

    def grid(self) -> Grid | None:
        """From the first to the last that counts; None if there is none, or it was late before they were found."""
        try:
            high, low = (next(self.commits(order), None) for order in _ORDERS)
        except _Late:
            return None
        return None if low is None or high is None else Grid(low.version, high.version)

    def commits(self, order: Order) -> Iterator[CountedCommit]:
        """Those that count. Raises `_Late` after some that were looked at, counting or not."""
        for number, one in enumerate(self._candidates(order), 1):
            self.seen = one.version
            if one.counts:
                yield CountedCommit(one.version, one.time)
            if number % LOOKED_AT == 0 and self._is_late():
                raise _Late

    def _candidates(self, order: Order) -> Iterator[_Candidate]:
        wanted = replace(self._wanted, order=order)
        if self._may_read is anything:
            return self._times(wanted)
        streams = [self._times(replace(wanted, prefix=one, ordinary=True)) for one in self._within]
        return _merged([*streams, self._structural(wanted)], order)

    def _times(self, wanted: LogFilter) -> Iterator[_Candidate]:
        """Commits of which every one counts."""
        size = CHUNK_FIRST
        while page := self._reader.log_times(wanted, size):
            for version, time in page:
                yield _Candidate(version, time, True)
            wanted, size = replace(wanted, after=page[-1][0]), CHUNK

    def _structural(self, wanted: LogFilter) -> Iterator[_Candidate]:
        """Writes other than ordinary commits: they may have no facts, and may name what may not be read."""
        question = LogQuestion(self._reader, replace(wanted, structural=True), self._may_read)
        for commit, is_shown in question.visible():
            yield _Candidate(commit.version, commit.time, is_shown)


class _Candidate(NamedTuple):
    version: Version
    time: TimeMs
    counts: bool


_ORDERS: Final[tuple[Order, Order]] = ("newest", "oldest")


def _merged(streams: Sequence[Iterator[_Candidate]], order: Order) -> Iterator[_Candidate]:
    """Each commit once, though it may have facts under several prefixes."""
    merged = heapq.merge(*streams, key=attrgetter("version"), reverse=order == "newest")
    for _, same in groupby(merged, key=attrgetter("version")):
        first, *others = same
        yield first._replace(counts=first.counts or any(one.counts for one in others))
