"""A space on the embedded database, on real threads: the same verdicts, and all that was acknowledged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from blob_space import name_of
from engine_scripts import Script, same, verify
from engines import Held, engine, turns
from space import SPACE, patch_, read_, set_
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.base.open_log import OpenLog
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.storage.blob_directory import blob_path
from stemmadb.server.storage.port import SpaceLog, StoredBlob
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
            workers = executors.threads(writers=2, readers=2)
            async with engine(
                storage, access=None, workers=workers, sizes=Settings(ahead_min=1, cache_bytes_max=cache)
            ) as it:
                outcomes = await asyncio.gather(*[it.space.decide(proposal) for proposal, _ in piece])
                for (_, expected), actual in zip(piece, outcomes, strict=True):
                    assert same(actual, expected)
                assert await it.space.read(verify) == it.space.version
        storage.close()


@pytest.mark.rule("COMMIT-1", "SNAP-1")
async def test_writers_and_readers_on_threads_see_every_acknowledged_commit(tmp_path: Path) -> None:
    storage = SqliteStorage(tmp_path)
    async with engine(storage, workers=executors.threads(writers=2, readers=2)) as it:
        await it.must(set_(X, {"n": 0}, blind=True))

        async def writer(name: str) -> None:
            for _ in range(40):
                version = await it.must(patch_(X, {"op": "increment", "path": "/n", "by": 1}), session=name)
                assert await it.space.read(lambda reader: reader.tip().version) >= version

        await asyncio.gather(*[writer(f"w{number}") for number in range(5)])
        assert await it.value(X) == {"n": 200}
        stale = await it.commit(set_(X, 1), reads=[read_(X, 100)])
        assert not isinstance(stale, Accepted)
    async with engine(storage, workers=executors.threads(writers=2, readers=2)) as it:
        assert it.space.version == 202
        assert await it.value(X) == {"n": 200}
        assert await it.space.read(lambda reader: len(list(reader.snapshots()))) >= 1
        await it.space.read(lambda reader: list(chain.verify(SPACE, reader.history())))
    storage.close()


async def test_a_question_that_waits_while_the_file_is_opened_again_is_asked_of_the_new_log(tmp_path: Path) -> None:
    storage, held = SqliteStorage(tmp_path), Held()
    log = OpenLog(storage, SPACE, executors.Inline(), lambda _: None)
    await log.ready(create=True)
    held.is_held = True
    waiting = asyncio.ensure_future(log.read(held, lambda reader: reader.tip().version))
    await turns()
    log.broke()
    await log.ready()
    held.release()
    assert (await waiting, log.generation) == (0, 2)
    await log.close()


@pytest.mark.rule("BLOB-2")
async def test_files_without_a_row_go_when_the_space_is_opened_and_those_that_cannot_do_no_harm(
    tmp_path: Path,
) -> None:
    storage = SqliteStorage(tmp_path)
    data = b"large" * 20
    kept, stray = name_of(data), name_of(b"stray")
    async with engine(storage) as it:
        folder = await it.space.in_turn(lambda log: keep_file(log, data))
    (folder / reference.write(stray)).write_bytes(b"stray")
    (folder / "notes.txt").write_bytes(b"not ours")
    async with engine(storage) as it:
        await it.must(set_(X, 1, blind=True), session="t")
        assert sorted(path.name for path in folder.iterdir()) == [reference.write(kept), "notes.txt"]
    (folder / reference.write(stray)).mkdir()
    async with engine(storage) as it:
        assert await it.must(set_(X, 2, blind=True), session="u") == 3
        assert (folder / reference.write(stray)).is_dir()
    storage.close()


def keep_file(log: SpaceLog, data: bytes) -> Path:
    assert log.directory is not None
    file = blob_path(log.directory, name_of(data))
    file.parent.mkdir()
    file.write_bytes(data)
    log.put_blob(StoredBlob(name_of(data), len(data), "text/plain", TimeMs(0), in_file=True), None)
    return file.parent
