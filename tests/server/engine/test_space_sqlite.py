"""A space on the embedded database, on real threads: the same verdicts, and all that was acknowledged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine_scripts import Script, same, verify
from engines import engine
from space import SPACE, patch_, read_, set_
from stemmadb.protocol.model import chain
from stemmadb.protocol.model.admission import Accepted
from stemmadb.server.engine import lanes
from stemmadb.server.engine.settings import Settings
from stemmadb.server.storage.sqlite import SqliteStorage
from verdicts import X


@pytest.mark.rule("COMMIT-1", "COMMIT-2", "COMMIT-4", "COMMIT-5", "COMMIT-8")
@pytest.mark.parametrize("cache", [0, 64 << 20], ids=["no cache", "cache"])
async def test_schedules_on_files_and_threads_give_the_verdicts_of_the_oracle(tmp_path: Path, cache: int) -> None:
    for seed in range(6):
        storage = SqliteStorage(tmp_path / str(seed))
        script = Script(seed)
        middle = len(script.lines) // 2
        for piece in (script.lines[:middle], script.lines[middle:]):
            workers = lanes.threads(writers=2, readers=2)
            async with engine(storage, access=None, workers=workers, sizes=Settings(cache_bytes_max=cache)) as it:
                outcomes = await asyncio.gather(*[it.space.decide(proposal) for proposal, _ in piece])
                for (_, expected), actual in zip(piece, outcomes, strict=True):
                    assert same(actual, expected)
                assert await it.space.read(verify) == it.space.version
        storage.close()


@pytest.mark.rule("COMMIT-1", "SNAP-1")
async def test_writers_and_readers_on_threads_see_every_acknowledged_commit(tmp_path: Path) -> None:
    storage = SqliteStorage(tmp_path)
    async with engine(storage, workers=lanes.threads(writers=2, readers=2)) as it:
        await it.must(set_(X, {"n": 0}, blind=True))

        async def writer(name: str) -> None:
            for _ in range(40):
                version = await it.must(patch_(X, {"op": "increment", "path": "/n", "by": 1}), session=name)
                assert await it.space.read(lambda reader: reader.tip().version) >= version

        await asyncio.gather(*[writer(f"w{number}") for number in range(5)])
        assert await it.value(X) == {"n": 200}
        stale = await it.commit(set_(X, 1), reads=[read_(X, 100)])
        assert not isinstance(stale, Accepted)
    async with engine(storage, workers=lanes.threads(writers=2, readers=2)) as it:
        assert it.space.version == 202
        assert await it.value(X) == {"n": 200}
        assert await it.space.read(lambda reader: len(list(reader.snapshots()))) >= 1
        await it.space.read(lambda reader: list(chain.verify(SPACE, reader.history())))
    storage.close()
