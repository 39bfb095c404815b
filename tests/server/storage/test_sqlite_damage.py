"""Damage: whatever field is changed in the file, walking or checking it says where."""

# ruff: noqa: S608  # statements are put together from what stands in this file

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from appends import append_to
from logs import LogMaker
from space import SPACE, patch_, set_
from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Hash, TimeMs, Version
from stemmadb.server.storage.port import StorageFailed, StoredBlob
from stemmadb.server.storage.sqlite import SqliteLog, SqliteStorage

X, Y = "urn:x", "urn:y"
SMALL, LARGE = (StoredBlob(Hash(name * 32), 3, "text/plain", TimeMs(1), name == b"l") for name in (b"s", b"l"))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    """Version 1 sets, 2 patches, 3 makes a branch, 4 writes on it, 5 erases the note and the first fact of Y."""
    backend, maker = SqliteStorage(tmp_path), LogMaker()
    made = backend.open(SPACE, create=True)
    first = maker.commit(set_(X, {"n": 1}, blind=True), set_(Y, 1, blind=True), note=encode(["m", None]))
    second = maker.commit(patch_(X, {"op": "increment", "path": "/n", "by": 1}, blind=True), note=encode(["n", None]))
    append_to(made, Version(0), [first, second, maker.create_branch("draft")])
    append_to(made, Version(3), [maker.commit(set_(Y, 2, blind=True), branch="draft", session="other")])
    append_to(made, Version(4), [maker.erase(Y, [1])])
    made.put_blob(SMALL, b"abc")
    made.put_blob(LARGE, None)
    yield made
    backend.close()


def change(log: SqliteLog, sql: str) -> None:
    assert log._writer is not None
    log._writer.pragma("ignore_check_constraints", 1)
    log._writer.execute(sql)
    assert log._writer.changes() > 0


def verify(log: SqliteLog) -> int:
    with log.reader() as reader:
        return max(progress.version for progress in chain.verify(SPACE, reader.history()))


def first_fact(column: str, value: str) -> tuple[str, int]:
    return f"UPDATE fact SET {column} = {value} WHERE place = 1 << 20", 1


def gone_fact(column: str, value: str) -> tuple[str, int]:
    return f"UPDATE fact SET {column} = {value} WHERE place = 1 << 20 | 1", 1


def second_fact(column: str, value: str) -> tuple[str, int]:
    return f"UPDATE fact SET {column} = {value} WHERE place = 2 << 20", 2


def commit(version: int, column: str, value: str) -> tuple[str, int]:
    return f'UPDATE "commit" SET {column} = {value} WHERE version = {version}', version


CHANGES = [
    first_fact("entity", "2"),
    first_fact("entity", "99"),
    first_fact("branch", "2"),
    first_fact("branch", "99"),
    first_fact("kind", "4"),
    first_fact("kind", "0"),
    first_fact("kind", "5"),
    first_fact("parent", "5"),
    second_fact("parent", "1 << 20 | 1"),
    second_fact("parent", "0"),
    first_fact("hash", "zeroblob(32)"),
    first_fact("salt", "zeroblob(16)"),
    first_fact("salt", "NULL"),
    first_fact("body", "x'02'"),
    first_fact("body", "NULL"),
    first_fact("digest", "zeroblob(32)"),
    gone_fact("digest", "zeroblob(32)"),
    gone_fact("digest", "NULL"),
    second_fact("place", "2 << 20 | 7"),
    commit(2, "session", "3"),
    commit(1, "session", "99"),
    commit(1, "local", "7"),
    commit(1, "local", "'text'"),
    commit(1, "local", "zeroblob(16)"),
    commit(3, "local", "7"),
    commit(3, "local", "zeroblob(16)"),
    commit(1, "branch", "2"),
    commit(1, "branch", "NULL"),
    commit(1, "time", "5"),
    commit(1, "hash", "zeroblob(32)"),
    commit(1, "request", "zeroblob(32)"),
    commit(1, "arguments", "x'00'"),
    commit(3, "arguments", "NULL"),
    commit(2, "note", "x'00'"),
    commit(2, "note", "NULL"),
    commit(2, "note_salt", "zeroblob(16)"),
    commit(2, "note_digest", "zeroblob(32)"),
    commit(1, "note_digest", "zeroblob(32)"),
    (f"UPDATE entity SET id = 'urn:z' WHERE id = '{X}'", 1),
    (f"UPDATE entity SET id = CAST(x'75726eff' AS TEXT) WHERE id = '{X}'", 1),
    ("UPDATE entity SET id = CAST(x'75726eff' AS TEXT) WHERE id = 'urn:y'", 1),
    ("UPDATE principal SET did = 'did:key:other'", 1),
    ("UPDATE principal SET did = CAST(x'ff' AS TEXT)", 1),
    ("UPDATE session SET id = x'00' WHERE session = 1", 1),
    ("UPDATE branch SET name = 'other' WHERE branch = 2", 4),
    ('DELETE FROM "commit" WHERE version = 2', 2),
    ('DELETE FROM "commit" WHERE version = 5', 5),
    ("DELETE FROM fact WHERE place = 2 << 20", 2),
]


