"""Where the log has gone on without us the feed reads what it missed, and tells it in its place (SYNC-3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engines import Engine, Held, engine, turns
from feeds import Failing, Holder, feeding, fresh, roots, v
from graphs import link
from space import delete_, patch_, set_
from stemmadb.protocol.errors import BranchDeleted
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.base.executors import Executors, Workers
from stemmadb.server.service.base import durable_batches
from stemmadb.server.service.base.durable_batches import Batch, logged
from stemmadb.server.service.watch import feed as feeds
from stemmadb.server.service.watch.feed import Feed
from stemmadb.server.storage.memory import MemoryStorage
from verdicts import X, Y, replace

EVERYTHING = ("",)


def versions(told: list[Batch]) -> list[list[int]]:
    return [[one.commit.version for one in batch.commits] for batch in told]


async def settled(it: Engine, feed: Feed) -> None:
    for _ in range(1_000):
        if feed.version == it.space.version:
            return
        await asyncio.sleep(0)
    raise AssertionError("the feed does not follow")


@asynccontextmanager
async def nodes(storage: MemoryStorage, reading: Workers) -> AsyncIterator[tuple[Engine, Engine, Feed]]:
    """Two on one log; the first has a feed and these workers for its reads."""
    workers = Executors(executors.Inline(), reading)
    async with engine(storage, workers=workers) as it, engine(storage) as other, feeding(it) as feed:
        yield it, other, feed


@pytest.mark.rule("SYNC-3")
async def test_what_another_node_wrote_is_told_in_its_place() -> None:
    storage = MemoryStorage()
    async with engine(storage) as it, engine(storage) as other, feeding(it) as feed:
        told: list[Batch] = []
        feed.on_batch = told.append
        holder = Holder(it, feed, roots("urn:*"))
        await holder.begin()
        await other.structure(BranchCreate(name=BranchName("draft"), parent=MAIN, fork=v(1)))
        await other.must(set_(X, {"n": 1}, blind=True), set_(Y, 1, blind=True), session="o")
        await other.must(patch_(X, replace("/n", 2), blind=True), session="o")
        await other.must(delete_(Y, blind=True), session="o")
        await other.must(set_(Y, "d", blind=True), branch="draft", session="o")
        await it.must(set_("urn:own", 1, blind=True))
        await settled(it, feed)
        assert versions(told) == [[2, 3, 4, 5, 6], [7]]
        gap = told[0]
        assert [fact.id for one in gap.commits for fact in one.facts] == [X, Y, X, Y, Y]
        on_main, on_draft = gap.changes(MAIN), gap.changes(BranchName("draft"))
        assert (on_main[EntityId(X)], on_main[EntityId(Y)]) == ((await value(it, X)), None)
        draft = on_draft[EntityId(Y)]
        assert draft is not None
        assert draft.value == "d"
        await holder.take(feed.version)
        assert holder.held == await fresh(it, holder.prepared, EVERYTHING, 7)
        assert (holder.by_journal, holder.by_reading) == (1, 0)


async def value(it: Engine, id_: str) -> object:
    def ask(reader: object) -> Batch:
        return logged(reader, after=v(1), to=it.space.version, bytes_max=1 << 20)  # type: ignore[arg-type]

    return (await it.space.read(ask)).changes(MAIN)[EntityId(id_)]


async def test_a_large_gap_is_told_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "GAP_BYTES_MAX", 400)
    storage = MemoryStorage()
    async with engine(storage) as it, engine(storage) as other, feeding(it) as feed:
        told: list[Batch] = []
        feed.on_batch = told.append
        for n in range(5):
            await other.must(set_(X, f"{n}" * 50, blind=True), session="o")
        await it.must(set_(Y, 1, blind=True))
        await settled(it, feed)
        assert versions(told) == [[2, 3], [4, 5], [6], [7]]
        seen = [batch.changes(MAIN)[EntityId(X)] for batch in told[:3]]
        assert [entity and entity.version for entity in seen] == [3, 5, 6]


async def test_what_comes_while_a_gap_is_read_waits_behind_it() -> None:
    storage, reading = MemoryStorage(), Held()
    async with nodes(storage, reading) as (it, other, feed):
        told: list[Batch] = []
        feed.on_batch = told.append
        reading.is_held = True
        await other.must(set_(X, 1, blind=True), session="o")
        for n in range(3):
            await it.must(set_(Y, n, blind=True))
        await other.must(set_(X, 2, blind=True), session="o")
        await it.must(set_(Y, 3, blind=True))
        await turns()
        assert told == []
        reading.release()
        await settled(it, feed)
        assert versions(told) == [[2], [3], [4], [5], [6], [7]]


async def test_too_much_behind_a_gap_is_read_from_the_log_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "WAITING_MAX", 2)
    storage, reading = MemoryStorage(), Held()
    async with nodes(storage, reading) as (it, other, feed):
        told: list[Batch] = []
        feed.on_batch = told.append
        reading.is_held = True
        await other.must(set_(X, 1, blind=True), session="o")
        for n in range(6):
            await it.must(set_(Y, n, blind=True))
            assert len(feed._waiting) <= 2
        reading.release()
        await settled(it, feed)
        assert [version for batch in versions(told) for version in batch] == [2, 3, 4, 5, 6, 7, 8]
        assert len(told) < 7


async def test_a_gap_that_cannot_be_read_is_tried_again_with_the_next_batch() -> None:
    storage, reading = MemoryStorage(), Failing()
    async with nodes(storage, reading) as (it, other, feed):
        told: list[Batch] = []
        feed.on_batch = told.append
        reading.fails = True
        await other.must(set_(X, 1, blind=True), session="o")
        await it.must(set_(Y, 1, blind=True))
        await turns()
        reading.fails = False
        await turns()
        assert told == []
        await it.must(set_(Y, 2, blind=True))
        await settled(it, feed)
        assert versions(told) == [[2], [3], [4]]


async def test_an_internal_error_while_a_gap_is_read_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    async with engine(storage) as it, engine(storage) as other, feeding(it) as feed:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))
        with monkeypatch.context() as patching:
            patching.setattr(durable_batches, "logged", None)
            await other.must(set_(X, 1, blind=True), session="o")
            await it.must(set_(Y, 1, blind=True))
            await turns()
        assert set(reported) == {"a gap in the feed of a space could not be read"}
        await it.must(set_(Y, 2, blind=True))
        await settled(it, feed)
        assert feed.version == 4


async def test_a_branch_deleted_in_a_gap_ends_its_groups() -> None:
    storage = MemoryStorage()
    async with engine(storage) as it, engine(storage) as other, feeding(it) as feed:
        await it.structure(BranchCreate(name=BranchName("draft"), parent=MAIN, fork=v(1)))
        group = await feed.groups.get(roots("urn:*", branch="draft"), EVERYTHING)
        await other.must(set_(X, 1, blind=True), branch="draft", session="o")
        await other.structure(BranchDelete(name=BranchName("draft")), operation="gone")
        await it.must(set_(Y, 1, blind=True))
        await settled(it, feed)
        assert group.error is not None
        assert (group.error.code, group.at, group.entities()) == ("branch_deleted", 4, {X})


async def test_a_branch_deleted_in_a_batch_that_asks_ends_its_groups_once_they_were_answered() -> None:
    storage = MemoryStorage()
    async with engine(storage) as it, engine(storage) as other, feeding(it) as feed:
        await it.must(set_(Y, 1, blind=True))
        await it.structure(BranchCreate(name=BranchName("draft"), parent=MAIN, fork=v(2)))
        group = await feed.groups.get(roots(X, branch="draft", schema=True), EVERYTHING)
        await other.must(set_(X, link(Y), blind=True), branch="draft", session="o")
        await other.structure(BranchDelete(name=BranchName("draft")), operation="gone")
        await it.must(set_("urn:own", 1, blind=True))
        await settled(it, feed)
        await turns()
        assert isinstance(group.error, BranchDeleted)
        assert (group.at, group.entities(), feed.version) == (5, {X, Y}, 6)


async def test_a_feed_that_is_stopped_inside_a_gap_tells_nothing_more() -> None:
    storage, reading = MemoryStorage(), Held()
    async with nodes(storage, reading) as (it, other, feed):
        reading.is_held = True
        await other.must(set_(X, 1, blind=True), session="o")
        await it.must(set_(Y, 1, blind=True))
        await turns()
        feed.stop()
        reading.release()
        await turns()
        assert feed.version == 1
