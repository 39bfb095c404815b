"""Appending to the file: numbers and parents, known and looked up, and what is stored once only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import msgspec
import pytest

from appends import append_to
from logs import LogMaker
from random_logs import RandomLog
from space import ALICE, BOB, SPACE, delete_, patch_, set_
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Hash, TimeMs, Version
from stemmadb.server.storage.memo import Memo
from stemmadb.server.storage.port import AcceptedWrite, FactPosition, Snapshot, StorageFailed, StoredBlob
from stemmadb.server.storage.sqlite import SqliteLog, SqliteStorage, append, insert, interning, rows, storage

X = "urn:x"


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteStorage]:
    made = SqliteStorage(tmp_path)
    yield made
    made.close()


def asked(log: SqliteLog, sql: str) -> list[tuple[object, ...]]:
    assert log._writer is not None
    return log._writer.execute(sql).fetchall()


def parents(log: SqliteLog) -> list[tuple[object, ...]]:
    """The version of each fact, and that of its parent."""
    return asked(log, "SELECT place >> 20, parent >> 20 FROM fact ORDER BY place")


def verified(log: SqliteLog) -> int:
    with log.reader() as reader:
        return max((progress.version for progress in chain.verify(SPACE, reader.history())), default=0)


@pytest.mark.rule("FACT-2")
def test_parents_are_found_through_forks_when_nothing_is_remembered(backend: SqliteStorage) -> None:
    maker = LogMaker()
    log = backend.open(SPACE, create=True)
    append_to(
        log,
        Version(0),
        [
            maker.commit(set_(X, 1, blind=True)),
            maker.create_branch("draft"),
            maker.commit(set_(X, 2, blind=True)),
            maker.create_branch("twig", "draft"),
        ],
    )
    log.close()
    log = backend.open(SPACE)
    append_to(
        log,
        Version(4),
        [
            maker.commit(set_(X, 3, blind=True), branch="twig"),
            maker.commit(set_(X, 4, blind=True), branch="draft"),
            maker.commit(set_(X, 5, blind=True)),
            maker.commit(set_("urn:other", 6, blind=True), branch="twig"),
        ],
    )
    assert parents(log) == [(1, 0), (3, 1), (5, 1), (6, 1), (7, 3), (8, 0)]
    assert verified(log) == 8


@pytest.mark.rule("FACT-2")
def test_an_entity_another_branch_does_not_see_begins_anew_there(backend: SqliteStorage) -> None:
    maker = LogMaker()
    log = backend.open(SPACE, create=True)
    append_to(log, Version(0), [maker.create_branch("draft"), maker.commit(set_(X, 1, blind=True))])
    append_to(log, Version(2), [maker.commit(set_(X, 2, blind=True), branch="draft")])
    assert parents(log) == [(2, 0), (3, 0)]
    assert verified(log) == 3


@pytest.mark.rule("FACT-2", "COMMIT-6")
def test_a_batch_may_make_a_branch_and_write_on_it_what_it_wrote_before(backend: SqliteStorage) -> None:
    maker = LogMaker()
    log = backend.open(SPACE, create=True)
    batch = [
        maker.commit(
            set_(X, {"n": 1}, blind=True), patch_(X, {"op": "increment", "path": "/n", "by": 1}, blind=True)
        ),
        maker.create_branch("draft"),
        maker.commit(delete_(X, blind=True)),
        maker.commit(delete_(X, blind=True), branch="draft"),
        maker.commit(set_(X, 2, blind=True)),
        maker.commit(set_(X, 2, blind=True), branch="draft"),
    ]
    assert batch[2].facts[0].hash == batch[3].facts[0].hash, "the same fact twice, on two branches"
    append_to(log, Version(0), batch)
    assert parents(log) == [(1, 0), (1, 1), (3, 1), (4, 1), (5, 3), (6, 4)]
    assert verified(log) == 6


@pytest.mark.rule("COMMIT-8")
@pytest.mark.parametrize("seed", range(10))
def test_a_log_is_the_same_however_little_is_remembered(
    backend: SqliteStorage, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    for module, bound in (
        (storage, "ENTITIES_MAX"),
        (storage, "ENTITIES_MIN"),
        (interning, "PRINCIPALS_MAX"),
        (interning, "SESSIONS_MAX"),
        (interning, "BRANCHES_MAX"),
    ):
        monkeypatch.setattr(module, bound, seed % 3)
    log = backend.open(SPACE, create=True)
    maker = RandomLog(seed, log).run(30)
    with log.reader() as reader:
        assert [fact for _, facts in reader.history() for fact in facts] == maker.facts
        assert [commit for commit, _ in reader.history()] == maker.commits
    assert verified(log) == maker.version


def test_a_memo_forgets_what_was_put_in_first() -> None:
    memo: Memo[str, int] = Memo(lambda: 2)
    memo.update(a=1, b=2, c=3, d=4)
    memo.trim()
    assert list(memo) == ["c", "d"]
    memo.trim()
    assert len(memo) == 2


def test_the_more_logs_are_open_the_fewer_entities_each_keeps_in_memory(
    backend: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "ENTITIES_MAX", 8)
    monkeypatch.setattr(storage, "ENTITIES_MIN", 3)
    maker, log = LogMaker(), backend.open(SPACE, create=True)
    kept: list[tuple[int, int]] = []
    for others in ((), (ALICE,), (BOB,)):
        for other in others:
            backend.open(other, create=True)
        writes = [set_(f"urn:x:{len(kept)}:{number}", 1, blind=True) for number in range(10)]
        append_to(log, Version(len(kept)), [maker.commit(*writes)])
        kept.append((len(log._appender._entities.memo), len(log._appender._heads)))
    assert kept == [(8, 8), (4, 4), (3, 3)]


@pytest.mark.parametrize("rows", [1, 7, 8, 63, 64, 65, 137, 200])
def test_any_number_of_facts_is_written_and_comes_back(backend: SqliteStorage, rows: int) -> None:
    maker = LogMaker()
    log = backend.open(SPACE, create=True)
    append_to(log, Version(0), [maker.commit(*[set_(f"urn:x:{row}", row, blind=True) for row in range(rows)])])
    with log.reader() as reader:
        assert reader.facts([Version(1)])[Version(1)] == tuple(maker.facts)


def test_a_row_that_is_not_complete_is_an_internal_error() -> None:
    with pytest.raises(AssertionError, match="not complete"):
        insert.insert(apsw.Connection(":memory:"), "entity", "entity,id", [1])


@pytest.mark.rule("FACT-2")
def test_a_fact_whose_parent_is_not_the_last_one_is_refused_and_nothing_is_written(backend: SqliteStorage) -> None:
    maker = LogMaker()
    log = backend.open(SPACE, create=True)
    append_to(log, Version(0), [maker.commit(set_(X, 1, blind=True))])
    entry = maker.commit(set_(X, 2, blind=True))
    forged = tuple(msgspec.structs.replace(fact, parent=Hash(b"?" * 32)) for fact in entry.facts)
    with pytest.raises(StorageFailed, match="parent"):
        append_to(log, Version(1), [AcceptedWrite(entry.commit, forged)])
    with pytest.raises(StorageFailed, match="opened again"):
        append_to(log, Version(1), [entry])
    log.close()
    log = backend.open(SPACE)
    append_to(log, Version(1), [entry])
    assert verified(log) == 2


def test_a_first_fact_that_names_a_parent_is_refused(backend: SqliteStorage) -> None:
    entry = LogMaker().commit(set_(X, 1, blind=True))
    forged = tuple(msgspec.structs.replace(fact, parent=Hash(b"?" * 32)) for fact in entry.facts)
    with pytest.raises(StorageFailed, match="parent"):
        append_to(backend.open(SPACE, create=True), Version(0), [AcceptedWrite(entry.commit, forged)])


def test_a_batch_that_does_not_follow_the_log_is_an_internal_error(backend: SqliteStorage) -> None:
    maker = LogMaker()
    entries = [maker.commit(set_(X, n, blind=True)) for n in range(3)]
    log = backend.open(SPACE, create=True)
    with pytest.raises(AssertionError, match="follows the log"):
        append_to(log, Version(0), [entries[0], entries[2]])
    log.close()
    with backend.open(SPACE).reader() as reader:
        assert reader.tip().version == 0


def test_a_snapshot_of_a_fact_that_is_not_there_is_an_internal_error_and_takes_the_batch_along(
    backend: SqliteStorage,
) -> None:
    entry = LogMaker().commit(set_(X, 1, blind=True))
    fact: Fact = entry.facts[0]
    log = backend.open(SPACE, create=True)
    with pytest.raises(AssertionError, match="not there"):
        append_to(log, Version(0), [entry], [Snapshot(fact.branch, fact.id, FactPosition(Version(1), 1), b"\x01")])
    log.close()
    with backend.open(SPACE).reader() as reader:
        assert reader.tip().version == 0


def test_a_structural_commit_that_names_what_is_not_there_is_an_internal_error(backend: SqliteStorage) -> None:
    maker = LogMaker()
    maker.create_branch("draft")
    entry = maker.create_tag("v1", "draft")
    forged = msgspec.structs.replace(entry.commit, version=Version(1))
    with pytest.raises(AssertionError, match="not there"):
        append_to(backend.open(SPACE, create=True), Version(0), [AcceptedWrite(forged)])


@pytest.mark.rule("ERASE-1", "FACT-3")
def test_what_was_gone_before_it_was_appended_keeps_its_digest(backend: SqliteStorage) -> None:
    """An import brings facts and notes that were erased where they come from."""
    maker = LogMaker()
    entries = [maker.commit(set_(X, 1, blind=True), note=encode(["m", None])), maker.commit(set_(X, 2, blind=True))]
    entries.append(maker.erase(X, [1]))
    log = backend.open(SPACE, create=True)
    gone = zip(maker.commits, [maker.facts[:1], maker.facts[1:2], maker.facts[2:]], strict=True)
    append_to(log, Version(0), [AcceptedWrite(commit, tuple(facts)) for commit, facts in gone])
    with log.reader() as reader:
        assert [fact for _, facts in reader.history() for fact in facts] == maker.facts
        assert [commit for commit, _ in reader.history()] == maker.commits
    assert not log.owes_scrub
    assert verified(log) == 3


def test_what_follows_from_other_columns_is_not_stored(backend: SqliteStorage) -> None:
    maker = LogMaker()
    log = backend.open(SPACE, create=True)
    append_to(
        log,
        Version(0),
        [
            maker.commit(set_(X, 1, blind=True), note=encode(["m", None])),
            maker.commit(delete_(X, blind=True)),
        ],
    )
    assert asked(log, "SELECT digest FROM fact") == [(None,), (None,)]
    assert asked(log, 'SELECT arguments, note_digest FROM "commit"') == [(None, None), (None, None)]
    assert asked(log, "SELECT count(*) FROM session") == [(1,)]


@pytest.mark.rule("BLOB-1")
def test_a_blob_is_in_the_database_or_in_a_file_and_not_both(backend: SqliteStorage) -> None:
    log = backend.open(SPACE, create=True)
    with pytest.raises(AssertionError, match="in a file"):
        log.put_blob(StoredBlob(Hash(b"h" * 32), 1, "text/plain", TimeMs(1), True), b"x")


@pytest.mark.rule("COMMIT-10")
def test_an_internal_error_while_rows_are_made_is_told(
    backend: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = LogMaker()
    log = backend.open(SPACE, create=True)
    append_to(log, Version(0), [maker.commit(set_(X, 1, blind=True))])

    def fail(*_: object) -> None:
        raise MemoryError

    second = [maker.commit(set_(X, 2, blind=True))]
    with monkeypatch.context() as patched:
        patched.setattr(append, "_NATIVE", None)
        patched.setattr(rows, "_fact_row", fail)
        with pytest.raises(MemoryError):
            append_to(log, Version(1), second)
