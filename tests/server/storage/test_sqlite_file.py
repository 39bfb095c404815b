"""The file of a space: its schema and version, and files that are not ours to open."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from appends import append_to
from logs import LogMaker
from space import ALICE, BOB, SPACE, delete_, patch_, set_
from stemmadb.protocol.errors import BrokenChain, InvalidDid, NewerStorage, UnknownSpace
from stemmadb.protocol.model.values.ids import Did, Version
from stemmadb.server.storage.port import DiskFull, StorageFailed
from stemmadb.server.storage.sqlite import SqliteLog, SqliteStorage, connection, schema, sqlite_version, storage


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The file of a space that has a commit, closed."""
    backend = SqliteStorage(tmp_path)
    append_to(backend.open(SPACE, create=True), Version(0), [LogMaker().commit(set_("urn:x", 1, blind=True))])
    backend.close()
    return tmp_path / "spaces" / SPACE / "space.db"


def contents(directory: Path) -> dict[str, bytes]:
    """What is in every file but the index of the write-ahead log, which is made anew by whoever opens it."""
    files = [file for file in directory.rglob("*") if file.is_file() and not file.name.endswith("-shm")]
    return {str(file.relative_to(directory)): held for file in files if (held := file.read_bytes())}


def change(file: Path, sql: str) -> None:
    with_file = apsw.Connection(str(file))
    with_file.execute(sql)
    with_file.close()


def asked(file: Path, sql: str) -> list[tuple[object, ...]]:
    with_file = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    rows = with_file.execute(sql).fetchall()
    with_file.close()
    return rows


def test_a_file_says_what_it_is_and_how_it_is_written(tmp_path: Path) -> None:
    backend = SqliteStorage(tmp_path)
    log = backend.open(SPACE, create=True)
    writer = log._writer
    assert writer is not None
    pragmas = ("application_id", "user_version", "journal_mode", "synchronous", "foreign_keys", "mmap_size")
    assert [writer.pragma(name) for name in pragmas] == [0x53746D61, schema.SCHEMA_VERSION, "wal", 2, 0, 0]
    assert writer.pragma("wal_autocheckpoint") == connection.WAL_PAGES_MAX
    assert writer.pragma("cache_size") == -connection.WRITER_CACHE_KIB
    with log.reader() as reader:
        for opened in (writer, reader._view._connection):
            assert opened.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1, (
                "plans do not depend on what is asked for"
            )
        assert reader._view._connection.pragma("cache_size") == -connection.READER_CACHE_KIB
    assert log.directory == tmp_path / "spaces" / SPACE
    assert (tmp_path / "spaces").stat().st_mode & 0o777 == 0o700
    backend.close()


def test_the_version_of_sqlite_is_one_without_the_known_bug() -> None:
    assert tuple(map(int, sqlite_version().split("."))) >= (3, 51, 3)


def test_the_spaces_of_a_directory_are_listed_by_name_and_nothing_else(tmp_path: Path) -> None:
    backend = SqliteStorage(tmp_path)
    assert backend.spaces() == []
    for space in (SPACE, ALICE):
        backend.open(space, create=True)
    (tmp_path / "spaces" / "notes").mkdir()
    (tmp_path / "spaces" / "notes" / "space.db").touch()
    (tmp_path / "spaces" / "readme").touch()
    assert backend.spaces() == sorted([SPACE, ALICE])
    backend.close()


def test_a_space_is_named_by_a_did_and_never_by_a_path(tmp_path: Path) -> None:
    with pytest.raises(InvalidDid):
        SqliteStorage(tmp_path).open(Did("../elsewhere"), create=True)
    assert list(tmp_path.iterdir()) == []


def test_a_space_is_opened_for_writing_once_at_a_time(tmp_path: Path) -> None:
    backend = SqliteStorage(tmp_path)
    log = backend.open(SPACE, create=True)
    with pytest.raises(AssertionError, match="open already"):
        backend.open(SPACE)
    log.close()
    log.close()
    backend.open(SPACE)
    backend.close()


