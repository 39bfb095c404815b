"""Where the bytes of an upload come from: read once for their name and once to be sent, and never held whole."""

from __future__ import annotations

import asyncio
import io
import mimetypes
import os
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import IO, BinaryIO, Final, Protocol, TypeAlias, TypeVar, cast

from blake3 import blake3

from stemmadb.protocol.errors import InvalidValue
from stemmadb.protocol.model.values.ids import Hash

READ_BYTES: Final = 1024 * 1024
"""How much of a file is read at a time to hash it."""
SPOOL_BYTES_MAX: Final = 1024 * 1024
"""How much of a stream that cannot be rewound is held in memory; what is longer waits in a temporary file."""
ANY_CONTENT: Final = "application/octet-stream"

BlobData: TypeAlias = bytes | bytearray | memoryview | os.PathLike[str] | BinaryIO | AsyncIterable[bytes]
"""What can be uploaded. A file object is read from where it stands."""

T = TypeVar("T")


class BlockingRunner(Protocol):
    """Runs what blocks on a file, so that the loop goes on."""

    async def __call__(self, work: Callable[[], T], /) -> T: ...


async def in_thread(work: Callable[[], T], /) -> T:
    """In a thread of the loop's own pool."""
    return await asyncio.to_thread(work)


async def at_once(work: Callable[[], T], /) -> T:
    """Here and now: for bytes in memory, and for tests."""
    return work()


class BlobSource:
    """Bytes that can be read from any place, with their name and number."""

    def __init__(self, file: IO[bytes], start: int, run: BlockingRunner) -> None:
        self._file = file
        self._start = start
        self._run = run
        self.hash = Hash(b"")
        self.size = 0

    async def measure(self) -> tuple[Hash, int]:
        """Name and number of the bytes as they are now."""
        hasher, size = blake3(), 0
        while data := await self.read(size, READ_BYTES):
            hasher.update(data)
            size += len(data)
        return Hash(hasher.digest()), size

    async def read(self, offset: int, length: int) -> bytes:
        """At most so many bytes; fewer than that only at the end of a file."""
        return await self._run(partial(self._read, offset, length))

    def _read(self, offset: int, length: int) -> bytes:
        self._file.seek(self._start + offset)
        data = self._file.read(length)
        if not isinstance(data, bytes):
            raise _no_blob("a blob is bytes, and this is text; open the file with mode 'rb'")
        return data


@asynccontextmanager
async def opened(data: BlobData, run: BlockingRunner) -> AsyncIterator[BlobSource]:
    """The source of these bytes, measured; what was opened for it is closed, what was given is not."""
    if isinstance(data, bytes | bytearray | memoryview):
        yield await _measured(io.BytesIO(bytes(data)), 0, at_once)
    elif isinstance(data, os.PathLike):
        file = await run(partial(open, data, "rb"))
        try:
            yield await _measured(cast("IO[bytes]", file), 0, run)
        finally:
            file.close()
    elif isinstance(data, AsyncIterable):
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES_MAX) as spool:
            async for piece in data:
                await run(partial(spool.write, piece))
            yield await _measured(cast("IO[bytes]", spool), 0, run)
    else:
        async with _opened_file(data, run) as source:
            yield source


@asynccontextmanager
async def _opened_file(file: BinaryIO, run: BlockingRunner) -> AsyncIterator[BlobSource]:
    if not callable(getattr(file, "read", None)):
        raise _no_blob(f"a blob is bytes, a Path, a binary file or an iterable of bytes, not {type(file).__name__}")
    if file.seekable():
        yield await _measured(file, file.tell(), run)
        return
    with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES_MAX) as spool:
        while piece := await run(partial(file.read, READ_BYTES)):
            await run(partial(spool.write, piece))
        yield await _measured(cast("IO[bytes]", spool), 0, run)


async def _measured(file: IO[bytes], start: int, run: BlockingRunner) -> BlobSource:
    source = BlobSource(file, start, run)
    source.hash, source.size = await source.measure()
    return source


def guessed_type(data: BlobData) -> str:
    """The content type that the name of a file speaks of."""
    name = os.fspath(data) if isinstance(data, os.PathLike) else getattr(data, "name", None)
    guessed = mimetypes.guess_type(name)[0] if isinstance(name, str) else None
    return guessed or ANY_CONTENT


def _no_blob(why: str) -> InvalidValue:
    return InvalidValue(f"This cannot be uploaded: {why}.", path="", why=why)
