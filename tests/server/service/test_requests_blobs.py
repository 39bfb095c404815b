"""Requests on blobs: an upload in chunks that goes on where it stopped, and reading in parts (BLOB-1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from blob_space import LARGE, LIMITS, SMALL, name_of
from request_harness import RequestHarness, request_harness
from stemmadb.protocol import errors
from stemmadb.protocol.wire.messages.blobs import (
    BlobBegin,
    BlobChunk,
    BlobEnd,
    BlobOffset,
    BlobPart,
    BlobRead,
    BlobStored,
)

pytestmark = pytest.mark.rule("BLOB-1")
CHUNK = LIMITS.blob_chunk_bytes_max


async def upload(it: RequestHarness, data: bytes, content_type: str = "text/plain") -> BlobStored:
    blob = name_of(data)
    at = await it.ask(BlobBegin(id=1, blob=blob, size=len(data), content_type=content_type))
    while at.offset < len(data):
        part = data[at.offset : at.offset + CHUNK]
        at = await it.ask(BlobChunk(id=2, blob=blob, offset=at.offset, data=part))
    done = await it.ask(BlobEnd(id=3, blob=blob))
    assert isinstance(done, BlobStored)
    return done


@pytest.mark.parametrize("data", [b"", SMALL, LARGE], ids=["empty", "small", "large"])
async def test_what_was_uploaded_in_chunks_is_read_in_parts(data: bytes, tmp_path: Path) -> None:
    blob = name_of(data)
    async with request_harness(directory=tmp_path, limits=LIMITS) as it:
        assert await upload(it, data) == BlobStored(blob=blob, size=len(data), content_type="text/plain")
        read = b""
        while True:
            part = await it.ask(BlobRead(id=4, blob=blob, offset=len(read)))
            assert (part.blob, part.size, part.offset) == (blob, len(data), len(read))
            read += part.data
            if len(read) == part.size:
                break
        assert read == data
        again = await it.ask(BlobBegin(id=5, blob=blob, size=len(data)))
        assert again == BlobOffset(offset=len(data), stored=True)


async def test_a_part_is_as_long_as_was_asked_for() -> None:
    async with request_harness() as it:
        await upload(it, SMALL)
        part = await it.ask(BlobRead(id=1, blob=name_of(SMALL), offset=6, length=3))
        assert part == BlobPart(
            blob=name_of(SMALL), size=len(SMALL), content_type="text/plain", offset=6, data=SMALL[6:9]
        )
        with pytest.raises(errors.Malformed):
            await it.ask(BlobRead(id=1, blob=name_of(SMALL), offset=99))


async def test_an_upload_goes_on_where_it_stopped() -> None:
    async with request_harness() as it:
        begin = BlobBegin(id=1, blob=name_of(SMALL), size=len(SMALL))
        assert await it.ask(begin) == BlobOffset(offset=0)
        assert await it.ask(BlobChunk(id=1, blob=begin.blob, offset=0, data=SMALL[:4])) == BlobOffset(offset=4)
        with pytest.raises(errors.Malformed):
            await it.ask(BlobEnd(id=1, blob=begin.blob))
        assert await it.ask(begin) == BlobOffset(offset=4)
        await it.ask(BlobChunk(id=1, blob=begin.blob, offset=4, data=SMALL[4:]))
        assert (await it.ask(BlobEnd(id=1, blob=begin.blob))).content_type == "application/octet-stream"


async def test_bytes_that_do_not_hash_to_the_name_are_refused() -> None:
    async with request_harness() as it:
        await it.ask(BlobBegin(id=1, blob=name_of(SMALL), size=3))
        await it.ask(BlobChunk(id=1, blob=name_of(SMALL), offset=0, data=b"bad"))
        with pytest.raises(errors.BlobMismatch):
            await it.ask(BlobEnd(id=1, blob=name_of(SMALL)))


async def test_bounds_of_blobs_are_named() -> None:
    async with request_harness(limits=LIMITS) as it:
        too_long = BlobChunk(id=1, blob=name_of(LARGE), offset=0, data=LARGE)
        too_large = BlobBegin(id=1, blob=name_of(LARGE), size=LIMITS.blob_bytes_max + 1)
        for request, bound in ((too_long, "blob_chunk_bytes_max"), (too_large, "blob_bytes_max")):
            with pytest.raises(errors.LimitExceeded) as raised:
                await it.ask_unread(request)
            assert raised.value.facts["bound"] == bound