@pytest.mark.rule("STORE-5")
def test_a_file_of_a_newer_schema_is_refused_and_left_as_it_is(tmp_path: Path, made: Path) -> None:
    newer = apsw.Connection(str(made))
    newer.pragma("user_version", schema.SCHEMA_VERSION + 1)
    killed = tmp_path / "killed"
    for name, held in contents(tmp_path).items():  # as a process that was killed leaves it
        (killed / name).parent.mkdir(parents=True, exist_ok=True)
        (killed / name).write_bytes(held)
    newer.close()
    before = contents(killed)
    assert f"spaces/{SPACE}/space.db-wal" in before
    for read_only in (False, True):
        with pytest.raises(NewerStorage) as caught:
            SqliteStorage(killed, read_only=read_only).open(SPACE)
        file = killed / "spaces" / SPACE / "space.db"
        assert caught.value.facts == {
            "file": str(file),
            "found": schema.SCHEMA_VERSION + 1,
            "known": schema.SCHEMA_VERSION,
        }
    assert contents(killed) == before


def test_the_file_of_another_space_is_refused(tmp_path: Path, made: Path) -> None:
    (tmp_path / "spaces" / ALICE).mkdir()
    made.rename(tmp_path / "spaces" / ALICE / "space.db")
    before = contents(tmp_path)
    for read_only in (False, True):
        with pytest.raises(BrokenChain, match="belongs to another space") as caught:
            SqliteStorage(tmp_path, read_only=read_only).open(ALICE)
        assert caught.value.facts["place"] == "meta"
    assert contents(tmp_path) == before


def test_a_file_that_forgot_its_space_is_refused(tmp_path: Path, made: Path) -> None:
    change(made, "DELETE FROM meta WHERE key = 'space'")
    with pytest.raises(BrokenChain, match="none"):
        SqliteStorage(tmp_path).open(SPACE)


def test_a_database_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "spaces" / SPACE / "space.db"
    file.parent.mkdir(parents=True)
    change(file, "CREATE TABLE mine (a)")
    before = contents(tmp_path)
    with pytest.raises(BrokenChain, match="not made by StemmaDB"):
        SqliteStorage(tmp_path).open(SPACE, create=True)
    assert contents(tmp_path) == before


def test_a_file_that_is_no_database_is_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "spaces" / SPACE / "space.db"
    file.parent.mkdir(parents=True)
    file.write_text("this is a letter and not a database" * 100)
    with pytest.raises(StorageFailed, match="damaged"):
        SqliteStorage(tmp_path).open(SPACE)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_left_empty_by_a_process_that_ended_too_early_is_no_space(tmp_path: Path, read_only: bool) -> None:
    file = tmp_path / "spaces" / SPACE / "space.db"
    file.parent.mkdir(parents=True)
    file.touch()
    with pytest.raises(UnknownSpace):
        SqliteStorage(tmp_path, read_only=read_only).open(SPACE)
    backend = SqliteStorage(tmp_path)
    with backend.open(SPACE, create=True).reader() as reader:
        assert reader.tip().version == 0
    backend.close()


def test_a_directory_that_cannot_be_made_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spaces").write_text("in the way")
    with pytest.raises(StorageFailed):
        SqliteStorage(tmp_path).open(SPACE, create=True)

    def full(directory: Path) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "spaces").unlink()
    monkeypatch.setattr(storage, "sync_path", full)
    with pytest.raises(DiskFull):
        SqliteStorage(tmp_path).open(SPACE, create=True)


class Migrating:
    """A file and a schema that is two steps further."""

    steps = (*schema.MIGRATIONS, "CREATE TABLE second (a)", "INSERT INTO second VALUES (7)")


@pytest.fixture
def writer(made: Path) -> Iterator[apsw.Connection]:
    opened = connection.open_writer(made, None)
    connection.begin_writing(opened)
    yield opened
    opened.close()


@pytest.mark.rule("STORE-5")
def test_an_older_file_goes_through_the_steps_it_lacks_and_only_those(writer: apsw.Connection) -> None:
    schema.migrate(writer, schema.SCHEMA_VERSION, SPACE, Migrating.steps)
    assert writer.pragma("user_version") == len(Migrating.steps)
    assert writer.execute("SELECT a FROM second").fetchall() == [(7,)]
    schema.migrate(writer, len(Migrating.steps), SPACE, Migrating.steps)
    assert writer.execute("SELECT a FROM second").fetchall() == [(7,)]


@pytest.mark.rule("STORE-5")
def test_a_migration_that_fails_changes_nothing(writer: apsw.Connection) -> None:
    with pytest.raises(StorageFailed):
        schema.migrate(writer, schema.SCHEMA_VERSION, SPACE, (*Migrating.steps, "INSERT INTO third VALUES (1)"))
    assert writer.pragma("user_version") == schema.SCHEMA_VERSION
    assert writer.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'second'").fetchall() == [(0,)]