@pytest.mark.rule("FACT-3")
@pytest.mark.parametrize(("sql", "version"), CHANGES, ids=[sql for sql, _ in CHANGES])
def test_a_changed_field_is_found_at_its_version(log: SqliteLog, sql: str, version: int) -> None:
    assert verify(log) == 5
    change(log, sql)
    with pytest.raises(BrokenChain) as caught:
        verify(log)
    assert caught.value.facts["version"] == version


@pytest.mark.rule("FACT-3")
def test_a_damaged_text_is_named_at_the_commit_it_belongs_to(log: SqliteLog) -> None:
    change(log, "UPDATE branch SET name = CAST(x'ff' AS TEXT) WHERE branch = 2")
    with pytest.raises(BrokenChain) as caught:
        verify(log)
    assert caught.value.facts["version"] == 4
    with log.reader() as reader, pytest.raises(StorageFailed, match="damaged"):
        reader.branches()


@pytest.mark.rule("BLOB-1")
@pytest.mark.parametrize("field", ["size = 4", "content_type = 'text/html'", "created = 2", "seal = zeroblob(32)"])
@pytest.mark.parametrize("blob", [SMALL, LARGE])
def test_a_changed_field_of_a_blob_is_found(log: SqliteLog, field: str, blob: StoredBlob) -> None:
    change(log, f"UPDATE blob SET {field} WHERE hash = x'{blob.hash.hex()}'")
    with log.reader() as reader:
        with pytest.raises(BrokenChain, match="blob b3:"):
            list(reader.blobs())
        with pytest.raises(BrokenChain, match="blob b3:"):
            reader.blob(blob.hash)


@pytest.mark.parametrize("data", ["NULL", "x'00'"])
def test_a_blob_that_moved_between_the_database_and_a_file_is_found(log: SqliteLog, data: str) -> None:
    blob = SMALL if data == "NULL" else LARGE
    change(log, f"UPDATE blob SET data = {data} WHERE hash = x'{blob.hash.hex()}'")
    with log.reader() as reader, pytest.raises(BrokenChain):
        reader.blob(blob.hash)


@pytest.mark.parametrize(
    "sql",
    ["DELETE FROM touched", "INSERT INTO touched (branch, version) VALUES (1, 2)", "UPDATE touched SET branch = 2"],
)
def test_branches_that_are_recorded_as_touched_wrongly_are_found(log: SqliteLog, sql: str) -> None:
    assert log.integrity() == []
    change(log, sql)
    assert log.integrity()
    assert all(line.endswith("recorded wrongly") for line in log.integrity())


def test_an_index_that_lacks_a_row_is_found(log: SqliteLog) -> None:
    writer = log._writer
    assert writer is not None
    root = writer.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'fact_entity'").fetchall()[0][0]
    writer.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
    change(log, f"UPDATE sqlite_schema SET rootpage = {root} WHERE name = 'snapshot_entity'")
    assert any("snapshot_entity" in line for line in log.integrity())


def test_a_file_with_foreign_bytes_in_it_is_found(log: SqliteLog, tmp_path: Path) -> None:
    log.close()
    file = tmp_path / "spaces" / SPACE / "space.db"
    held = bytearray(file.read_bytes())
    for page in range(1, len(held) // 4096):
        held[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    file.write_bytes(held)
    reading = SqliteStorage(tmp_path, read_only=True)
    with pytest.raises(StorageFailed, match="damaged"):
        reading.open(SPACE)
    reading.close()


def test_a_schema_that_cannot_be_read_is_told_as_a_finding(log: SqliteLog) -> None:
    writer = log._writer
    assert writer is not None
    writer.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
    change(log, "UPDATE sqlite_schema SET sql = 'CREATE TABLE fact (' WHERE name = 'fact'")
    assert [line.split(":")[0] for line in log.integrity()] == ["the file is damaged"]


@pytest.mark.rule("FACT-2")
def test_a_parent_that_is_nowhere_is_told_to_whoever_reads_the_fact(log: SqliteLog) -> None:
    change(log, "UPDATE fact SET parent = 5 WHERE place = 2 << 20")
    with log.reader() as reader, pytest.raises(BrokenChain, match="parent"):
        reader.facts([Version(2)])


@pytest.mark.rule("FACT-3")
def test_what_replays_an_unknown_kind_says_so(log: SqliteLog) -> None:
    change(log, "UPDATE fact SET kind = 9 WHERE place = 2 << 20")
    with log.reader() as reader, pytest.raises(BrokenChain, match="kind"):
        reader.replays(LogMaker().spans("main", 2), [EntityId(X)])
