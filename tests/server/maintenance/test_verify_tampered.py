"""A changed byte in any stored field is found, and the place is named (FACT-3)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from kept_spaces import LARGE, blob_of, fill
from space import BOB, SPACE
from stemmadb.protocol.errors import BrokenChain, NewerStorage, StemmaError, UnknownSpace
from stemmadb.protocol.model.values import reference
from stemmadb.server.maintenance.verify import verify_space
from stemmadb.server.storage.sqlite import SqliteStorage

FILE = Path("spaces") / SPACE / "space.db"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A space with one of everything, in one file."""
    directory = tmp_path_factory.mktemp("whole")
    storage = SqliteStorage(directory)
    fill(storage.open(SPACE, create=True))
    storage.close()
    connection = apsw.Connection(str(directory / FILE))
    connection.pragma("journal_mode", "DELETE")  # so that a copy is one file, whatever is done to it
    connection.close()
    return directory


def broken(directory: Path) -> StemmaError | None:
    """What verify says; a file that seems to be empty is not the space's either."""
    storage = SqliteStorage(directory, read_only=True)
    try:
        verify_space(storage, SPACE)
    except (BrokenChain, NewerStorage, UnknownSpace) as found:
        return found
    finally:
        storage.close()
    return None


def columns(file: Path) -> Iterator[tuple[str, str]]:
    connection = apsw.Connection(str(file))
    for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        for _, column, *_ in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
            yield str(table), str(column)
    connection.close()


def others(value: Any) -> list[Any]:
    """Other values that a stored one could become."""
    if value is None:
        return [b"", b"x" * 32, 0, 3]
    if isinstance(value, int):
        return [value + 1, value ^ (1 << 40), -value - 1, None]
    if isinstance(value, bytes):
        flipped = bytes([value[0] ^ 1]) + value[1:] if value else b"\0"
        return [flipped, value + b"\0", value[:-1], None]
    return [value + "x", value[:-1], chr(ord(value[0]) ^ 1) + value[1:], value.upper(), None]


def changed(file: Path, table: str, column: str, rowid: int, value: Any) -> bool:
    """Whether the table takes the value in that place, as another one than is there."""
    connection = apsw.Connection(str(file))
    try:
        connection.pragma("synchronous", "OFF")
        key = "rowid" if table != "touched" else "branch * 1000 + version"
        connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {key} = ?', (value, rowid))  # noqa: S608
    except apsw.Error:
        return False
    finally:
        connection.close()
    return True


def rows(file: Path, table: str, column: str) -> list[Any]:
    key = "rowid" if table != "touched" else "branch * 1000 + version"
    connection = apsw.Connection(str(file))
    try:
        return connection.execute(f'SELECT {key}, "{column}" FROM "{table}"').fetchall()  # noqa: S608
    finally:
        connection.close()


@pytest.mark.rule("KEEP-1", "FACT-3")
def test_a_change_of_any_column_of_any_row_is_found(whole: Path, tmp_path: Path) -> None:
    tried, unseen, chance = 0, [], random.Random(3)
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    for table, column in columns(whole / FILE):
        for rowid, value in rows(whole / FILE, table, column):
            for other in chance.sample(others(value), 2):
                if other != value and changed(copy / FILE, table, column, rowid, other):
                    tried += 1
                    if broken(copy) is None and not is_harmless(whole / FILE, table, rowid, other):
                        unseen.append((table, column, rowid, value, other))
                shutil.copyfile(whole / FILE, copy / FILE)
    assert not unseen
    assert tried > 700


def is_harmless(file: Path, table: str, rowid: int, value: Any) -> bool:
    """A scrub can be owed or not: both are right, and nothing that is stored depends on it."""
    if table != "meta":
        return False
    connection = apsw.Connection(str(file))
    (key,) = connection.execute("SELECT key FROM meta WHERE rowid = ?", (rowid,)).fetchall()[0]
    connection.close()
    return (key, value) == ("owes_scrub", 1)


def everything(file: Path) -> object:
    """All that the tables hold, the table of tables included; None if that cannot be read."""
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
        names = [name for kind, name, *_ in tables if kind == "table"]
        return tables, [connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names]  # noqa: S608
    except (apsw.Error, UnicodeDecodeError):
        return None
    finally:
        connection.close()


