"""Blobs and what goes wrong: crashes at any point, errors of files, restarts, sweeps and removals."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from blob_space import LARGE, LIMITS, SMALL, Clock, blobs_on, name_of
from space import SPACE
from stemmadb.protocol.errors import StorageFull, Unavailable, UnknownBlob
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash
from stemmadb.server.engine.base.executors import Inline
from stemmadb.server.engine.blobs.blobs import UPLOAD_KEEP_MS, BlobStore, Offset, Swept
from stemmadb.server.storage.blob_directory import blob_path
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import StorageFailed

T = TypeVar("T")

CHUNK = LIMITS.blob_chunk_bytes_max
FILE = name_of(LARGE)


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


def steps(monkeypatch: pytest.MonkeyPatch, storage: MemoryStorage, before: Callable[[str], None]) -> None:
    """Calls `before` with the name of each step that makes something durable, and does the step."""

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            before(name)
            return real(*arguments, **named)

        return step

    for name in ("fsync", "replace", "utime"):
        monkeypatch.setattr(os, name, watched(name, getattr(os, name)))
    storage.fail = lambda name: before(name) if name == "put_blob" else None


def check_rows(storage: MemoryStorage, directory: Path) -> None:
    """No row lacks its file."""
    with storage.open(SPACE).reader() as reader:
        for blob in reader.blobs():
            if blob.in_file:
                assert name_of(blob_path(directory, blob.hash).read_bytes()) == blob.hash


@pytest.mark.rule("BLOB-1")
async def test_a_file_is_durable_before_its_row_is_written(
    storage: MemoryStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = blobs_on(storage, tmp_path)
    await blobs.put(LARGE[1:])  # the folder is there from now on
    taken: list[str] = []
    steps(monkeypatch, storage, taken.append)
    await blobs.put(LARGE)
    assert [step for step in taken if step != "utime"] == ["fsync", "replace", "fsync", "put_blob"]


@pytest.mark.rule("BLOB-1")
async def test_the_folder_is_durable_before_the_first_file_is_in_it(
    storage: MemoryStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    await blobs_on(storage, tmp_path).put(LARGE)
    assert synced == [reference.write(FILE), tmp_path.name, "blobs"]


@pytest.mark.rule("BLOB-1")
@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
async def test_a_crash_at_any_step_loses_nothing_and_leaves_no_row_without_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    """The upload goes on after each crash, until it comes through."""
    crashes = 0
    for last in range(100):
        directory, storage = tmp_path / str(last), MemoryStorage()
        directory.mkdir()
        left = [last]

        def before(_name: str, left: list[int] = left) -> None:
            if left[0] == 0:
                raise Crash
            left[0] -= 1

        with monkeypatch.context() as patched:
            steps(patched, storage, before)
            try:
                await blobs_on(storage, directory, workers=Inline()).put(data)
                break
            except Crash:
                crashes += 1
        storage.fail = lambda _name: None
        check_rows(storage, directory)
        blobs = blobs_on(storage, directory)
        await blobs.sweep()
        assert [*directory.glob("blobs/*")] == []
        await blobs.put(data)
        check_rows(storage, directory)
        assert (await blobs.read(name_of(data), length=100)).data == data[:100]
    assert crashes >= 3


@pytest.mark.rule("BLOB-1")
async def test_an_upload_goes_on_after_a_restart(storage: MemoryStorage, tmp_path: Path) -> None:
    before = blobs_on(storage, tmp_path)
    await before.begin(FILE, size=len(LARGE))
    await before.chunk(FILE, offset=0, data=LARGE[:CHUNK])
    after = blobs_on(storage, tmp_path)
    with pytest.raises(UnknownBlob):
        await after.chunk(FILE, offset=CHUNK, data=b"x")  # it asks where to go on first
    assert await after.begin(FILE, size=len(LARGE)) == Offset(CHUNK)
    assert (await after.put(LARGE)).size == len(LARGE)


@pytest.mark.rule("BLOB-1")
async def test_uploads_from_before_a_restart_count(storage: MemoryStorage, tmp_path: Path) -> None:
    await blobs_on(storage, tmp_path).begin(FILE, size=1)
    after = blobs_on(storage, tmp_path, uploads_max=1)
    with pytest.raises(Exception, match="uploads_max"):
        await after.begin(name_of(SMALL), size=1)
    assert await after.begin(FILE, size=1) == Offset(0)


@pytest.mark.rule("BLOB-1")
async def test_a_file_cut_or_filled_by_a_crash_is_found_at_the_end(storage: MemoryStorage, tmp_path: Path) -> None:
    before = blobs_on(storage, tmp_path)
    await before.begin(FILE, size=len(LARGE))
    await before.chunk(FILE, offset=0, data=LARGE[:CHUNK])
    with (tmp_path / "uploads" / reference.write(FILE)).open("r+b") as file:
        file.seek(CHUNK - 512)
        file.write(bytes(512))
    with pytest.raises(Exception, match="other bytes"):
        await blobs_on(storage, tmp_path).put(LARGE)
    assert (await blobs_on(storage, tmp_path).put(LARGE)).size == len(LARGE)


# ---------------------------------------------------------------- errors of files and of the log


def failing(number: int, nth: int) -> Callable[..., None]:
    calls = [0]
    real = os.fsync

    def fsync(descriptor: int) -> None:
        calls[0] += 1
        if calls[0] == nth:
            raise OSError(number, os.strerror(number))
        real(descriptor)

    return fsync


@pytest.mark.rule("BLOB-1", "COMMIT-10")
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize(
    ("number", "told"), [(errno.EIO, Unavailable), (errno.ENOSPC, StorageFull), (errno.EDQUOT, StorageFull)]
)
async def test_a_failed_sync_is_told_and_nothing_synced_before_is_trusted(
    storage: MemoryStorage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    nth: int,
    number: int,
    told: type[Exception],
) -> None:
    blobs = blobs_on(storage, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing(number, nth))
        with pytest.raises(told):
            await blobs.put(LARGE)
    with pytest.raises(UnknownBlob):
        await blobs.stat(FILE)
    assert await blobs.begin(FILE, size=len(LARGE)) == Offset(0)
    assert (await blobs.put(LARGE)).size == len(LARGE)


@pytest.mark.rule("BLOB-1", "COMMIT-10")
async def test_a_folder_whose_sync_failed_is_synced_before_it_is_relied_on(
    storage: MemoryStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = blobs_on(storage, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing(errno.EIO, 2))
        with pytest.raises(Unavailable):
            await blobs.put(LARGE)
    taken: list[str] = []
    steps(monkeypatch, storage, taken.append)
    await blobs.put(LARGE)
    assert taken.count("fsync") == 3
    await blobs.put(LARGE[1:])
    assert taken.count("fsync") == 5


@pytest.mark.rule("BLOB-1", "COMMIT-10")
async def test_a_small_upload_outlives_a_failure_of_the_log(storage: MemoryStorage, tmp_path: Path) -> None:
    def fail(name: str) -> None:
        if name == "put_blob":
            raise StorageFailed

    blobs = blobs_on(storage, tmp_path)
    storage.fail = fail
    with pytest.raises(StorageFailed):
        await blobs.put(SMALL)
    storage.fail = lambda _name: None
    assert await blobs_on(storage, tmp_path).begin(name_of(SMALL), size=len(SMALL)) == Offset(len(SMALL))


@pytest.mark.rule("BLOB-1")
async def test_a_folder_that_cannot_be_read_is_told(storage: MemoryStorage, tmp_path: Path) -> None:
    blobs = blobs_on(storage, tmp_path)
    await blobs.put(LARGE)
    (tmp_path / "blobs" / reference.write(FILE)).unlink()
    (tmp_path / "blobs" / reference.write(FILE)).mkdir()
    with pytest.raises(Unavailable):
        await blobs.read(FILE)


@pytest.mark.rule("BLOB-1", "ERASE-1")
async def test_an_upload_whose_file_was_removed_begins_anew(storage: MemoryStorage, tmp_path: Path) -> None:
    blobs = blobs_on(storage, tmp_path)
    await blobs.begin(FILE, size=len(LARGE))
    await blobs.chunk(FILE, offset=0, data=LARGE[:CHUNK])
    (tmp_path / "uploads" / reference.write(FILE)).unlink()
    with pytest.raises(Unavailable):
        await blobs.chunk(FILE, offset=CHUNK, data=LARGE[CHUNK : 2 * CHUNK])
    assert await blobs.begin(FILE, size=len(LARGE)) == Offset(0)
    assert (await blobs.put(LARGE)).size == len(LARGE)


@pytest.mark.rule("BLOB-1")
async def test_an_upload_begun_anew_while_it_ends_is_not_kept(storage: MemoryStorage, tmp_path: Path) -> None:
    class BeginsBetween(Inline):
        """Another client begins the same blob with another size once the first has been verified."""

        async def run(self, work: Callable[[], T]) -> T:
            done = await super().run(work)
            if type(done).__name__ == "Whole":
                await others.begin(empty, size=between)
            return done

    empty = name_of(b"")  # of any other blob bytes are here by then, and its size stands
    blobs = others = blobs_on(storage, tmp_path, workers=BeginsBetween())
    between = 5
    with pytest.raises(Unavailable):
        await blobs.put(b"")
    with pytest.raises(UnknownBlob):
        await blobs.stat(empty)
    between = 0
    assert (await blobs.put(b"")).size == 0


@pytest.mark.rule("BLOB-1")
async def test_more_bytes_than_the_blob_has_left_from_before_a_restart_begin_anew(
    storage: MemoryStorage, tmp_path: Path
) -> None:
    hash_ = name_of(SMALL)
    before = blobs_on(storage, tmp_path)
    await before.begin(hash_, size=99)
    await before.chunk(hash_, offset=0, data=bytes(99))
    after = blobs_on(storage, tmp_path)
    assert await after.begin(hash_, size=len(SMALL)) == Offset(0)
    assert (await after.put(SMALL)).size == len(SMALL)


@pytest.mark.rule("BLOB-1")
async def test_two_ends_at_once_keep_it_once(storage: MemoryStorage, tmp_path: Path) -> None:
    class EndsBetween(Inline):
        """Another client ends the same upload once the first has verified it."""

        async def run(self, work: Callable[[], T]) -> T:
            done = await super().run(work)
            if type(done).__name__ == "Whole" and not answers:
                answers.append(None)
                answers.append(await blobs.end(FILE))
            return done

    answers: list[Any] = []
    blobs = blobs_on(storage, tmp_path, workers=EndsBetween())
    assert await blobs.put(LARGE) == answers[1]


@pytest.mark.rule("BLOB-1")
async def test_what_is_kept_while_another_begins_is_not_sent_again(storage: MemoryStorage, tmp_path: Path) -> None:
    class KeptBetween(Inline):
        """The upload is closed between the look for the blob and the look for the upload."""

        async def run(self, work: Callable[[], T]) -> T:
            if others:
                await others.pop().put(LARGE)
            return await super().run(work)

    others: list[BlobStore] = []
    blobs = blobs_on(storage, tmp_path, workers=KeptBetween())
    await blobs.begin(FILE, size=len(LARGE))
    others.append(blobs)
    assert await blobs.chunk(FILE, offset=0, data=b"x") == Offset(len(LARGE), stored=True)


# ---------------------------------------------------------------- sweeping and removing


@pytest.mark.rule("BLOB-2")
@pytest.mark.parametrize("where", ["files", "database"])
async def test_an_upload_is_kept_for_24_hours_after_its_last_chunk(
    storage: MemoryStorage, tmp_path: Path, where: str
) -> None:
    clock = Clock()
    blobs = blobs_on(storage, tmp_path if where == "files" else None, clock)
    await blobs.begin(FILE, size=len(LARGE))
    clock.now += UPLOAD_KEEP_MS
    await blobs.chunk(FILE, offset=0, data=LARGE[:CHUNK])
    clock.now += UPLOAD_KEEP_MS
    assert await blobs.sweep() == Swept(uploads=0, files=0)
    assert await blobs.begin(FILE, size=len(LARGE)) == Offset(CHUNK)
    clock.now += UPLOAD_KEEP_MS
    assert await blobs.sweep() == Swept(uploads=0, files=0)
    clock.now += 1
    assert await blobs.sweep() == Swept(uploads=1, files=0)
    with pytest.raises(UnknownBlob):
        await blobs.chunk(FILE, offset=CHUNK, data=b"x")
    assert await blobs.begin(FILE, size=len(LARGE)) == Offset(0)


@pytest.mark.rule("BLOB-2")
async def test_an_upload_abandoned_before_a_restart_is_swept(storage: MemoryStorage, tmp_path: Path) -> None:
    clock = Clock()
    before = blobs_on(storage, tmp_path, clock)
    await before.begin(FILE, size=len(LARGE))
    await before.chunk(FILE, offset=0, data=LARGE[:CHUNK])
    clock.now += UPLOAD_KEEP_MS + 1
    assert await blobs_on(storage, tmp_path, clock).sweep() == Swept(uploads=1, files=0)
    assert [*tmp_path.glob("uploads/*")] == []


@pytest.mark.rule("BLOB-2")
async def test_a_sweep_removes_files_without_rows_and_nothing_else(storage: MemoryStorage, tmp_path: Path) -> None:
    blobs = blobs_on(storage, tmp_path)
    await blobs.put(LARGE)
    strays = [name_of(bytes([number])) for number in range(250)]
    for stray in strays:
        blob_path(tmp_path, stray).write_bytes(b"stray")
    (tmp_path / "blobs" / "README").write_text("not ours")
    assert await blobs.sweep() == Swept(uploads=0, files=250)
    assert {path.name for path in tmp_path.glob("blobs/*")} == {reference.write(FILE), "README"}
    assert (await blobs.read(FILE, length=5)).data == LARGE[:5]


@pytest.mark.rule("BLOB-2")
async def test_a_space_without_blobs_has_nothing_to_sweep(storage: MemoryStorage, tmp_path: Path) -> None:
    assert await blobs_on(storage, tmp_path).sweep() == Swept(uploads=0, files=0)
    assert await blobs_on(storage, None).sweep() == Swept(uploads=0, files=0)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.rule("BLOB-2", "ERASE-1")
async def test_removing_takes_the_files_of_dropped_blobs_and_their_half_uploads(
    storage: MemoryStorage, tmp_path: Path
) -> None:
    blobs = blobs_on(storage, tmp_path)
    await blobs.put(LARGE)
    await blobs.read(FILE, length=1)
    other = await blobs.put(LARGE[1:])
    half = name_of(LARGE[2:])
    await blobs.begin(half, size=len(LARGE) - 2)
    await blobs.chunk(half, offset=0, data=LARGE[2:100])
    storage.open(SPACE).drop_blobs([FILE])
    assert await blobs.remove([FILE, half, other.hash, name_of(SMALL)]) == 1
    assert {path.name for path in tmp_path.rglob("b3:*")} == {reference.write(other.hash)}
    with pytest.raises(UnknownBlob):
        await blobs.read(FILE)
    with pytest.raises(UnknownBlob):
        await blobs.chunk(half, offset=98, data=b"x")


@pytest.mark.rule("BLOB-2", "ERASE-1")
async def test_a_removal_is_durable(storage: MemoryStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = blobs_on(storage, tmp_path)
    await blobs.put(LARGE)
    storage.open(SPACE).drop_blobs([FILE])
    taken: list[str] = []
    steps(monkeypatch, storage, taken.append)
    await blobs.remove([FILE])
    assert taken == ["fsync"]


@pytest.mark.rule("BLOB-2")
async def test_removing_where_there_are_no_files_does_nothing(storage: MemoryStorage) -> None:
    blobs = blobs_on(storage, None)
    kept = await blobs.put(LARGE)
    storage.open(SPACE).drop_blobs([kept.hash])
    assert await blobs.remove([Hash(kept.hash)]) == 0


@pytest.mark.rule("BLOB-2")
async def test_a_blob_that_was_removed_can_be_uploaded_again(storage: MemoryStorage, tmp_path: Path) -> None:
    blobs = blobs_on(storage, tmp_path)
    await blobs.put(LARGE)
    storage.open(SPACE).drop_blobs([FILE])
    await blobs.put(LARGE)
    assert await blobs.remove([FILE]) == 0  # a file that has a row again stays
    assert (await blobs.read(FILE, length=5)).data == LARGE[:5]
