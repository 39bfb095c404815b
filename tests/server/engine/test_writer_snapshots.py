"""Snapshots of a writer: taken by the cost rule, written along, and never needed (SNAP-1)."""

from __future__ import annotations

import asyncio

import pytest

from engines import Engine, LonelyStorage, engine, turns
from snapshots import drop_snapshots
from space import patch_, set_
from stemmadb.protocol.model.values.body import read_stored
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.server.engine.base import moments
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import FactPosition, LogReader, StorageFailed
from verdicts import X, Y

INCREMENT = {"op": "increment", "path": "/n", "by": 1}
LONELY_KEEP = "store_snapshots"
EVERY = 16
"""After so many small patches a snapshot is due."""


async def patched(it: Engine, count: int) -> None:
    for _ in range(count):
        await it.must(patch_(X, INCREMENT))


async def kept(it: Engine) -> list[tuple[FactPosition, Value]]:
    await turns()
    return await it.space.read(lambda reader: [(one.place, read_stored(one.body)) for one in reader.snapshots()])


@pytest.mark.rule("SNAP-1")
async def test_a_space_that_falls_idle_keeps_the_snapshot_that_is_due() -> None:
    seen: list[str] = []
    async with engine(LonelyStorage(seen.append)) as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await patched(it, EVERY - 1)
        assert await kept(it) == []
        await patched(it, 1)
        assert await kept(it) == [(FactPosition(Version(18), 0), {"n": 16})]
        assert seen.count(LONELY_KEEP) == 1
        await patched(it, EVERY)
        assert [place.version for place, _ in await kept(it)] == [18, 34]


@pytest.mark.rule("SNAP-1")
async def test_where_others_write_too_a_snapshot_waits_for_the_next_append() -> None:
    seen: list[str] = []
    async with engine(MemoryStorage(seen.append)) as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await patched(it, EVERY)
        assert await kept(it) == []
        await it.must(set_(Y, 1, blind=True))
        assert [place.version for place, _ in await kept(it)] == [18]
        assert LONELY_KEEP not in seen


@pytest.mark.rule("SNAP-1")
async def test_a_snapshot_is_of_the_last_fact_of_its_entity_in_a_commit() -> None:
    async with engine(LonelyStorage()) as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await it.must(set_(Y, 1, blind=True), *[patch_(X, INCREMENT)] * (EVERY + 5))
        assert await kept(it) == [(FactPosition(Version(3), EVERY + 5), {"n": EVERY + 5})]


@pytest.mark.rule("SNAP-1")
async def test_a_whole_write_ends_the_count() -> None:
    async with engine(LonelyStorage()) as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await patched(it, EVERY - 1)
        await it.must(patch_(X, INCREMENT), set_(X, {"n": 0}, blind=True), patch_(X, INCREMENT))
        await patched(it, EVERY - 2)
        assert await kept(it) == []
        await patched(it, 1)
        assert len(await kept(it)) == 1


@pytest.mark.rule("SNAP-1")
async def test_the_cost_is_known_again_after_a_restart() -> None:
    storage = LonelyStorage()
    async with engine(storage) as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await patched(it, EVERY - 1)
    async with engine(storage, sizes=Settings(ahead_min=1, cache_bytes_max=0)) as it:
        await it.must(patch_(X, INCREMENT), session="after")
        assert [place.version for place, _ in await kept(it)] == [18]


@pytest.mark.rule("SNAP-1")
async def test_a_closed_space_has_written_its_snapshots() -> None:
    storage = LonelyStorage()
    async with engine(storage) as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await asyncio.gather(*[it.commit(patch_(X, INCREMENT)) for _ in range(EVERY)])
        closing = asyncio.ensure_future(it.space.close())
        await closing
    async with engine(storage) as it:
        assert len(await kept(it)) == 1


@pytest.mark.rule("SNAP-1", "COMMIT-10")
async def test_snapshots_that_cannot_be_written_are_forgotten_and_nobody_misses_them() -> None:
    def fail(operation: str) -> None:
        if operation == LONELY_KEEP:
            raise StorageFailed

    async with engine(LonelyStorage(fail)) as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await patched(it, EVERY)
        assert await kept(it) == []
        await patched(it, 3)
        assert await it.value(X) == {"n": EVERY + 3}


@pytest.mark.rule("SNAP-1")
async def test_a_read_replays_no_more_than_the_facts_since_a_snapshot() -> None:
    async with engine(LonelyStorage()) as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await patched(it, 5 * EVERY)

        def facts(reader: LogReader) -> int:
            spans = moments.resolve(reader, ReadMoment()).spans
            return len(reader.replays(spans, [EntityId(X)])[EntityId(X)].facts)

        await turns()
        assert await it.space.read(facts) <= EVERY + 1
        before = [await it.value(X, version=version) for version in range(2, 5 * EVERY, 7)]
        await it.space.in_turn(drop_snapshots)
        assert [await it.value(X, version=version) for version in range(2, 5 * EVERY, 7)] == before


@pytest.mark.rule("HISTORY-3", "SNAP-1")
async def test_many_patches_in_one_batch_leave_no_version_far_from_a_snapshot() -> None:
    async with engine(LonelyStorage()) as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await asyncio.gather(*[it.must(patch_(X, INCREMENT)) for _ in range(6 * EVERY)])
        await turns()

        def most_facts(reader: LogReader) -> int:
            spans = [
                moments.resolve(reader, ReadMoment(version=Version(at))).spans
                for at in range(2, it.space.version + 1)
            ]
            return max(len(reader.replays(one, [EntityId(X)])[EntityId(X)].facts) for one in spans)

        assert await it.space.read(most_facts) <= EVERY + 1
