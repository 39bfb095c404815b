"""The feed of a space: batches in order, each once, with the state after them, kept within bounds (SYNC-3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asking import asked
from engines import Held, LonelyStorage, engine, turns
from feeds import Calls, Failing, feeding, held, roots, v
from space import ALICE, SPACE, delete_, patch_, set_
from stemmadb.protocol.errors import GoingAway, Unavailable
from stemmadb.protocol.model.log.commit_record import BranchCreate, genesis
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.engine.plan import compaction, erasure
from stemmadb.server.service.base.durable_batches import Batch
from stemmadb.server.service.watch import evaluation
from stemmadb.server.service.watch.feed import Feed
from verdicts import X, Y, replace

EVERYTHING = ("",)


async def test_it_begins_at_the_end_of_the_log() -> None:
    async with engine(access=None) as it, feeding(it) as feed:
        assert (feed.version, feed.hash) == (0, genesis(SPACE))
    async with engine() as it:
        await it.must(set_(X, 1, blind=True))
        async with feeding(it) as feed:
            tip = await it.space.read(lambda reader: reader.tip())
            assert (feed.version, feed.hash) == (2, tip.hash)
            assert feed.batches(v(2)) == ()
            assert feed.batches(v(1)) is None


async def test_each_batch_is_told_once_and_in_order() -> None:
    async with engine(LonelyStorage()) as it, feeding(it) as feed:
        told: list[Batch] = []
        feed.on_batch = told.append
        await asyncio.gather(*(it.must(set_(X, n, blind=True), session=f"s{n}") for n in range(20)))
        assert [one.commit.version for batch in told for one in batch.commits] == list(range(2, 22))
        assert len(told) < 20
        assert [batch.after for batch in told] == [1, *(batch.to for batch in told[:-1])]
        assert feed.batches(v(1)) == told
        await it.must(set_(X, 20, blind=True))
        assert feed.batches(told[0].to) == told[1:]
        assert (feed.version, feed.hash) == (22, told[-1].commits[-1].commit.hash)
        assert sum(batch.size for batch in told) == 21


async def test_a_batch_has_the_state_after_it() -> None:
    async with engine() as it, feeding(it) as feed:
        await it.structure(BranchCreate(name=BranchName("draft"), parent=MAIN, fork=v(1)))
        await it.must(set_(X, {"n": 1}, blind=True), set_(Y, 2, blind=True), patch_(X, replace("/n", 3), blind=True))
        await it.must(delete_(Y, blind=True))
        await it.must(set_(X, "d", blind=True), branch="draft")
        batches = feed.batches(v(2))
        assert batches is not None
        wrote, deleted, on_draft = batches
        now = await evaluation.values(it.space, MAIN, [EntityId(X)], wrote.to, EVERYTHING)
        assert wrote.changes(MAIN)[EntityId(X)] == now[EntityId(X)]
        assert dict(deleted.changes(MAIN)) == {Y: None}
        assert EntityId(Y) in deleted.changes(MAIN)
        assert len(deleted.changes(BranchName("draft"))) == 0
        change = on_draft.changes(BranchName("draft"))[EntityId(X)]
        assert change is not None
        assert change is on_draft.changes(BranchName("draft"))[EntityId(X)]
        assert (change.value, change.version, list(on_draft.written)) == ("d", 5, ["draft"])


async def test_groups_are_stepped_and_members_told_before_the_batch() -> None:
    async with engine() as it, feeding(it) as feed:
        group = await feed.groups.get(roots("urn:*"), EVERYTHING)
        calls = Calls(feed)
        group.join(calls)
        seen: list[tuple[Any, ...]] = []
        feed.on_batch = lambda batch: seen.append((batch.to, group.at, set(group.entities()), list(calls.told)))
        await it.must(set_(X, 1, blind=True))
        assert seen == [(2, 2, {X}, [(2, 2)])]


async def test_only_so_many_batches_are_kept() -> None:
    async with engine() as it, feeding(it, batches_max=2) as feed:
        for n in range(4):
            await it.must(set_(X, n, blind=True))
        assert (feed.retained_after, feed.batches(v(2))) == (3, None)
        kept = feed.batches(v(3))
        assert kept is not None
        assert [batch.to for batch in kept] == [4, 5]


async def test_only_so_many_bytes_are_kept_and_the_newest_batch_whatever_its_size() -> None:
    async with engine() as it, feeding(it, bytes_max=100_000) as feed:
        await it.must(set_(X, "x" * 30_000, blind=True))
        await it.must(patch_(X, {"op": "replace", "path": "", "value": "y" * 30_000}, blind=True))
        assert feed.retained_after == 2  # the value counts beside the body
        await it.must(set_(X, "x" * 300_000, blind=True))
        assert feed.retained_after == 3
        await it.must(set_(X, 1, blind=True))
        assert feed.retained_after == 4
        await it.must(set_(X, 2, blind=True))
        assert feed.retained_after == 4


async def test_a_batch_that_lies_across_a_version_is_not_told_from_there() -> None:
    async with engine(LonelyStorage()) as it, feeding(it) as feed:
        await asyncio.gather(*(it.must(set_(X, n, blind=True), session=f"s{n}") for n in range(5)))
        assert feed.batches(v(1)) is not None
        batches = feed.batches(v(1)) or ()
        inside = next(v(batch.after + 1) for batch in batches if batch.to > batch.after + 1)
        assert feed.batches(inside) is None
        assert feed.batches(v(99)) is None


async def test_what_is_written_while_it_starts_is_told_once() -> None:
    reading = Held()
    async with engine(workers=Executors(executors.Inline(), reading)) as it:
        feed = Feed(it.space, bytes_max=1 << 20, batches_max=10, groups_max=10)
        told: list[int] = []
        feed.on_batch = lambda batch: told.append(batch.to)
        reading.is_held = True
        starting = asyncio.ensure_future(feed.start())
        await turns()
        await it.must(set_(X, 1, blind=True))
        await it.must(set_(X, 2, blind=True))
        assert told == []
        reading.release()
        await starting
        await it.must(set_(X, 3, blind=True))
        assert told == [4]  # the read view was opened late and has the others
        assert feed.version == 4
        feed.stop()


async def test_what_is_written_after_the_cut_of_the_start_is_told() -> None:
    async with engine() as it:
        feed = Feed(it.space, bytes_max=1 << 20, batches_max=10, groups_max=10)
        told: list[int] = []
        feed.on_batch = lambda batch: told.append(batch.to)
        tip = await it.space.read(lambda reader: reader.tip())

        async def late(_: Any) -> Any:
            await it.must(set_(X, 1, blind=True))
            return tip

        with pytest.MonkeyPatch.context() as patching:
            patching.setattr(it.space, "read", late)
            await feed.start()
        assert (told, feed.version) == ([2], 2)
        feed.stop()


async def test_a_start_that_fails_leaves_nothing_behind() -> None:
    reading = Failing()
    reading.fails = True
    async with engine(workers=Executors(executors.Inline(), reading)) as it:
        feed = Feed(it.space, bytes_max=1 << 20, batches_max=10, groups_max=10)
        with pytest.raises(Unavailable):
            await feed.start()
        await turns()
        assert not it.space.is_in_use


async def test_a_feed_that_was_stopped_tells_nothing_and_makes_no_groups() -> None:
    async with engine() as it, feeding(it) as feed:
        told: list[Batch] = []
        feed.on_batch = told.append
        feed.stop()
        await it.must(set_(X, 1, blind=True))
        assert (told, feed.version) == ([], 1)
        with pytest.raises(GoingAway):
            await feed.groups.get(roots(X), EVERYTHING)


async def test_an_error_of_a_subscriber_is_reported_and_the_rest_goes_on() -> None:
    async with engine() as it, feeding(it) as feed:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))

        def wrong(_: object) -> None:
            raise RuntimeError

        class Wrong:
            def stepped(self, _: object) -> None:
                raise RuntimeError

        group = await feed.groups.get(roots(X), EVERYTHING)
        calls = Calls(feed)
        group.join(Wrong())
        group.join(calls)
        feed.on_batch = wrong
        await it.must(set_(X, 1, blind=True))
        await it.must(set_(X, 2, blind=True))
        assert calls.told == [(2, 2), (3, 3)]
        assert (feed.version, len(reported)) == (3, 4)


@pytest.mark.rule("ERASE-1")
async def test_what_was_erased_is_not_kept() -> None:
    async with engine() as it, feeding(it) as feed:
        group = await feed.groups.get(roots("urn:*"), EVERYTHING)
        secret = await it.must(set_(X, "secret", blind=True))
        await it.must(set_(Y, 1, blind=True))
        await erasure.erase(it.space, asked("e", author=ALICE), {EntityId(X): [secret]}, {MAIN: encode("clean")})
        assert (feed.batches(v(1)), feed.retained_after) == (None, 3)
        assert group.delta(v(1), v(4)) is None
        delta = group.delta(v(3), v(4))
        assert delta is not None
        assert {id_: one[2] for id_, one in held(delta.updated).items()} == {X: "clean"}


async def test_a_checkpoint_changes_version_and_hash_of_what_is_watched() -> None:
    async with engine() as it, feeding(it) as feed:
        group = await feed.groups.get(roots(X), EVERYTHING)
        await it.must(set_(X, {"n": 0}, blind=True))
        for n in range(40):
            await it.must(patch_(X, replace("/n", n), blind=True))
        before = feed.version
        await compaction.compact(it.space, asked("c", author=ALICE), before, now=it.clock())
        delta = group.delta(before, feed.version)
        now = await evaluation.values(it.space, MAIN, [EntityId(X)], feed.version, EVERYTHING)
        assert delta is not None
        assert held(delta.updated) == held(now)
        assert now[EntityId(X)].version == feed.version > before