@pytest.mark.rule("KEEP-1", "FACT-3")
def test_a_flipped_bit_of_the_file_is_found_unless_it_is_in_unused_space(whole: Path, tmp_path: Path) -> None:
    chance = random.Random(7)
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    good = (whole / FILE).read_bytes()
    intact = everything(whole / FILE)
    in_use, found = used(good), 0
    for _ in range(400):
        offset = chance.choice([chance.randrange(len(good)), chance.choice(in_use)])
        data = bytearray(good)
        data[offset] ^= 1 << chance.randrange(8)
        (copy / FILE).write_bytes(data)
        if broken(copy) is not None:
            found += 1
        else:
            assert everything(copy / FILE) == intact, offset
    assert found > 100


def used(data: bytes) -> list[int]:
    """Where there are bytes other than zero, which is nowhere in space that was never used."""
    return [offset for offset, byte in enumerate(data) if byte]


@pytest.mark.rule("FACT-3")
def test_a_file_cut_short_or_replaced_by_garbage_is_found(whole: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    good = (whole / FILE).read_bytes()
    for data in (b"", good[:10], good[: len(good) // 2], good[:-1], b"garbage" * 1000, b"\0" * len(good)):
        (copy / FILE).write_bytes(data)
        assert broken(copy) is not None, len(data)


@pytest.mark.rule("FACT-3")
def test_the_file_of_another_space_is_found(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    (tmp_path / "copy" / "spaces" / SPACE).rename(tmp_path / "copy" / "spaces" / BOB)
    storage = SqliteStorage(tmp_path / "copy", read_only=True)
    with pytest.raises(BrokenChain) as found:
        verify_space(storage, BOB)
    assert found.value.facts["place"] == "meta"
    storage.close()


@pytest.mark.rule("KEEP-1", "FACT-3")
def test_a_changed_short_or_missing_blob_file_is_found_and_named(whole: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    name = reference.write(blob_of(LARGE).hash)
    file = copy / "spaces" / SPACE / "blobs" / name
    for data in (LARGE[:-1], LARGE + b"x", b"y" + LARGE[1:], None):
        file.unlink() if data is None else file.write_bytes(data)
        found = broken(copy)
        assert isinstance(found, BrokenChain)
        assert found.facts["place"] == f"blob {name}"


@pytest.mark.rule("KEEP-1", "FACT-3")
@pytest.mark.parametrize(
    ("change", "version", "place"),
    [
        ("UPDATE fact SET body = X'C0' WHERE place = 1 << 20 | 1", 1, "fact 1 (urn:b)"),
        ('UPDATE "commit" SET time = 2000 WHERE version = 7', 7, "commit"),
        ("UPDATE snapshot SET body = X'C0'", 23, "snapshot 0 (urn:b)"),
        ("UPDATE snapshot SET body = X'C1'", 23, "snapshot 0 (urn:b)"),
        ("UPDATE tag SET version = 3", 23, "tag v1"),
        ("UPDATE branch SET fork = fork + 1 WHERE name = 'twig'", 23, "branch twig"),
        ("UPDATE meta SET value = 17 WHERE key = 'floor'", 23, "floor"),
        ("UPDATE entity SET id = 'urn:z' WHERE id = 'urn:a'", 1, "fact 0 (urn:z)"),
        ("UPDATE entity SET id = CAST(X'FF' AS TEXT) WHERE id = 'urn:a'", 1, "fact 0"),
        ('DELETE FROM "commit" WHERE version = 9', 9, "commit"),
        ("DELETE FROM fact WHERE place = 23 << 20 | 1", 0, "file space.db"),
        ("CREATE TABLE more (x)", 0, "file space.db"),
        ("DELETE FROM touched", 0, "file space.db"),
    ],
)
def test_the_place_of_a_change_is_named(whole: Path, tmp_path: Path, change: str, version: int, place: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    connection = apsw.Connection(str(copy / FILE))
    connection.execute(change)
    connection.close()
    found = broken(copy)
    assert isinstance(found, BrokenChain)
    assert (found.facts["version"], found.facts["place"]) == (version, place), found
