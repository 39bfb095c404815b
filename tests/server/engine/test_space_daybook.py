"""A space whose commits go to the daybook first: the same verdicts, and all that was acknowledged, to everybody."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine_scripts import Script, same, verify
from engines import engine
from space import SPACE, patch_, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.ids import EntityId
from stemmadb.server.carrying import ThreadCarrier, carrier
from stemmadb.server.engine import lanes
from stemmadb.server.engine.settings import Settings
from stemmadb.server.storage.directory import hold
from stemmadb.server.storage.port import StorageFailed, Told
from stemmadb.server.storage.sqlite import SqliteStorage
from stemmadb.server.storage.sqlite.daybook import Carrier, Daybook
from stemmadb.server.storage.sqlite.daybook_files import NAMES, VolumeFile
from verdicts import X

CARRIERS: dict[str, Callable[[], Carrier]] = {"thread": ThreadCarrier, "the best there is": carrier}
COMMITS = 40


class Failing(ThreadCarrier):
    """The pages with these numbers, counted from 0, fail."""

    def __init__(self, *failing: int) -> None:
        super().__init__()
        self._failing = failing
        self._count = 0

    def carry(self, file: VolumeFile, page: bytes, at: int, told: Told) -> None:
        number, self._count = self._count, self._count + 1
        if number in self._failing:
            asyncio.get_running_loop().call_soon(told, StorageFailed("the disk had an error"))
        else:
            super().carry(file, page, at, told)


def begun(directory: Path, carrier_: Carrier) -> tuple[SqliteStorage, Daybook]:
    """A storage with a daybook from the first commit on."""
    directory.mkdir(exist_ok=True)
    storage = SqliteStorage(directory, carrier=carrier_)
    assert storage.clerk is not None
    assert storage.clerk.make()
    assert storage.clerk.book is not None
    return storage, storage.clerk.book


def workers() -> lanes.Lanes:
    return lanes.threads(writers=2, readers=2)


@pytest.mark.rule("COMMIT-1", "COMMIT-2", "COMMIT-4", "COMMIT-5", "COMMIT-8", "STORE-6")
@pytest.mark.parametrize("kind", CARRIERS)
async def test_schedules_through_a_daybook_give_the_verdicts_of_the_oracle(tmp_path: Path, kind: str) -> None:
    taken = 0
    for seed in range(30):
        directory = tmp_path / str(seed)
        storage, book = begun(directory, CARRIERS[kind]())
        async with engine(storage, access=None, workers=workers(), sizes=Settings(ahead_min=1)) as it:
            for proposal, expected in Script(seed).lines:
                assert same(await it.space.decide(proposal), expected)
            assert await it.space.read(verify) == it.space.version
        taken += book.taken
        storage.close()
        assert not any((directory / name).exists() for name in NAMES), "they are gone in the end"
    assert taken > 10, "some are plain commits on what is in memory"


@pytest.mark.rule("STORE-6", "STORE-2", "COMMIT-1")
async def test_what_was_acknowledged_is_read_in_the_server_beside_it_and_after_it_was_killed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with hold(data):
        storage, book = begun(data, carrier())
        async with engine(storage, workers=workers()) as it:
            await it.must(set_(X, {"n": 0}, blind=True))
            for number in range(COMMITS):
                version = await it.must(patch_(X, {"op": "increment", "path": "/n", "by": 1}))
                if number % 5 == 0:
                    assert await it.space.read(lambda reader: reader.tip().version) == version
            assert book.taken >= COMMITS - 2
            assert storage.clerk is not None
            storage.clerk.start()
            shutil.copytree(data, tmp_path / "killed")  # as it would be found after a kill -9
            assert await asyncio.to_thread(tip_beside, data) == version
        storage.close()
    assert tip_beside(tmp_path / "killed") == version, "who only reads brings in what was left, where nobody holds it"
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


@pytest.mark.in_python
@pytest.mark.rule("STORE-6", "COMMIT-10")
async def test_a_page_that_fails_has_no_verdict_and_the_next_is_decided_on_what_is_there(tmp_path: Path) -> None:
    storage, book = begun(tmp_path, Failing(3, 4, 7))
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
        assert not book.is_broken
    storage.close()


@pytest.mark.rule("STORE-6")
async def test_sessions_that_write_at_once_are_one_batch_or_a_few(tmp_path: Path) -> None:
    """And entities that are new go by the file, as ever."""
    storage, book = begun(tmp_path, carrier())
    async with engine(storage, workers=workers()) as it:
        ids = [EntityId(f"urn:x:{number}") for number in range(8)]
        for id_ in ids:
            await it.must(set_(id_, 0, blind=True), session=id_)
        before = book.taken
        await asyncio.gather(*[it.must(set_(id_, 1, blind=True), session=id_) for id_ in ids])
        assert 1 <= book.taken - before <= len(ids)
        assert [await it.value(id_) for id_ in ids] == [1] * len(ids)
    storage.close()