def test_an_older_file_cannot_be_read_before_it_is_brought_up_to_date(
    tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "SCHEMA_VERSION", schema.SCHEMA_VERSION + 1)
    with pytest.raises(StorageFailed, match="open it once to be written"):
        SqliteStorage(tmp_path, read_only=True).open(SPACE)


def test_people_see_heads_and_history_in_views(tmp_path: Path) -> None:
    backend, maker = SqliteStorage(tmp_path), LogMaker()
    log = backend.open(SPACE, create=True)
    first = maker.commit(set_("urn:x", {"n": 1}, blind=True), set_("urn:y", 2, blind=True))
    patch = maker.commit(patch_("urn:x", {"op": "increment", "path": "/n", "by": 1}))
    maker.now = 1_500
    entries = [first, patch, maker.create_branch("draft"), maker.commit(delete_("urn:y", blind=True), branch="draft")]
    append_to(log, Version(0), entries)
    backend.close()
    file = tmp_path / "spaces" / SPACE / "space.db"
    assert asked(file, "SELECT * FROM head ORDER BY id, branch") == [
        ("main", "urn:x", 2, 0, "patch"),
        ("draft", "urn:y", 4, 0, "delete"),
        ("main", "urn:y", 1, 1, "set"),
    ]
    sizes = [len(fact.body or b"") for entry in entries for fact in entry.facts]
    assert asked(file, "SELECT * FROM history ORDER BY version, id") == [
        (1, "1970-01-01 00:00:01.000", ALICE, "main", "urn:x", "set", sizes[0]),
        (1, "1970-01-01 00:00:01.000", ALICE, "main", "urn:y", "set", sizes[1]),
        (2, "1970-01-01 00:00:01.000", ALICE, "main", "urn:x", "patch", sizes[2]),
        (3, "1970-01-01 00:00:01.500", ALICE, None, None, None, None),
        (4, "1970-01-01 00:00:01.500", ALICE, "draft", "urn:y", "delete", None),
    ]


@pytest.mark.rule("STORE-4")
def test_the_files_of_a_space_are_for_their_owner_only(tmp_path: Path) -> None:
    backend = SqliteStorage(tmp_path)
    append_to(backend.open(SPACE, create=True), Version(0), [LogMaker().commit(set_("urn:x", 1, blind=True))])
    folder = tmp_path / "spaces" / SPACE
    assert {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()} == {
        "space.db": 0o600,
        "space.db-wal": 0o600,
        "space.db-shm": 0o600,
    }
    backend.close()


def test_a_file_without_tables_is_listed_as_no_space(tmp_path: Path) -> None:
    for did in (SPACE, ALICE, BOB):
        (tmp_path / "spaces" / did).mkdir(parents=True)
    (tmp_path / "spaces" / SPACE / "space.db").touch()
    change(tmp_path / "spaces" / ALICE / "space.db", "PRAGMA journal_mode = WAL")
    assert (tmp_path / "spaces" / ALICE / "space.db").stat().st_size > 0
    (tmp_path / "spaces" / BOB / "space.db").write_text("damaged")
    assert SqliteStorage(tmp_path, read_only=True).spaces() == [BOB]


def test_a_space_whose_tables_are_still_in_the_write_ahead_log_is_listed(tmp_path: Path) -> None:
    file = tmp_path / "spaces" / SPACE / "space.db"
    file.parent.mkdir(parents=True)
    opened = connection.open_writer(file, None)
    opened.pragma("journal_mode", "WAL")
    schema.migrate(opened, 0, SPACE)
    assert file.stat().st_size <= storage.EMPTY_BYTES_MAX
    assert SqliteStorage(tmp_path, read_only=True).spaces() == [SPACE]
    opened.close()


@pytest.mark.rule("STORE-4")
def test_a_space_that_is_being_opened_is_not_opened_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, really = SqliteStorage(tmp_path), SqliteLog

    def slow(*arguments: Any, **how: Any) -> SqliteLog:
        with pytest.raises(AssertionError, match="is open already"):
            backend.open(SPACE)
        return really(*arguments, **how)

    monkeypatch.setattr(storage, "SqliteLog", slow)
    backend.open(SPACE, create=True).close()
    backend.open(SPACE).close()
    backend.close()


def test_many_threads_open_and_close_logs_and_none_stays_open(tmp_path: Path, made: Path) -> None:
    backend = SqliteStorage(tmp_path, read_only=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            opened = list(threads.map(lambda _: backend.open(SPACE), range(200)))
    finally:
        sys.setswitchinterval(interval)
    backend.close()
    assert all(log.is_closed for log in opened)
