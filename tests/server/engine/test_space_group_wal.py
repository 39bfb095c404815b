"""A space whose commits go to the group WAL first: the same verdicts, and all that was acknowledged, to everybody."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine_scripts import Script, same, verify
from engines import engine
from group_wals import checkpointer_of
from space import SPACE, patch_, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.storage.directory import hold
from stemmadb.server.storage.port import Done, StorageFailed
from stemmadb.server.storage.sqlite import SqliteStorage
from stemmadb.server.storage.sqlite.wal.group_wal import GroupWal, WalWriter
from stemmadb.server.storage.sqlite.wal.segments import NAMES, SegmentFile
from stemmadb.server.storage.sqlite.wal.writer import ThreadWalWriter, make_wal_writer
from verdicts import X

WRITERS: dict[str, Callable[[], WalWriter]] = {"thread": ThreadWalWriter, "the best there is": make_wal_writer}
COMMITS = 40


class Failing(ThreadWalWriter):
    """The blocks with these numbers, counted from 0, fail."""

    def __init__(self, *failing: int) -> None:
        super().__init__()
        self._failing = failing
        self._count = 0

    def write(self, file: SegmentFile, block: bytes, at: int, told: Done) -> None:
        number, self._count = self._count, self._count + 1
        if number in self._failing:
            asyncio.get_running_loop().call_soon(told, StorageFailed("the disk had an error"))
        else:
            super().write(file, block, at, told)


def begun(directory: Path, writer: WalWriter) -> tuple[SqliteStorage, GroupWal]:
    """A storage with a group WAL from the first commit on."""
    directory.mkdir(exist_ok=True)
    storage = SqliteStorage(directory, wal_writer=writer)
    assert checkpointer_of(storage).make()
    wal = checkpointer_of(storage).wal
    assert wal is not None
    return storage, wal


def workers() -> executors.Executors:
    return executors.threads(writers=2, readers=2)


@pytest.mark.rule("COMMIT-1", "COMMIT-2", "COMMIT-4", "COMMIT-5", "COMMIT-8", "STORE-6")
@pytest.mark.parametrize("kind", WRITERS)
async def test_schedules_through_the_group_wal_give_the_verdicts_of_the_oracle(tmp_path: Path, kind: str) -> None:
    taken = 0
    for seed in range(30):
        directory = tmp_path / str(seed)
        storage, wal = begun(directory, WRITERS[kind]())
        async with engine(storage, access=None, workers=workers(), sizes=Settings(ahead_min=1)) as it:
            for proposal, expected in Script(seed).lines:
                assert same(await it.space.decide(proposal), expected)
            assert await it.space.read(verify) == it.space.version
        taken += wal.taken
        storage.close()
        assert not any((directory / name).exists() for name in NAMES), "they are gone in the end"
    assert taken > 10, "some are fast-path commits on what is in memory"


@pytest.mark.rule("STORE-6", "STORE-2", "COMMIT-1")
async def test_what_was_acknowledged_is_read_in_the_server_beside_it_and_after_it_was_killed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with hold(data):
        storage, wal = begun(data, make_wal_writer())
        async with engine(storage, workers=workers()) as it:
            await it.must(set_(X, {"n": 0}, blind=True))
            for number in range(COMMITS):
                version = await it.must(patch_(X, {"op": "increment", "path": "/n", "by": 1}))
                if number % 5 == 0:
                    assert await it.space.read(lambda reader: reader.tip().version) == version
            assert wal.taken >= COMMITS - 2
            checkpointer_of(storage).start()
            shutil.copytree(data, tmp_path / "killed")  # as it would be found after a kill -9
            assert await asyncio.to_thread(tip_beside, data) == version
        storage.close()
    assert tip_beside(tmp_path / "killed") == version, "a read-only storage recovers it"
    storage = SqliteStorage(tmp_path / "killed")
    async with engine(storage, workers=workers()) as it:
        assert it.space.version == version
        assert await it.value(X) == {"n": COMMITS}
        assert await it.space.read(verify) == version
    storage.close()


def tip_beside(directory: Path) -> int:
    storage = SqliteStorage(directory, read_only=True)
    with storage.open(SPACE).reader() as reader:
        tip = reader.tip().version
    storage.close()
    return tip


@pytest.mark.rule("STORE-6", "COMMIT-10")
async def test_a_block_that_fails_has_no_verdict_and_the_next_is_decided_on_what_is_there(tmp_path: Path) -> None:
    storage, wal = begun(tmp_path, Failing(3, 4, 7))
    async with engine(storage, workers=workers()) as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        accepted = failed = 0
        for _ in range(30):
            try:
                await it.must(patch_(X, {"op": "increment", "path": "/n", "by": 1}))
                accepted += 1
            except errors.Unavailable:
                failed += 1
        assert (accepted, failed) == (27, 3)
        assert await it.value(X) == {"n": accepted}
        assert await it.space.read(verify) == it.space.version == accepted + 2
        assert not wal.is_broken
    storage.close()


@pytest.mark.rule("STORE-6")
async def test_sessions_that_write_at_once_are_one_batch_or_a_few(tmp_path: Path) -> None:
    """And entities that are new go by the file, as ever."""
    storage, wal = begun(tmp_path, make_wal_writer())
    async with engine(storage, workers=workers()) as it:
        ids = [EntityId(f"urn:x:{number}") for number in range(8)]
        for id_ in ids:
            await it.must(set_(id_, 0, blind=True), session=id_)
        before = wal.taken
        await asyncio.gather(*[it.must(set_(id_, 1, blind=True), session=id_) for id_ in ids])
        assert 1 <= wal.taken - before <= len(ids)
        assert [await it.value(id_) for id_ in ids] == [1] * len(ids)
    storage.close()
