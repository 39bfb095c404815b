"""Fast-path append: the same rows as with many statements, all of them or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from appends import append_to
from logs import LogMaker
from space import SPACE, set_
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, EntityId, Version
from stemmadb.server.storage.port import AcceptedWrite, FactPosition, LogMoved, Snapshot
from stemmadb.server.storage.sqlite import SqliteLog, SqliteStorage, fast_path_append
from stemmadb.server.storage.sqlite.connection import Cell

IDS = tuple(f"urn:x:{number}" for number in range(300))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    storage = SqliteStorage(tmp_path)
    yield storage.open(SPACE, create=True)
    storage.close()


def begun(log: SqliteLog) -> LogMaker:
    """A log that knows the ids, the session and their last facts."""
    maker = LogMaker()
    append_to(log, Version(0), [maker.commit(*(set_(id_, 0, blind=True) for id_ in IDS))])
    return maker


def rows(log: SqliteLog, table: str) -> list[tuple[object, ...]]:
    assert log._writer is not None
    return log._writer.execute(f'SELECT * FROM "{table}" ORDER BY 1').fetchall()  # noqa: S608


def verified(log: SqliteLog) -> int:
    with log.reader() as reader:
        return max(one.version for one in chain.verify(SPACE, reader.history()))


def batch(maker: LogMaker, commits: int, facts_each: int = 1) -> list[AcceptedWrite]:
    return [
        maker.commit(*(set_(IDS[at * facts_each + one], at, blind=True) for one in range(facts_each)))
        for at in range(commits)
    ]


def is_one_statement(
    log: SqliteLog, expected: Version, writes: list[AcceptedWrite], monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Appends, and says whether one statement did it."""
    statements: list[int] = []
    insert = fast_path_append.append

    def counted(connection: apsw.Connection, cells: list[Cell]) -> bool:
        statements.append(len(cells))
        return insert(connection, cells)

    with monkeypatch.context() as patched:
        patched.setattr(fast_path_append, "append", counted)
        append_to(log, expected, writes)
    return len(statements) == 1


@pytest.mark.rule("COMMIT-1", "COMMIT-6")
@pytest.mark.parametrize(("commits", "facts_each"), [(1, 1), (1, 3), (3, 1), (33, 2), (64, 1), (65, 1), (128, 2)])
def test_fast_path_rows_are_those_of_many_statements(
    tmp_path: Path, log: SqliteLog, commits: int, facts_each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = begun(log)
    other = SqliteStorage(tmp_path / "other").open(SPACE, create=True)
    with log.reader() as reader:
        append_to(other, Version(0), [AcceptedWrite(commit, facts) for commit, facts in reader.history()])
    made = batch(maker, commits, facts_each)
    assert is_one_statement(log, Version(1), made, monkeypatch), "all they refer to is in memory"
    append_to(other, Version(1), made)
    for table in ("commit", "fact", "entity", "session", "touched"):
        assert rows(log, table) == rows(other, table)
    other.close()
    assert verified(log) == 1 + commits


@pytest.mark.rule("COMMIT-1")
def test_more_rows_than_a_statement_takes_go_by_many(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = begun(log)
    made = batch(maker, fast_path_append.ROWS_MAX + 1)
    assert not is_one_statement(log, Version(1), made, monkeypatch)
    assert verified(log) == fast_path_append.ROWS_MAX + 2


@pytest.mark.rule("COMMIT-1")
@pytest.mark.parametrize("with_note", [False, True])
def test_more_bytes_than_sqlite_gathers_in_memory_go_by_many(
    log: SqliteLog, with_note: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they would be written to a file for themselves first, outside of the data directory."""
    maker = begun(log)
    large = "x" * (fast_path_append.BYTES_MAX // 2 - 20_000)
    note = encode(["x" * 60_000, None]) if with_note else None
    made = [maker.commit(set_(IDS[0], large, blind=True), note=note), maker.commit(set_(IDS[1], large, blind=True))]
    assert is_one_statement(log, Version(1), made, monkeypatch) is not with_note
    assert verified(log) == 3


@pytest.mark.rule("COMMIT-1")
def test_rows_that_do_not_follow_the_log_write_nothing_and_harm_nothing(log: SqliteLog) -> None:
    maker = begun(log)
    skipped = [maker.commit(set_(IDS[-1], 1, blind=True))]
    made = batch(maker, 2)
    with pytest.raises(LogMoved, match="at version 1 and not at 2"):
        append_to(log, Version(2), made)
    assert len(rows(log, "commit")) == 1
    append_to(log, Version(1), [*skipped, *made])
    assert verified(log) == 4


@pytest.mark.rule("SNAP-1")
def test_snapshots_that_are_due_are_kept_in_the_same_transaction(log: SqliteLog) -> None:
    maker = begun(log)
    made = batch(maker, 2)
    append_to(log, Version(1), made, [Snapshot(MAIN, EntityId(IDS[0]), FactPosition(Version(2), 0), encode(0))])
    assert len(rows(log, "snapshot")) == 1
    assert verified(log) == 3


def test_an_error_that_is_none_of_the_tip_is_told_as_it_is(log: SqliteLog) -> None:
    assert log._writer is not None
    with pytest.raises(apsw.ConstraintError):
        fast_path_append.append(log._writer, [*fast_path_append.NO_COMMIT, 1 << 20, *[None] * 8])


def test_nothing_of_it_is_in_the_file(log: SqliteLog) -> None:
    assert ("appended",) not in [(name,) for _, name, *_ in rows(log, "sqlite_schema")]
