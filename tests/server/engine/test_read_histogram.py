"""A histogram counts exactly the commits that the log shows to the same caller (HISTORY-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from appends import append_to
from logs import LogMaker
from random_logs import IDS, PREFIXES, RandomLog
from space import ALICE, BOB, SPACE, set_
from stemmadb.protocol.errors import UnknownBranch
from stemmadb.protocol.model.values.ids import BranchName, TimeMs, Version
from stemmadb.server.engine.base.paging import MayRead, anything
from stemmadb.server.engine.read import commit_log, log_histogram
from stemmadb.server.engine.read.log_histogram import CommitBucket, HistogramWanted, LogHistogram
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import LogFilter, LogReader, SpaceLog
from stemmadb.server.storage.sqlite import SqliteStorage


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SpaceLog]:
    storage = MemoryStorage() if request.param == "memory" else SqliteStorage(tmp_path)
    opened = storage.open(SPACE, create=True)
    yield opened
    opened.close()


def naive(shown: list[tuple[int, int]], by: str, count: int) -> list[CommitBucket]:
    """Every (version, time) that the log shows, put into its bucket one by one."""
    if not shown:
        return []
    at = 0 if by == "version" else 1
    low, high = shown[0][at], shown[-1][at]
    length = high - low + 1
    buckets: dict[int, list[tuple[int, int]]] = {}
    for one in shown:
        buckets.setdefault((one[at] - low) * min(count, length) // length, []).append(one)
    return [
        CommitBucket(Version(its[0][0]), Version(its[-1][0]), TimeMs(its[0][1]), TimeMs(its[-1][1]), len(its))
        for _, its in sorted(buckets.items())
    ]


def shown_by_log(reader: LogReader, wanted: LogFilter, may_read: MayRead) -> list[tuple[int, int]]:
    found: list[Any] = []
    page = commit_log.page(reader, wanted, may_read=may_read)
    found += page.entries
    while page.next is not None:
        page = commit_log.page(reader, wanted, may_read=may_read, after=page.next)
        found += page.entries
    return sorted({(entry.version, entry.time) for entry in found})


def drawn(chance: Random, maker: LogMaker) -> LogFilter:
    def maybe(chosen: Any) -> Any:
        return chosen if chance.random() < 0.4 else None

    return LogFilter(
        branch=maybe(chance.choice(sorted(maker.branches))),
        author=maybe(chance.choice([ALICE, BOB])),
        prefix=maybe(chance.choice(PREFIXES)),
        since=maybe(TimeMs(chance.randint(990, maker.now + 5))),
        until=maybe(TimeMs(chance.randint(990, maker.now + 5))),
        upto=maybe(Version(chance.randint(0, maker.version))),
    )


def within(prefixes: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    """What the service works out: the outermost of what both cover."""
    both = {max(prefix, mine, key=len) for mine in prefixes if prefix.startswith(mine) or mine.startswith(prefix)}
    return tuple(sorted(one for one in both if not any(one != other and one.startswith(other) for other in both)))


@pytest.mark.rule("HISTORY-4", "ACL-2")
@pytest.mark.parametrize("seed", range(8))
def test_a_histogram_counts_what_the_log_shows(log: SpaceLog, seed: int) -> None:
    maker, chance = RandomLog(seed, log).run(14), Random(seed)
    with log.reader() as reader:
        for number in range(40):
            commits = LogFilter() if number < 4 else drawn(chance, maker)
            by: Any = chance.choice(("version", "time"))
            count = chance.choice((1, 2, 3, 7, 400))
            mine = tuple(chance.sample(PREFIXES, 2)) if chance.random() < 0.5 else ("",)
            may_read = anything if "" in mine else _beginning_with(mine)
            wanted = HistogramWanted(commits=commits, by=by, buckets=count, within=within(mine, commits.prefix or ""))
            shown = shown_by_log(reader, commits, may_read)
            found = log_histogram.histogram(reader, wanted, may_read=may_read)
            assert found == LogHistogram(
                maker.version if commits.upto is None else commits.upto, tuple(naive(shown, by, count)), None
            )
            assert parts_of(reader, wanted, may_read) == [*found.buckets]


def _beginning_with(prefixes: tuple[str, ...]) -> MayRead:
    return lambda id_: id_.startswith(prefixes)


def parts_of(reader: LogReader, wanted: HistogramWanted, may_read: MayRead) -> list[CommitBucket]:
    """The buckets of a caller that is late each time; the parts of one bucket put together."""
    buckets: list[CommitBucket] = []
    grids = set()
    after, late = None, Late(3)
    for _ in range(1_000):
        asked = HistogramWanted(
            commits=wanted.commits, by=wanted.by, buckets=wanted.buckets, within=wanted.within, after=after
        )
        found = log_histogram.histogram(reader, asked, may_read=may_read, is_late=late)
        for bucket in reversed(found.buckets):
            assert not buckets or bucket.to_version < buckets[0].from_version
            buckets.insert(0, bucket)
        after = found.next
        if after is None:
            break
        grids.add(after.grid)
    assert len(grids) <= 1, "all parts are on one grid"
    shown = [(one.from_version, one.from_time) for one in buckets]
    shown += [(one.to_version, one.to_time) for one in buckets]
    return _joined(buckets, sorted(shown), wanted) if shown else []


def _joined(buckets: list[CommitBucket], ends: list[tuple[int, int]], wanted: HistogramWanted) -> list[CommitBucket]:
    """A bucket that took several answers is one again."""
    at = 0 if wanted.by == "version" else 1
    low, high = ends[0][at], ends[-1][at]
    length = high - low + 1
    joined: dict[int, CommitBucket] = {}
    for one in buckets:
        place = one.from_version if at == 0 else one.from_time
        number = (place - low) * min(wanted.buckets, length) // length
        first = joined.get(number)
        joined[number] = one if first is None else CommitBucket(
            first.from_version, one.to_version, first.from_time, one.to_time, first.commits + one.commits
        )  # fmt: skip
    return [*joined.values()]


class Late:
    """Late at every third look at the clock, but not while the grid is found."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._looks = 0

    def __call__(self) -> bool:
        self._looks += 1
        return self._looks % self._every == 0


