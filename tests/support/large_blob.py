"""A large blob over HTTP: stored, read whole and in ranges, beside a reader that stops reading; memory is bounded."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from blake3 import blake3

from http_worlds import Answer, HttpPeer, HttpWorld
from served import Process
from stemmadb.protocol.model.values import reference

BLOCK: Final = 1 << 20
LONG: Final = 600.0
RANGES: Final = 40
PART_MAX: Final = 3 * BLOCK


class LargeBlob:
    """Bytes that are made again wherever they are needed, from a seed."""

    def __init__(self, seed: int, size: int) -> None:
        assert size % BLOCK == 0
        self._block, self.size = random.Random(seed).randbytes(BLOCK), size
        digest = blake3()
        for block in self.blocks():
            digest.update(block)
        self.name = reference.write(digest.digest())

    def blocks(self) -> Iterator[bytes]:
        return (self._at(number) for number in range(self.size // BLOCK))

    def part(self, begin: int, end: int) -> bytes:
        first = begin // BLOCK
        data = b"".join(self._at(number) for number in range(first, -(-end // BLOCK)))
        return data[begin - first * BLOCK : end - first * BLOCK]

    def _at(self, number: int) -> bytes:
        return number.to_bytes(8, "big") + self._block[8:]


class BlobSeen(NamedTuple):
    """What the server took for it."""

    requests: int
    resident_before: int
    resident_most: int


class _Memory:
    """The most that a process takes, looked up again and again."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.before = self.most = process.resident_bytes()

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, self._process.resident_bytes())
            await asyncio.sleep(0.02)


async def stored_and_read(world: HttpWorld, process: Process, *, seed: int, size: int) -> BlobSeen:
    """Every byte that comes back is right, or it raises."""
    blob, chance, memory = LargeBlob(seed, size), random.Random(seed), _Memory(process)
    watching = asyncio.create_task(memory.watch())
    try:
        answer = await _put(world, blob)
        assert (answer.status, answer.headers.get("etag")) == (200, f'"{blob.name}"'), answer
        stopped = await _asked(world, blob)  # and it reads no more
        await _read_whole(world, blob)
        kept = await world.peer()
        for number in range(RANGES):
            begin, end, text = _range(chance, blob.size, number)
            kept.write(world.request("GET", f"/blobs/{blob.name}", Range=text))
            part = await kept.answer()
            assert (part.status, part.body == blob.part(begin, end)) == (206, True), text
            assert part.headers["content-range"] == f"bytes {begin}-{end - 1}/{blob.size}"
        over = await world.get(f"/blobs/{blob.name}", Range=f"bytes={blob.size}-")
        assert (over.status, over.headers["content-range"]) == (416, f"bytes */{blob.size}")
        stopped.leave()
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    return BlobSeen(RANGES + 4, memory.before, memory.most)


def _range(chance: random.Random, size: int, number: int) -> tuple[int, int, str]:
    """A range of each kind in turn: in the middle, to the end, and the last bytes."""
    length = chance.randrange(1, PART_MAX)
    match number % 3:
        case 0:
            begin = chance.randrange(size - length)
            return begin, begin + length, f"bytes={begin}-{begin + length - 1}"
        case 1:
            return size - length, size, f"bytes={size - length}-"
        case _:
            return size - length, size, f"bytes=-{length}"


async def _put(world: HttpWorld, blob: LargeBlob) -> Answer:
    peer = await world.peer()
    head = {"Content_Length": str(blob.size), "Content_Type": "application/octet-stream"}
    peer.write(world.request("PUT", f"/blobs/{blob.name}", **head))
    for block in blob.blocks():
        peer.write(block)
        await peer.writer.drain()
    async with asyncio.timeout(LONG):
        return await peer.answer()


async def _asked(world: HttpWorld, blob: LargeBlob) -> HttpPeer:
    peer = await world.peer()
    peer.write(world.request("GET", f"/blobs/{blob.name}"))
    head = await peer.answer(is_head=True)
    assert (head.status, head.headers["content-length"]) == (200, str(blob.size))
    return peer


async def _read_whole(world: HttpWorld, blob: LargeBlob) -> None:
    peer = await _asked(world, blob)
    async with asyncio.timeout(LONG):
        for block in blob.blocks():
            assert await peer.reader.readexactly(BLOCK) == block
