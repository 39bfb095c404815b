"""Verify tells files that are damaged from files that it merely cannot open or read now."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from kept_spaces import LARGE, blob_of, fill
from space import SPACE
from stemmadb.protocol.errors import BrokenChain, Unavailable
from stemmadb.protocol.model.values import reference
from stemmadb.server.maintenance.verify import verify, verify_space
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite import SqliteStorage, connection
from stemmadb.server.storage.sqlite.connection import DamagedFile


@pytest.fixture
def data(tmp_path: Path) -> Path:
    storage = SqliteStorage(tmp_path)
    fill(storage.open(SPACE, create=True))
    storage.close()
    return tmp_path


def file_of(data: Path) -> Path:
    return data / "spaces" / SPACE / "space.db"


def checked(data: Path) -> None:
    storage = SqliteStorage(data, read_only=True)
    try:
        verify_space(storage, SPACE)
    finally:
        storage.close()


@pytest.mark.rule("KEEP-1")
def test_a_file_that_another_one_locks_is_unavailable_and_not_broken(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_MS", 1)
    holder = apsw.Connection(str(file_of(data)))
    holder.pragma("journal_mode", "DELETE")
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(Unavailable, match="BusyError"):
            checked(data)
    finally:
        holder.close()
    checked(data)


@pytest.mark.rule("KEEP-1")
def test_too_many_open_files_say_nothing_of_what_is_in_them(data: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(Unavailable, match="cannot be read now"):
            checked(data)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.rule("KEEP-1", "BLOB-1")
def test_a_blob_file_that_cannot_be_read_is_unavailable(data: Path) -> None:
    file = file_of(data).parent / "blobs" / reference.write(blob_of(LARGE).hash)
    file.unlink()
    file.mkdir()
    with pytest.raises(Unavailable):
        checked(data)


@pytest.mark.rule("KEEP-1")
@pytest.mark.parametrize("table", ["meta", "branch"])
def test_a_table_that_is_not_there_is_broken(data: Path, table: str) -> None:
    holder = apsw.Connection(str(file_of(data)))
    holder.execute(f"DROP TABLE {table}")
    holder.close()
    with pytest.raises(BrokenChain):
        checked(data)


class Failing:
    """A log whose readers fail."""

    space = SPACE

    def __init__(self, error: Exception) -> None:
        self._error = error

    def reader(self) -> Any:
        raise self._error


@pytest.mark.rule("KEEP-1")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (DamagedFile("the file is damaged"), BrokenChain),
        (KeyError("a branch"), BrokenChain),
        (RecursionError(), BrokenChain),
        (StorageFailed("disk I/O error"), Unavailable),
        (OSError(24, "Too many open files"), Unavailable),
        (MemoryError(), Unavailable),
    ],
)
def test_only_damage_and_what_cannot_be_decoded_are_broken(error: Exception, expected: type[Exception]) -> None:
    log: Callable[[Exception], Any] = Failing
    with pytest.raises(expected, match=re.escape(str(error)) or type(error).__name__):
        verify(log(error))
