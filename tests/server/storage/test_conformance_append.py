"""Every backend: appending is all or nothing, durable, and only where the writer thinks the log is."""

from __future__ import annotations

import pytest

from answers import asked_of, everything
from appends import append_to
from backends import Backend
from logs import LogMaker
from random_logs import RandomLog
from snapshots import drop_snapshots
from space import BOB, SPACE, set_
from stemmadb.protocol.errors import UnknownSpace
from stemmadb.protocol.model.log import chain, commit_record
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs, Version
from stemmadb.server.storage.port import AcceptedWrite, FactPosition, LogMoved, Snapshot, SpaceLog, StorageFailed, Tip

ZERO = Version(0)


def tip_of(log: SpaceLog) -> Tip:
    with log.reader() as reader:
        return reader.tip()


def sets(maker: LogMaker, count: int) -> list[AcceptedWrite]:
    return [maker.commit(set_("urn:x", number, blind=True)) for number in range(count)]


@pytest.mark.rule("MODEL-1")
def test_an_empty_log_is_at_version_zero_and_has_main(log: SpaceLog) -> None:
    assert log.space == SPACE
    with log.reader() as reader:
        assert reader.tip() == Tip(ZERO, commit_record.genesis(SPACE), TimeMs(0))
        assert reader.branches() == [BranchState(name=BranchName("main"))]
        assert reader.branch("main") == BranchState(name=BranchName("main"))
        assert reader.branch("draft") is None
        assert (reader.tags(), reader.floor(), list(reader.history())) == ([], ZERO, [])


def test_a_space_that_is_not_there_is_unknown_until_it_is_made(backend: Backend) -> None:
    with pytest.raises(UnknownSpace):
        backend.open(create=False)
    assert backend.storage.spaces() == []
    backend.open()
    backend.open(BOB)
    assert sorted(backend.storage.spaces()) == sorted([SPACE, BOB])
    assert tip_of(backend.reopen()).version == 0
    assert sorted(backend.storage.spaces()) == sorted([SPACE, BOB])


def test_to_make_a_space_that_is_there_opens_it(backend: Backend) -> None:
    maker = LogMaker()
    append_to(backend.open(), ZERO, sets(maker, 2))
    backend.close()
    assert tip_of(backend.open(create=True)) == maker.tip


def test_spaces_do_not_see_each_other(backend: Backend) -> None:
    maker = LogMaker()
    append_to(backend.open(), ZERO, sets(maker, 1))
    other = backend.open(BOB)
    assert other.space == BOB
    assert tip_of(other) == Tip(ZERO, commit_record.genesis(BOB), TimeMs(0))


@pytest.mark.rule("COMMIT-1")
def test_what_was_appended_is_there_when_the_log_is_opened_again(backend: Backend) -> None:
    maker = LogMaker()
    log = backend.open()
    append_to(log, ZERO, sets(maker, 3))
    assert tip_of(log) == maker.tip
    append_to(log, maker.version, sets(maker, 2)[:1])
    with backend.reopen().reader() as reader:
        assert [record for record, _ in reader.history()] == maker.commits[:4]


@pytest.mark.rule("COMMIT-8")
@pytest.mark.parametrize("seed", range(5))
def test_a_log_that_is_opened_again_gives_the_same_answers(backend: Backend, seed: int) -> None:
    log = backend.open()
    maker = RandomLog(seed, log).run(10)
    asked = asked_of(maker)
    with log.reader() as reader:
        before = everything(reader, asked)
    with backend.reopen().reader() as reader:
        assert everything(reader, asked) == before


def test_a_log_that_is_opened_again_goes_on(backend: Backend) -> None:
    """Nothing that an append needs is only in the memory of the log that was closed."""
    making = RandomLog(3, backend.open())
    for _ in range(12):
        making.append()
        making.log = backend.reopen()
    with making.log.reader() as reader:
        assert list(chain.verify(SPACE, reader.history()))[-1].version == making.maker.version


@pytest.mark.rule("COMMIT-1")
@pytest.mark.parametrize("expected", [0, 1, 3, 99])
def test_a_stale_append_writes_nothing(log: SpaceLog, expected: int) -> None:
    maker = LogMaker()
    append_to(log, ZERO, sets(maker, 2))
    before = maker.tip
    later = sets(maker, 1)
    with pytest.raises(LogMoved):
        append_to(log, Version(expected), later)
    assert tip_of(log) == before
    append_to(log, Version(2), later)
    assert tip_of(log) == maker.tip


def test_an_empty_batch_asks_only_whether_the_log_moved(log: SpaceLog) -> None:
    maker = LogMaker()
    append_to(log, ZERO, [])
    append_to(log, ZERO, sets(maker, 2))
    for stale in (0, 1, 3):
        with pytest.raises(LogMoved):
            append_to(log, Version(stale), [])
    append_to(log, Version(2), [])
    assert tip_of(log) == maker.tip


def test_of_two_writers_of_one_space_the_late_one_is_told_that_the_log_moved(backend: Backend) -> None:
    """Where nobody else can open the log to write, they are two that share it."""
    one = backend.open()
    other = one if one.is_alone else backend.open()
    maker = LogMaker()
    first, second = sets(maker, 2)
    append_to(one, ZERO, [first])
    with pytest.raises(LogMoved):
        append_to(other, ZERO, [first])
    append_to(other, Version(1), [second])
    with pytest.raises(LogMoved):
        append_to(one, Version(1), [])
    assert tip_of(one) == tip_of(other) == maker.tip


@pytest.mark.rule("COMMIT-1")
def test_a_batch_of_which_a_part_cannot_be_written_writes_nothing(backend: Backend) -> None:
    maker = LogMaker()
    log = backend.open()
    append_to(log, ZERO, sets(maker, 1))
    before = maker.tip
    first, second = sets(maker, 2)
    with pytest.raises((AssertionError, StorageFailed)):
        append_to(log, Version(1), [first, second, second])
    log = backend.reopen()
    assert tip_of(log) == before
    append_to(log, Version(1), [first, second])
    assert tip_of(log) == maker.tip


@pytest.mark.rule("SNAP-1")
def test_snapshots_go_along_with_an_append_or_are_kept_alone(backend: Backend) -> None:
    maker = LogMaker()
    log = backend.open()
    entries = sets(maker, 3)
    taken = [
        Snapshot(BranchName("main"), EntityId("urn:x"), FactPosition(Version(at), 0), b"\x01") for at in (1, 2, 3)
    ]
    append_to(log, ZERO, entries[:2], taken[:1])
    append_to(log, Version(2), entries[2:], [taken[2]])
    log.store_snapshots([taken[1]])
    log.store_snapshots([taken[1]])
    log = backend.reopen()
    with log.reader() as reader:
        assert sorted(reader.snapshots(), key=lambda snapshot: snapshot.place) == taken
    drop_snapshots(log)
    with backend.reopen().reader() as reader:
        assert list(reader.snapshots()) == []


def test_a_stale_append_keeps_no_snapshot(log: SpaceLog) -> None:
    maker = LogMaker()
    append_to(log, ZERO, sets(maker, 1))
    taken = maker.snapshot(maker.facts[0])
    assert taken is not None
    with pytest.raises(LogMoved):
        append_to(log, ZERO, [], [taken])
    with log.reader() as reader:
        assert list(reader.snapshots()) == []