@pytest.fixture(autouse=True)
def _looks_at_the_clock_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_histogram, "LOOKED_AT", 4)
    monkeypatch.setattr(log_histogram, "CHUNK_FIRST", 2)
    monkeypatch.setattr(log_histogram, "CHUNK", 5)


def filled(log: SpaceLog, count: int, id_of: Callable[[int], str]) -> LogMaker:
    maker = LogMaker()
    for number in range(count):
        maker.now += number % 3
        append_to(log, Version(number), [maker.commit(set_(id_of(number), number, blind=True))])
    return maker


@pytest.mark.rule("HISTORY-4")
@pytest.mark.parametrize("by", ["version", "time"])
def test_a_walk_that_is_late_at_once_still_gets_on(log: SpaceLog, by: Any) -> None:
    filled(log, 60, lambda number: IDS[number % 2])
    wanted = HistogramWanted(commits=LogFilter(prefix=IDS[1]), by=by, buckets=5)
    counted, answers, after = 0, 0, None
    with log.reader() as reader:
        while answers == 0 or after is not None:
            asked = HistogramWanted(commits=wanted.commits, by=by, buckets=5, after=after)
            found = log_histogram.histogram(reader, asked, is_late=lambda: True)
            counted, answers, after = counted + sum(one.commits for one in found.buckets), answers + 1, found.next
    assert counted == 30
    assert 5 < answers <= 15


@pytest.mark.rule("HISTORY-4")
def test_a_histogram_of_nothing_is_empty_and_of_no_branch_an_error(log: SpaceLog) -> None:
    with log.reader() as reader:
        bys: tuple[Any, ...] = ("version", "time")
        for by in bys:
            wanted = HistogramWanted(commits=LogFilter(), by=by, buckets=9)
            assert log_histogram.histogram(reader, wanted) == LogHistogram(Version(0), (), None)
        nowhere = LogFilter(branch=BranchName("nowhere"))
        with pytest.raises(UnknownBranch):
            log_histogram.histogram(reader, HistogramWanted(commits=nowhere, by="version", buckets=9))
