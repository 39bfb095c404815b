"""Blobs: uploads in chunks that can be resumed, kept once, verified when written and when read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from blob_space import LARGE, LIMITS, SMALL, Clock, Threads, blobs_on, name_of
from engines import engine
from stemmadb.protocol.errors import BlobMismatch, LimitExceeded, Malformed, UnknownBlob
from stemmadb.protocol.model.values import ids, reference
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.blobs.blob_files import SEGMENT_BYTES
from stemmadb.server.engine.blobs.blobs import INLINE_BYTES_MAX, RENEW_AFTER_MS, BlobStore, Offset, metadata_id
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.sqlite import SqliteStorage

pytestmark = pytest.mark.rule("BLOB-1")

CHUNK = LIMITS.blob_chunk_bytes_max


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture(params=["files", "database"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "files" else None


@pytest.fixture
def blobs(storage: MemoryStorage, directory: Path | None) -> BlobStore:
    return blobs_on(storage, directory)


async def send(blobs: BlobStore, data: bytes, *, start: int = 0, stop: int | None = None) -> None:
    hash_ = name_of(data)
    for at in range(start, len(data) if stop is None else stop, CHUNK):
        assert await blobs.chunk(hash_, offset=at, data=data[at : at + CHUNK]) == Offset(min(at + CHUNK, len(data)))


async def parts(blobs: BlobStore, data: bytes) -> AsyncIterator[bytes]:
    at = 0
    while at < len(data):
        part = await blobs.read(name_of(data), offset=at)
        assert (part.offset, part.blob.size) == (at, len(data))
        assert 0 < len(part.data) <= CHUNK
        yield part.data
        at += len(part.data)


async def whole(blobs: BlobStore, data: bytes) -> bytes:
    return b"".join([part async for part in parts(blobs, data)])


@pytest.mark.parametrize("size", [0, 1, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, SEGMENT_BYTES, 2 * SEGMENT_BYTES + 7])
async def test_what_was_uploaded_is_read_back(blobs: BlobStore, directory: Path | None, size: int) -> None:
    data = LARGE[:size]
    assert await blobs.begin(name_of(data), size=size, content_type="text/plain") == Offset(0)
    await send(blobs, data)
    kept = await blobs.end(name_of(data))
    assert (kept.hash, kept.size, kept.content_type, kept.created) == (name_of(data), size, "text/plain", Clock().now)
    assert kept.in_file is (directory is not None and size > INLINE_BYTES_MAX)
    assert await blobs.stat(name_of(data)) == kept
    assert await whole(blobs, data) == data


async def test_put_sends_as_many_chunks_as_it_takes(blobs: BlobStore) -> None:
    kept = await blobs.put(LARGE, "image/png")
    assert (kept.hash, kept.size, kept.content_type) == (name_of(LARGE), len(LARGE), "image/png")
    assert await whole(blobs, LARGE) == LARGE


async def test_nothing_is_left_of_an_upload_that_was_kept(blobs: BlobStore, tmp_path: Path) -> None:
    await blobs.put(LARGE)
    await blobs.put(SMALL)
    assert [*tmp_path.glob("uploads/*")] == []


async def test_files_can_be_read_by_their_owner_only(storage: MemoryStorage, tmp_path: Path) -> None:
    await blobs_on(storage, tmp_path).put(LARGE)
    assert {path.stat().st_mode & 0o077 for path in tmp_path.rglob("*")} == {0}


async def test_a_blob_that_is_there_need_not_be_sent_again(blobs: BlobStore, tmp_path: Path) -> None:
    for data in (SMALL, LARGE):
        first = await blobs.put(data, "text/plain")
        assert await blobs.begin(first.hash, size=len(data)) == Offset(len(data), stored=True)
        assert await blobs.put(data, "text/html") == first
    assert len([*tmp_path.glob("blobs/*")]) <= 1


@pytest.mark.rule("BLOB-2")
async def test_a_blob_that_is_sent_again_later_is_as_safe_as_a_new_one(storage: MemoryStorage) -> None:
    clock = Clock()
    blobs = blobs_on(storage, None, clock)
    first = await blobs.put(SMALL)
    clock.now += RENEW_AFTER_MS - 1
    assert await blobs.put(SMALL) == first
    clock.now += 1
    assert (await blobs.put(SMALL)).created == clock.now


async def test_a_chunk_of_a_blob_that_was_kept_meanwhile_hears_so(blobs: BlobStore) -> None:
    kept = await blobs.put(SMALL)
    assert await blobs.chunk(kept.hash, offset=0, data=SMALL) == Offset(len(SMALL), stored=True)


async def test_ending_an_upload_again_answers_the_same(blobs: BlobStore) -> None:
    kept = await blobs.put(LARGE)
    assert await blobs.end(kept.hash) == kept


async def test_an_upload_goes_on_where_it_stopped(blobs: BlobStore) -> None:
    await blobs.begin(name_of(LARGE), size=len(LARGE))
    await send(blobs, LARGE, stop=3 * CHUNK)
    assert await blobs.begin(name_of(LARGE), size=len(LARGE)) == Offset(3 * CHUNK)
    await send(blobs, LARGE, start=3 * CHUNK)
    await blobs.end(name_of(LARGE))
    assert await whole(blobs, LARGE) == LARGE


async def test_bytes_that_do_not_give_the_name_are_refused_and_dropped(blobs: BlobStore) -> None:
    for data in (SMALL, LARGE[:CHUNK]):
        hash_, wrong = name_of(data), bytes(len(data))
        await blobs.begin(hash_, size=len(data))
        await blobs.chunk(hash_, offset=0, data=wrong)
        with pytest.raises(BlobMismatch) as refused:
            await blobs.end(hash_)
        assert refused.value.facts["blob"] == reference.write(hash_)
        with pytest.raises(UnknownBlob):
            await blobs.stat(hash_)
        assert await blobs.begin(hash_, size=len(data)) == Offset(0)


async def test_a_chunk_at_the_wrong_offset_is_told_the_right_one(blobs: BlobStore) -> None:
    hash_ = name_of(SMALL)
    await blobs.begin(hash_, size=len(SMALL))
    await blobs.chunk(hash_, offset=0, data=SMALL[:4])
    for wrong in (0, 3, 5, 99):
        with pytest.raises(Malformed) as refused:
            await blobs.chunk(hash_, offset=wrong, data=SMALL[4:])
        assert refused.value.facts["offset"] == 4
    assert await blobs.chunk(hash_, offset=4, data=SMALL[4:]) == Offset(len(SMALL))


async def test_an_upload_that_is_not_complete_cannot_be_ended(blobs: BlobStore) -> None:
    hash_ = name_of(SMALL)
    await blobs.begin(hash_, size=len(SMALL))
    await blobs.chunk(hash_, offset=0, data=SMALL[:4])
    with pytest.raises(Malformed) as refused:
        await blobs.end(hash_)
    assert refused.value.facts["offset"] == 4
    await blobs.chunk(hash_, offset=4, data=SMALL[4:])
    assert (await blobs.end(hash_)).size == len(SMALL)


async def test_more_bytes_than_announced_are_refused(blobs: BlobStore) -> None:
    hash_ = name_of(SMALL)
    await blobs.begin(hash_, size=4)
    for count in (5, len(SMALL)):
        with pytest.raises(BlobMismatch):
            await blobs.chunk(hash_, offset=0, data=SMALL[:count])
    assert await blobs.begin(hash_, size=len(SMALL)) == Offset(0)


async def test_bytes_that_came_are_not_dropped_for_one_who_announces_another_size(blobs: BlobStore) -> None:
    hash_ = name_of(SMALL)
    await blobs.begin(hash_, size=len(SMALL))
    await blobs.chunk(hash_, offset=0, data=SMALL[:4])
    for size in (0, 3, len(SMALL) - 1, len(SMALL) + 1):
        with pytest.raises(BlobMismatch, match=r"an upload of 10 bytes is under way"):
            await blobs.begin(hash_, size=size)
    assert await blobs.begin(hash_, size=len(SMALL)) == Offset(4)
    await blobs.chunk(hash_, offset=4, data=SMALL[4:])
    assert (await blobs.end(hash_)).size == len(SMALL)


async def test_an_upload_of_which_no_byte_came_may_get_another_size(blobs: BlobStore) -> None:
    hash_ = name_of(SMALL)
    await blobs.begin(hash_, size=99)
    assert (await blobs.put(SMALL)).size == len(SMALL)


async def test_an_upload_that_turned_out_wrong_begins_anew(blobs: BlobStore) -> None:
    hash_ = name_of(SMALL)
    await blobs.begin(hash_, size=99)
    await blobs.chunk(hash_, offset=0, data=bytes(99))
    with pytest.raises(BlobMismatch):
        await blobs.end(hash_)
    assert (await blobs.put(SMALL)).size == len(SMALL)


async def test_numbers_of_bytes_are_never_negative(blobs: BlobStore) -> None:
    kept = await blobs.put(SMALL)
    for path, asked in {
        "/size": blobs.begin(name_of(b"new"), size=-1),
        "/offset": blobs.read(kept.hash, offset=-5),
        "/length": blobs.read(kept.hash, length=-1),
    }.items():
        with pytest.raises(Malformed) as refused:
            await asked
        assert refused.value.facts["path"] == path
    assert (await blobs.read(kept.hash, length=0)).data == b""


async def test_a_wrong_size_of_a_blob_that_is_there_is_refused(blobs: BlobStore) -> None:
    kept = await blobs.put(SMALL)
    with pytest.raises(BlobMismatch, match=r"it has 10 bytes and not 9"):
        await blobs.begin(kept.hash, size=9)


async def test_what_was_never_begun_is_unknown(blobs: BlobStore) -> None:
    hash_ = name_of(b"never")
    for asked in (blobs.chunk(hash_, offset=0, data=b"x"), blobs.end(hash_), blobs.stat(hash_), blobs.read(hash_)):
        with pytest.raises(UnknownBlob) as refused:
            await asked
        assert refused.value.facts["blob"] == reference.write(hash_)


async def test_each_bound_holds_at_its_edge(blobs: BlobStore) -> None:
    hash_ = name_of(b"large")
    assert await blobs.begin(hash_, size=LIMITS.blob_bytes_max) == Offset(0)
    with pytest.raises(LimitExceeded) as refused:
        await blobs.begin(hash_, size=LIMITS.blob_bytes_max + 1)
    assert refused.value.facts["bound"] == "blob_bytes_max"
    assert await blobs.chunk(hash_, offset=0, data=bytes(CHUNK)) == Offset(CHUNK)
    with pytest.raises(LimitExceeded) as refused:
        await blobs.chunk(hash_, offset=CHUNK, data=bytes(CHUNK + 1))
    assert refused.value.facts["bound"] == "blob_chunk_bytes_max"


async def test_only_so_many_uploads_are_open_at_a_time(storage: MemoryStorage, directory: Path | None) -> None:
    blobs = blobs_on(storage, directory, uploads_max=2)
    first, second, third = (name_of(bytes([number])) for number in range(3))
    await blobs.begin(first, size=1)
    await blobs.begin(second, size=1)
    with pytest.raises(LimitExceeded) as refused:
        await blobs.begin(third, size=1)
    assert (refused.value.facts["bound"], refused.value.facts["actual"]) == ("uploads_max", 3)
    assert await blobs.begin(second, size=1) == Offset(0)
    await blobs.chunk(first, offset=0, data=bytes([0]))
    await blobs.end(first)
    assert await blobs.begin(third, size=1) == Offset(0)


@pytest.mark.parametrize("content_type", ["x" * 256, "text/plain\n", "\ud800"])
async def test_a_content_type_that_could_not_be_told_is_refused(blobs: BlobStore, content_type: str) -> None:
    with pytest.raises(Malformed, match="content_type"):
        await blobs.begin(name_of(SMALL), size=len(SMALL), content_type=content_type)


async def test_a_content_type_of_255_characters_is_kept(blobs: BlobStore) -> None:
    assert (await blobs.put(SMALL, "é" * 255)).content_type == "é" * 255


@pytest.mark.parametrize(
    ("offset", "length"),
    [(0, 0), (0, 1), (5, 0), (SEGMENT_BYTES - 1, 2), (SEGMENT_BYTES, 1), (SEGMENT_BYTES + 5, 99_000), (767_999, 50)],
)
async def test_a_part_is_what_was_asked_for(blobs: BlobStore, offset: int, length: int) -> None:
    kept = await blobs.put(LARGE)
    part = await blobs.read(kept.hash, offset=offset, length=length)
    assert part.data == LARGE[offset : offset + length]
    assert (part.offset, part.blob) == (offset, kept)


async def test_a_part_is_at_most_a_chunk(blobs: BlobStore) -> None:
    kept = await blobs.put(LARGE)
    assert len((await blobs.read(kept.hash)).data) == CHUNK
    assert len((await blobs.read(kept.hash, length=CHUNK + 1)).data) == CHUNK


async def test_nothing_follows_the_last_byte(blobs: BlobStore) -> None:
    for data in (SMALL, LARGE):
        kept = await blobs.put(data)
        assert (await blobs.read(kept.hash, offset=kept.size)).data == b""
        with pytest.raises(Malformed, match="offset"):
            await blobs.read(kept.hash, offset=kept.size + 1)


async def test_two_clients_may_upload_the_same_blob_at_once(blobs: BlobStore) -> None:
    async def client() -> None:
        at = await blobs.begin(name_of(LARGE), size=len(LARGE))
        while at.offset < len(LARGE):
            data = LARGE[at.offset : at.offset + CHUNK]
            try:
                at = await blobs.chunk(name_of(LARGE), offset=at.offset, data=data)
            except Malformed as elsewhere:
                at = Offset(elsewhere.facts["offset"])
        assert (await blobs.end(name_of(LARGE))).size == len(LARGE)

    await asyncio.gather(*(client() for _ in range(4)))
    assert await whole(blobs, LARGE) == LARGE


async def test_the_same_chunk_is_taken_once_also_when_callers_go(blobs: BlobStore) -> None:
    hash_, data = name_of(SMALL), SMALL[:4]
    await blobs.begin(hash_, size=len(SMALL))
    sending = [asyncio.ensure_future(blobs.chunk(hash_, offset=0, data=data)) for _ in range(20)]
    await asyncio.sleep(0)
    for caller in sending[::2]:
        caller.cancel()
    answers = await asyncio.gather(*sending, return_exceptions=True)
    assert [
        answer for answer in answers if isinstance(answer, Malformed | asyncio.CancelledError | Offset)
    ] == answers
    assert await blobs.begin(hash_, size=len(SMALL)) == Offset(4)


async def test_blobs_of_a_real_space_are_there_after_a_restart(tmp_path: Path) -> None:
    for is_first in (True, False):
        async with engine(SqliteStorage(tmp_path), workers=executors.threads(writers=1, readers=1)) as it:
            directory, large = await it.space.in_turn(lambda log: (log.directory, log.large_blobs))
            blobs = BlobStore(it.space, directory=directory, large=large, workers=Threads(), now=it.clock)
            for data in (SMALL, LARGE):
                if is_first:
                    await blobs.put(data)
                assert await blobs.begin(name_of(data), size=len(data)) == Offset(len(data), stored=True)
                assert (await blobs.read(name_of(data), offset=5, length=20)).data == data[5:25]
    assert [file.name for file in tmp_path.rglob("b3:*")] == [reference.write(name_of(LARGE))]


def test_the_metadata_of_a_blob_is_an_ordinary_entity() -> None:
    id_ = metadata_id(name_of(SMALL))
    assert id_ == f"urn:blob-meta:{reference.write(name_of(SMALL))}"
    assert ids.entity_id(id_) == id_
