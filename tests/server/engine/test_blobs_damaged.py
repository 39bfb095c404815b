"""Blobs whose stored bytes were changed: told on reading, and repaired by sending them again."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from blob_space import LARGE, SMALL, blobs_on, name_of
from space import SPACE
from stemmadb.protocol.errors import BlobMismatch, UnknownBlob
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.server.engine.base.executors import Inline
from stemmadb.server.engine.blobs import blob_files
from stemmadb.server.engine.blobs.blob_files import SEGMENT_BYTES, BlobFiles
from stemmadb.server.engine.blobs.blobs import BlobStore, Offset
from stemmadb.server.storage.blob_directory import BlobDirectory, blob_path
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import StoredBlob

T = TypeVar("T")

pytestmark = pytest.mark.rule("BLOB-1")

FILE = name_of(LARGE)


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def blobs(storage: MemoryStorage, tmp_path: Path) -> BlobStore:
    return blobs_on(storage, tmp_path)


def change(path: Path, at: int, *, quietly: bool = False) -> None:
    """Changes one byte, like a disk or a person; quietly, it looks as if the file was not touched."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        old = file.read(1)[0]
        file.seek(at)
        file.write(bytes([old ^ 1]))
    stamp = before.st_mtime_ns if quietly else before.st_mtime_ns + 1
    os.utime(path, ns=(stamp, stamp))


def damaged_row(storage: MemoryStorage, data: bytes, stored: bytes) -> StoredBlob:
    blob = StoredBlob(name_of(data), len(data), "text/plain", TimeMs(1), in_file=False)
    storage.open(SPACE, create=True).put_blob(blob, stored)
    return blob


@pytest.mark.parametrize("at", [0, SEGMENT_BYTES - 1, SEGMENT_BYTES, len(LARGE) - 1])
async def test_a_changed_byte_anywhere_stops_the_first_read(blobs: BlobStore, tmp_path: Path, at: int) -> None:
    await blobs.put(LARGE)
    change(blob_path(tmp_path, FILE), at)
    with pytest.raises(BlobMismatch, match="changed"):
        await blobs.read(FILE, offset=100, length=1)


@pytest.mark.parametrize("at", [0, SEGMENT_BYTES - 1, SEGMENT_BYTES, len(LARGE) - 1])
async def test_a_byte_changed_after_the_first_read_stops_the_next_one(
    blobs: BlobStore, tmp_path: Path, at: int
) -> None:
    await blobs.put(LARGE)
    assert (await blobs.read(FILE, offset=at, length=1)).data == LARGE[at : at + 1]
    change(blob_path(tmp_path, FILE), at, quietly=True)
    with pytest.raises(BlobMismatch, match="changed"):
        await blobs.read(FILE, offset=at, length=1)
    with pytest.raises(BlobMismatch, match="changed"):  # it was looked at as a whole again
        await blobs.read(FILE, offset=(at + SEGMENT_BYTES) % len(LARGE), length=1)


async def test_a_file_that_was_touched_is_verified_as_a_whole_again(blobs: BlobStore, tmp_path: Path) -> None:
    await blobs.put(LARGE)
    await blobs.read(FILE, length=1)
    change(blob_path(tmp_path, FILE), 2 * SEGMENT_BYTES)
    with pytest.raises(BlobMismatch, match="changed"):
        await blobs.read(FILE, length=1)


@pytest.mark.parametrize("size", [0, SEGMENT_BYTES, len(LARGE) - 1, len(LARGE) + 1])
async def test_a_file_of_another_size_is_told(blobs: BlobStore, tmp_path: Path, size: int) -> None:
    await blobs.put(LARGE)
    os.truncate(blob_path(tmp_path, FILE), size)
    with pytest.raises(BlobMismatch, match=f"its file has {size} of {len(LARGE)} bytes"):
        await blobs.read(FILE)


async def test_a_missing_file_is_told(blobs: BlobStore, tmp_path: Path) -> None:
    await blobs.put(LARGE)
    blob_path(tmp_path, FILE).unlink()
    with pytest.raises(BlobMismatch, match="missing"):
        await blobs.read(FILE)


async def test_a_file_whose_blob_was_dropped_meanwhile_is_unknown(storage: MemoryStorage, tmp_path: Path) -> None:
    class DropsFirst(Inline):
        """The row and the file go between the two steps of a read."""

        async def run(self, work: Callable[[], T]) -> T:
            storage.open(SPACE).drop_blobs([FILE])
            blob_path(tmp_path, FILE).unlink()
            return await super().run(work)

    await blobs_on(storage, tmp_path).put(LARGE)
    with pytest.raises(UnknownBlob):
        await blobs_on(storage, tmp_path, workers=DropsFirst()).read(FILE)


@pytest.mark.parametrize("stored", [b"", SMALL[:-1], SMALL[:-1] + b"?"])
async def test_changed_bytes_in_the_database_are_told(
    storage: MemoryStorage, blobs: BlobStore, stored: bytes
) -> None:
    damaged_row(storage, SMALL, stored)
    with pytest.raises(BlobMismatch, match="database"):
        await blobs.read(name_of(SMALL))


async def test_sending_a_damaged_file_again_repairs_it(blobs: BlobStore, tmp_path: Path) -> None:
    kept = await blobs.put(LARGE, "text/plain")
    path = blob_path(tmp_path, FILE)
    for damage in (partial(change, path, 5), path.unlink, partial(os.truncate, path, 0)):
        damage()
        assert await blobs.begin(FILE, size=len(LARGE)) == Offset(0)
        assert await blobs.put(LARGE) == kept
        assert (await blobs.read(FILE, length=10)).data == LARGE[:10]


async def test_sending_again_what_the_database_lost_repairs_it(storage: MemoryStorage, blobs: BlobStore) -> None:
    damaged_row(storage, SMALL, b"??")
    assert await blobs.begin(name_of(SMALL), size=len(SMALL)) == Offset(0)
    kept = await blobs.put(SMALL, "text/html")
    assert (await blobs.read(name_of(SMALL))).data == SMALL
    assert await blobs.stat(name_of(SMALL)) == kept
    assert kept.content_type == "text/html"


def test_only_so_many_files_are_remembered_as_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_files, "CHECKED_MAX", 2)
    files = BlobFiles(BlobDirectory(tmp_path))
    contents = [bytes([number]) * 10 for number in range(3)]
    for data in contents:
        (tmp_path / "upload").write_bytes(data)
        files.adopt(tmp_path / "upload", name_of(data))
        files.check(name_of(data), 10)
    change(blob_path(tmp_path, name_of(contents[0])), 0, quietly=True)
    change(blob_path(tmp_path, name_of(contents[2])), 0, quietly=True)
    with pytest.raises(BlobMismatch):
        files.check(name_of(contents[0]), 10)  # forgotten, so all of it is looked at
    files.check(name_of(contents[2]), 10)


def test_the_files_used_last_are_the_ones_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_files, "CHECKED_MAX", 2)
    files = BlobFiles(BlobDirectory(tmp_path))
    contents = [bytes([number]) * 10 for number in range(3)]
    for data in contents:
        (tmp_path / "upload").write_bytes(data)
        files.adopt(tmp_path / "upload", name_of(data))
    for number in (0, 1, 0, 2):
        files.check(name_of(contents[number]), 10)
    change(blob_path(tmp_path, name_of(contents[0])), 0, quietly=True)
    files.check(name_of(contents[0]), 10)
