"""A space for tests of blobs: a log, read and written in threads, one writer at a time, and a clock to be set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from blake3 import blake3

from space import SPACE
from stemmadb.protocol.model.values.ids import Did, Hash, TimeMs
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.executors import Inline
from stemmadb.server.engine.blobs.blobs import BlobStore
from stemmadb.server.storage.blob_directory import BlobDirectory
from stemmadb.server.storage.port import LogReader, SpaceLog, Storage

T = TypeVar("T")

LIMITS = Limits(blob_bytes_max=2_000_000, blob_chunk_bytes_max=100_000)
LARGE = bytes(range(256)) * 3_000  # 768,000 bytes: three segments
SMALL = b"hello blob"


def name_of(data: bytes) -> Hash:
    return Hash(blake3(data).digest())


class Threads(Inline):
    """Runs blocking work in threads of the loop."""

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)


class BlobSpace:
    """What blobs ask of a space, on any storage; opening another one on the same is a restart."""

    def __init__(self, storage: Storage, limits: Limits = LIMITS) -> None:
        self.log: SpaceLog = storage.open(SPACE, create=True)
        self.limits = limits
        self.did: Did = SPACE
        self._turn = asyncio.Lock()

    async def read(self, ask: Callable[[LogReader], T]) -> T:
        def asked() -> T:
            with self.log.reader() as reader:
                return ask(reader)

        return await asyncio.to_thread(asked)

    async def in_turn(self, work: Callable[[SpaceLog], T]) -> T:
        async with self._turn:
            return await asyncio.to_thread(work, self.log)

    async def decide(self, *_: Any) -> Any:
        raise AssertionError("blobs decide nothing")


class Clock:
    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self.now = now

    def __call__(self) -> TimeMs:
        return TimeMs(self.now)


def blobs_on(storage: Storage, directory: Path | None, clock: Clock | None = None, **settings: Any) -> BlobStore:
    return BlobStore(
        BlobSpace(storage, settings.pop("limits", LIMITS)),
        directory=directory,
        large=None if directory is None else BlobDirectory(directory),
        workers=settings.pop("workers", Threads()),
        now=clock or Clock(),
        **settings,
    )
