"""Reading the file: read views that end, connections that are kept, and a storage that never writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from answers import asked_of, everything
from appends import append_to
from logs import LogMaker
from random_logs import RandomLog
from snapshots import drop_snapshots
from space import SPACE, set_
from stemmadb.protocol.errors import UnknownSpace
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, TimeMs, Version
from stemmadb.server.storage.port import LogFilter, LogReader, SpaceLog, Storage, StorageFailed
from stemmadb.server.storage.sqlite import SqliteLog, SqliteStorage
from stemmadb.server.storage.sqlite.read import commit_filter, listing, pool, records


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteStorage]:
    made = SqliteStorage(tmp_path)
    yield made
    made.close()


@pytest.fixture
def log(backend: SqliteStorage) -> SqliteLog:
    return backend.open(SPACE, create=True)


def test_the_classes_are_what_the_port_asks_for(backend: SqliteStorage, log: SqliteLog) -> None:
    storage: Storage = backend
    space_log: SpaceLog = log
    with space_log.reader() as reader:
        asked: LogReader = reader
        assert (asked.tip().version, space_log.is_alone, storage.spaces()) == (0, True, [SPACE])


def test_a_reader_is_of_no_use_once_its_cut_has_ended(log: SqliteLog) -> None:
    append_to(log, Version(0), [LogMaker().commit(set_("urn:x", 1, blind=True), set_("urn:y", 1, blind=True))])
    with log.reader() as reader:
        left = reader.snapshots()
        begun = reader.changed(LogMaker().spans(MAIN, 1))
        next(begun)
    for ask in (reader.branches, reader.floor, lambda: next(left), lambda: next(begun)):
        with pytest.raises(AssertionError, match="the read view has ended"):
            ask()


def test_few_connections_are_kept_and_any_number_can_read(log: SqliteLog) -> None:
    with ExitStack() as readers:
        opened = [readers.enter_context(log.reader()) for _ in range(pool.IDLE_MAX + 3)]
        assert {reader.tip().version for reader in opened} == {0}
    assert len(log._pool._idle) == pool.IDLE_MAX
    with log.reader():
        assert len(log._pool._idle) == pool.IDLE_MAX - 1
    assert len(log._pool._idle) == pool.IDLE_MAX


def test_a_connection_that_met_an_error_of_the_storage_is_not_used_again(log: SqliteLog) -> None:
    with pytest.raises(ZeroDivisionError), log.reader():
        raise ZeroDivisionError
    assert len(log._pool._idle) == 1
    with pytest.raises(StorageFailed), log.reader() as reader:
        reader._view.rows("SELECT nothing")
    assert log._pool._idle == []


def test_a_reader_outlives_the_log_and_then_closes_its_connection(log: SqliteLog) -> None:
    append_to(log, Version(0), [LogMaker().commit(set_("urn:x", 1, blind=True))])
    with log.reader() as reader:
        log.close()
        assert reader.ids("", None, 9) == ["urn:x"]
    assert log._pool._idle == []
    with pytest.raises(AssertionError, match="closed"), log.reader():
        pass
    with pytest.raises(AssertionError, match="closed"):
        append_to(log, Version(1), [])


def contents(directory: Path) -> dict[str, bytes]:
    files = [file for file in directory.rglob("*") if file.is_file() and not file.name.endswith("-shm")]
    return {str(file): held for file in files if (held := file.read_bytes())}


def test_a_read_only_storage_reads_beside_a_writer_and_changes_nothing(
    backend: SqliteStorage, log: SqliteLog, tmp_path: Path
) -> None:
    maker = LogMaker()
    append_to(log, Version(0), [maker.commit(set_("urn:x", 1, blind=True))])
    before = contents(tmp_path)
    reading = SqliteStorage(tmp_path, read_only=True)
    beside, again = reading.open(SPACE), reading.open(SPACE)
    with beside.reader() as reader, again.reader() as other:
        assert reader.tip() == other.tip() == maker.tip
    assert beside.integrity() == []
    assert contents(tmp_path) == before
    append_to(log, Version(1), [maker.commit(set_("urn:x", 2, blind=True))])
    with beside.reader() as reader:
        assert reader.tip() == maker.tip
    reading.close()
    assert (beside.is_closed, again.is_closed) == (True, True)


def test_a_read_only_storage_leaves_the_write_ahead_log_of_a_dead_process_alone(
    backend: SqliteStorage, log: SqliteLog, tmp_path: Path
) -> None:
    maker = LogMaker()
    append_to(log, Version(0), [maker.commit(set_("urn:x", 1, blind=True))])
    dead = tmp_path / "dead"
    for file, held in contents(tmp_path).items():  # as a process that was killed leaves it: with no index
        copy = dead / Path(file).relative_to(tmp_path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(held)
    before = contents(dead)
    assert any(name.endswith("-wal") for name in before)
    reading = SqliteStorage(dead, read_only=True)
    with reading.open(SPACE).reader() as reader:
        assert reader.tip() == maker.tip
    reading.close()
    assert contents(dead) == before


def test_the_writing_side_of_a_read_only_log_is_not_there(log: SqliteLog, tmp_path: Path) -> None:
    reading = SqliteStorage(tmp_path, read_only=True)
    beside = reading.open(SPACE, create=True)
    writes: list[Callable[[], None]] = [
        lambda: append_to(beside, Version(0), []),
        lambda: beside.store_snapshots([]),
        lambda: drop_snapshots(beside),
        lambda: beside.drop_blobs([]),
        beside.scrub,
    ]
    for write in writes:
        with pytest.raises(AssertionError, match="read only"):
            write()
    reading.close()


def test_a_read_only_storage_makes_no_space(tmp_path: Path) -> None:
    with pytest.raises(UnknownSpace):
        SqliteStorage(tmp_path, read_only=True).open(SPACE, create=True)
    assert list(tmp_path.iterdir()) == []


FILTERS = [
    LogFilter(prefix="urn:a"),
    LogFilter(prefix="urn:a:", order="oldest", branch=MAIN),
    LogFilter(structural=True, branch=MAIN),
    LogFilter(structural=True, prefix="urn:"),
    LogFilter(session=b"s1".ljust(16, b".")),
    LogFilter(session=b""),
    LogFilter(since=TimeMs(1_002), until=TimeMs(1_008), order="oldest"),
]


@pytest.mark.rule("COMMIT-8", "HISTORY-1")
@pytest.mark.parametrize("seed", range(8))
def test_answers_are_the_same_whichever_way_they_are_found(
    log: SqliteLog, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    maker = RandomLog(seed, log).run(15)
    asked = asked_of(maker)
    filters = [*FILTERS, *[LogFilter(author=commit.author, branch=MAIN) for commit in maker.commits[:3]]]

    def answers() -> list[object]:
        with log.reader() as reader:
            return [everything(reader, asked), *[reader.log(wanted, 5) for wanted in filters]]

    first = answers()
    monkeypatch.setattr(commit_filter, "CANDIDATES_MAX", 0)
    monkeypatch.setattr(listing, "FEW_VERSIONS", 0)
    monkeypatch.setattr(records, "CHUNK", 3)
    assert answers() == first


@pytest.mark.rule("COMMIT-11")
def test_operation_ids_are_in_no_session(log: SqliteLog) -> None:
    maker = LogMaker()
    append_to(log, Version(0), [maker.create_branch("draft"), maker.commit(set_("urn:x", 1, blind=True))])
    with log.reader() as reader:
        assert reader.log(LogFilter(session=b""), 9) == []
        assert reader.highest_locals([(maker.author, b"")]) == {(maker.author, b""): 0}
        assert reader.log(LogFilter(author=maker.author, order="oldest"), 9) == maker.commits


@pytest.mark.rule("BRANCH-2")
def test_spans_of_a_branch_that_never_was_hold_nothing(log: SqliteLog) -> None:
    append_to(log, Version(0), [LogMaker().commit(set_("urn:x", 1, blind=True))])
    spans = (Span(BranchName("nowhere"), Version(0), Version(1)),)
    with log.reader() as reader:
        assert reader.facts_of(EntityId("urn:x"), spans) == []
        assert reader.replays(spans, [EntityId("urn:x")]) == {}
        assert list(reader.changed(spans)) == []
        assert reader.changed_after(spans, "", Version(0), 9) == []
        assert reader.last_write(BranchName("nowhere"), Version(1)) == 0
        assert reader.log(LogFilter(branch=BranchName("nowhere")), 9) == []


def test_the_entities_that_changed_last_are_told_first(log: SqliteLog) -> None:
    maker = LogMaker()
    append_to(log, Version(0), [maker.commit(set_(f"urn:x:{number}", 1, blind=True)) for number in (3, 1, 2)])
    with log.reader() as reader:
        assert reader.changed_after(maker.spans(), "urn:x:", Version(0), 2) == ["urn:x:2", "urn:x:1"]


@pytest.mark.parametrize("few", [0, 1_000])
def test_no_more_changed_entities_are_told_than_asked_for(
    log: SqliteLog, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(listing, "FEW_VERSIONS", few)
    maker = LogMaker()
    names = [EntityId(f"urn:x:{number}") for number in range(4)]
    append_to(log, Version(0), [maker.commit(set_(id_, 1, blind=True)) for id_ in [*names * 2, *["urn:z"] * 5]])
    with log.reader() as reader:
        assert len(reader.changed_after(maker.spans(), "urn:x:", Version(1), 3)) == 3
        assert sorted(reader.changed_after(maker.spans(), "urn:x:", Version(1), 9)) == names
        assert reader.changed_after(maker.spans(), "urn:x:", Version(7), 9) == ["urn:x:3"]
        assert reader.changed_after(maker.spans(), "urn:x:", Version(99), 9) == []
