"""Blobs: sent once in chunks, resumed where they stopped, and never believed before their hash agrees."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from msgspec.structs import replace

from requesters import Loss, PeerRequester, RequestWorld, request_world
from service_peers import BOB, CAROL
from stemmadb.client.reading import blob_sources
from stemmadb.client.reading.blob_sources import at_once
from stemmadb.client.reading.blobs import UPLOAD_TRIES_MAX, BlobRef, Blobs
from stemmadb.protocol.errors import (
    BlobMismatch,
    Forbidden,
    InvalidReference,
    InvalidValue,
    LimitExceeded,
    Malformed,
    UnknownBlob,
)
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.messages.base import Part, Request
from stemmadb.protocol.wire.messages.blobs import BlobBegin, BlobChunk, BlobEnd, BlobOffset, BlobPart, BlobRead

pytestmark = pytest.mark.rule("BLOB-1")
LIMITS = Limits(blob_chunk_bytes_max=1_000, blob_bytes_max=100_000)
DATA = bytes(range(256)) * 14
"""Four chunks, the last not full."""
ONE_CHUNK: tuple[Loss, ...] = ("no", "answer", "no")
"""Of begin, chunk, and the chunk sent again, which the server has already."""
NOT_YET: tuple[Loss, ...] = ("no",) * 7
LOSSES: tuple[Loss, ...] = ("question", "answer")


def blobs(it: RequestWorld) -> Blobs:
    return Blobs(it.requester)


def name_of(data: bytes) -> Hash:
    return Hash(blake3(data).digest())


@pytest.mark.parametrize("data", [b"", b"small", DATA], ids=["empty", "small", "chunks"])
async def test_bytes_are_put_and_got(data: bytes) -> None:
    async with request_world(limits=LIMITS) as it:
        ref = await blobs(it).put(data, content_type="text/plain")
        assert ref == BlobRef(reference.write(name_of(data)), len(data), "text/plain")
        assert str(ref) == ref.hash
        assert await blobs(it).get(ref) == data
        assert await blobs(it).get(ref.hash) == data
        first, *_ = [piece async for piece in blobs(it).stream(ref)]
        assert first == data[:1_000]
        assert await blobs(it).stat(ref.hash) == ref


async def test_what_the_server_has_is_not_sent_again() -> None:
    async with request_world(limits=LIMITS) as it:
        await blobs(it).put(DATA)
        it.requester.asked.clear()
        ref = await blobs(it).put(bytearray(DATA), content_type="image/png")
        assert BlobChunk not in it.requester.asked
        assert ref.content_type == "application/octet-stream"


async def test_a_file_is_sent_and_its_name_tells_its_type(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(DATA)
    async with request_world(limits=LIMITS) as it:
        assert (await blobs(it).put(path)).content_type == "text/html"
        copy = tmp_path / "copy"
        assert await blobs(it).get(reference.write(name_of(DATA)), to=copy) == copy
        assert copy.read_bytes() == DATA
        assert sorted(one.name for one in tmp_path.iterdir()) == ["copy", "page.html"]
        with path.open("rb") as file:
            file.seek(100)
            ref = await blobs(it).put(file)
            assert (ref.hash, ref.content_type) == (reference.write(name_of(DATA[100:])), "text/html")
            assert not file.closed
        with pytest.raises(FileNotFoundError):
            await blobs(it).put(tmp_path / "missing")


class Unseekable(io.RawIOBase):
    """A pipe: it can be read once."""

    def __init__(self, data: bytes) -> None:
        self._rest = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._rest.read(min(size, 700))


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 300):
        yield data[at : at + 300]


@pytest.mark.parametrize("held", [100, 1_000_000], ids=["on disk", "in memory"])
async def test_what_can_be_read_once_is_put_aside_first(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_sources, "SPOOL_BYTES_MAX", held)
    async with request_world(limits=LIMITS) as it:
        for data in (pieces(DATA), Unseekable(DATA)):
            ref = await blobs(it).put(data)  # type: ignore[arg-type]
            assert await blobs(it).get(ref) == DATA


async def test_what_is_not_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("text")
    async with request_world(limits=LIMITS) as it:
        with pytest.raises(InvalidValue, match="Path"):
            await blobs(it).put("a.txt")  # type: ignore[arg-type]
        with path.open() as file, pytest.raises(InvalidValue, match="'rb'"):
            await blobs(it).put(file)  # type: ignore[arg-type]
        with pytest.raises(LimitExceeded) as large:
            await blobs(it).put(b"x" * 100_001)
        assert large.value.facts["bound"] == "blob_bytes_max"
        with pytest.raises(InvalidReference):
            await blobs(it).get("photo")
        with pytest.raises(UnknownBlob):
            await blobs(it).get(reference.write(name_of(b"nobody")))
        with pytest.raises(UnknownBlob):
            await blobs(it).stat(reference.write(name_of(b"nobody")))
        assert {BlobBegin, BlobChunk}.isdisjoint(it.requester.asked)


async def test_who_may_not_write_may_not_upload() -> None:
    async with request_world(CAROL, limits=LIMITS) as it:
        with pytest.raises(Forbidden):
            await blobs(it).put(DATA)
        ref = await Blobs(PeerRequester(it.harness, BOB)).put(DATA)
        assert await blobs(it).get(ref) == DATA


async def test_progress_is_told_both_ways() -> None:
    async with request_world(limits=LIMITS) as it:
        told: list[tuple[int, int]] = []
        ref = await blobs(it).put(DATA, progress=lambda done, total: told.append((done, total)))
        total = len(DATA)
        assert told == [(0, total), (1_000, total), (2_000, total), (3_000, total), (total, total)]
        told.clear()
        await blobs(it).get(ref, progress=lambda done, total: told.append((done, total)))
        assert told == [(1_000, total), (2_000, total), (3_000, total), (total, total)]


async def test_an_upload_goes_on_after_every_loss() -> None:
    for index in range(7):
        for loss in LOSSES:
            async with request_world(limits=LIMITS) as it:
                it.requester.losses.extend([*NOT_YET[:index], loss])
                ref = await blobs(it).put(DATA)
                assert await Blobs(PeerRequester(it.harness)).get(ref) == DATA
                assert it.requester.asked.count(BlobChunk) <= 5


async def test_an_upload_that_was_left_goes_on_where_it_stopped() -> None:
    async with request_world(limits=LIMITS) as it:
        blob = name_of(DATA)
        await it.requester.ask(BlobBegin, BlobOffset, blob=blob, size=len(DATA))
        await it.requester.ask(BlobChunk, BlobOffset, blob=blob, offset=0, data=DATA[:1_500][:1_000])
        it.requester.asked.clear()
        told: list[int] = []
        await blobs(it).put(DATA, progress=lambda done, _: told.append(done))
        assert told[0] == 1_000
        assert it.requester.asked.count(BlobChunk) == 3


async def test_wrong_bytes_of_somebody_else_under_the_same_name_are_sent_over() -> None:
    async with request_world(limits=LIMITS) as it:
        blob = name_of(DATA)
        await it.requester.ask(BlobBegin, BlobOffset, blob=blob, size=len(DATA))
        await it.requester.ask(BlobChunk, BlobOffset, blob=blob, offset=0, data=b"wrong")
        assert await blobs(it).get(await blobs(it).put(DATA)) == DATA


class Altered(PeerRequester):
    """What comes is not what the server sent."""

    def __init__(self, at: Any, **changes: Any) -> None:
        super().__init__(at)
        self._changes = changes

    async def ask(self, kind: type[Request], answer: Any, *, timeout: float | None = None, **fields: Any) -> Any:
        result: Part = await super().ask(kind, answer, timeout=timeout, **fields)
        return replace(result, **self._changes) if isinstance(result, BlobPart) else result


@pytest.mark.parametrize(
    "changes", [{"data": DATA[1:1_001]}, {"data": b""}, {"offset": 7}, {"size": 3}], ids=lambda one: next(iter(one))
)
async def test_other_bytes_than_were_asked_for_are_never_given(changes: dict[str, Any], tmp_path: Path) -> None:
    async with request_world(limits=LIMITS) as it:
        data = DATA[:1_000]
        ref = await blobs(it).put(data)
        altered = Blobs(Altered(it.harness, **changes))
        with pytest.raises(BlobMismatch):
            await altered.get(ref)
        target = tmp_path / "target"
        target.write_bytes(b"old")
        with pytest.raises(BlobMismatch):
            await altered.get(ref, to=target)
        assert [one.name for one in tmp_path.iterdir()] == ["target"]
        assert target.read_bytes() == b"old"


async def test_a_file_that_changes_while_it_is_sent_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for changed in (b"y" * 2_500, b""):
        path.write_bytes(b"x" * 2_500)
        async with request_world(limits=LIMITS) as it:

            async def change(to: bytes = changed) -> None:
                path.write_bytes(to)

            it.requester.meanwhile.append(change)
            with pytest.raises(BlobMismatch):
                await Blobs(it.requester, run=at_once).put(path)
            assert it.requester.asked.count(BlobBegin) == 1
            with pytest.raises(UnknownBlob):
                await blobs(it).get(reference.write(name_of(b"x" * 2_500)))


async def test_an_upload_may_be_cut_off_as_often_as_it_gets_farther() -> None:
    async with request_world(limits=LIMITS) as it:
        it.requester.losses.extend([loss for _ in range(4) for loss in ONE_CHUNK])
        assert await blobs(it).get(await blobs(it).put(DATA)) == DATA
        assert not it.requester.losses


class Dropped(PeerRequester):
    """A server that forgets an upload once."""

    async def ask(self, kind: type[Request], answer: Any, *, timeout: float | None = None, **fields: Any) -> Any:
        if kind is BlobEnd and self.asked.count(BlobBegin) == 1:
            raise UnknownBlob(blob="")
        return await super().ask(kind, answer, timeout=timeout, **fields)


async def test_an_upload_that_the_server_forgot_begins_again() -> None:
    async with request_world(limits=LIMITS) as it:
        requester = Dropped(it.harness)
        await Blobs(requester).put(DATA)
        assert requester.asked.count(BlobBegin) == 2


class Endless(PeerRequester):
    """A server that sends more than there is."""

    async def ask(self, kind: type[Request], *_: Any, **fields: Any) -> Any:
        self.asked.append(kind)
        assert len(self.asked) < 10
        return BlobPart(size=3, content_type="", data=b"xxxx", **fields)


async def test_more_bytes_than_there_are_end_the_reading() -> None:
    async with request_world() as it:
        requester = Endless(it.harness)
        with pytest.raises(BlobMismatch):
            await Blobs(requester).get(reference.write(name_of(DATA)))
        assert requester.asked == [BlobRead]


class Forgetful(PeerRequester):
    """A server that never gets anywhere."""

    async def ask(self, kind: type[Request], *_: Any, **__: Any) -> Any:
        self.asked.append(kind)
        if kind is BlobBegin:
            return BlobOffset(offset=0)
        raise Malformed(path="/offset", why="it is elsewhere", offset=3)


async def test_an_upload_that_gets_nowhere_ends() -> None:
    async with request_world(limits=LIMITS) as it:
        requester = Forgetful(it.harness)
        with pytest.raises(Malformed):
            await Blobs(requester).put(DATA)
        assert requester.asked == [BlobBegin, BlobChunk] * (UPLOAD_TRIES_MAX + 1)
        assert BlobEnd not in requester.asked
        assert BlobRead not in requester.asked
