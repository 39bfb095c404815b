"""A group that needs values waits for them, behind the feed, and nobody waits for it (WATCH-1, SYNC-6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engines import Engine, Held, engine, turns
from feeds import Calls, Failing, Holder, feeding, fresh, held, roots, v
from graphs import link
from space import delete_, set_
from stemmadb.protocol.errors import BranchDeleted, Compacted, Internal, LimitExceeded
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete
from stemmadb.protocol.model.values.ids import MAIN, BranchName
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.service.watch import evaluation, step
from stemmadb.server.service.watch.feed import Feed
from verdicts import X

EVERYTHING = ("",)
A, B, C = "urn:a", "urn:b", "urn:c"


class Scene:
    """One group that follows links from `urn:a`, in a space whose reads are held from now on."""

    def __init__(self, it: Engine, feed: Feed, reading: Held, holder: Holder) -> None:
        self.it = it
        self.feed = feed
        self.reading = reading
        self.holder = holder
        self.group = holder.group
        self.calls = Calls(feed)
        self.group.join(self.calls)

    async def point(self, target: str) -> None:
        """Links `urn:a` to an entity that was written before."""
        await self.it.must(set_(A, {"next": link(target)}, blind=True))

    async def release(self) -> None:
        self.reading.release()
        await turns()

    async def check(self) -> None:
        """It has caught up, and what it holds is right."""
        assert (self.group.error, self.group.at) == (None, self.feed.version)
        await self.holder.take(self.feed.version)
        assert self.holder.held == await fresh(self.it, self.holder.prepared, EVERYTHING, self.feed.version)
        assert self.holder.held.keys() == self.group.entities()


@asynccontextmanager
async def scene(*, limits: Limits | None = None, branch: str = "main", **how: Any) -> AsyncIterator[Scene]:
    reading = Held()
    async with engine(workers=Executors(executors.Inline(), reading), limits=limits or Limits()) as it:
        await it.must(*(set_(id_, 1, blind=True) for id_ in (A, B, C)))
        await it.structure(BranchCreate(name=BranchName("draft"), parent=MAIN, fork=v(2)))
        async with feeding(it, **how) as feed:
            holder = Holder(it, feed, roots(A, branch=branch, schema=True))
            await holder.begin()
            reading.is_held = True
            yield Scene(it, feed, reading, holder)
            reading.release()


@pytest.mark.rule("WATCH-1")
async def test_a_group_that_asks_is_behind_until_it_was_answered() -> None:
    async with scene() as it:
        before = it.feed.version
        other = Calls(it.feed)
        it.reading.is_held = False
        quick = await it.feed.groups.get(roots("urn:*"), EVERYTHING)
        it.reading.is_held = True
        quick.join(other)
        await it.point(B)
        assert (it.feed.version, it.group.at, it.group.entities()) == (before + 1, before, {A})
        assert it.group.delta(before, it.feed.version) is None
        assert it.group.delta(before, before) is not None
        assert (quick.at, other.told) == (before + 1, [(before + 1, before + 1)])
        assert it.calls.told == []
        await it.release()
        assert it.calls.told == [(before + 1, before + 1)]
        assert it.group.entities() == {A, B}
        await it.check()
        assert it.holder.by_reading == 0


async def test_a_group_does_not_ask_for_what_the_batch_has() -> None:
    async with scene() as it:
        await it.it.must(set_(A, {"next": link("urn:new")}, blind=True), set_("urn:new", 1, blind=True))
        assert it.group.at == it.feed.version
        assert it.group.entities() == {A, "urn:new"}


async def test_what_comes_meanwhile_is_caught_up_with_step_by_step() -> None:
    async with scene() as it:
        before = it.feed.version
        await it.point(B)
        await it.it.must(set_(B, {"next": link(C)}, blind=True))
        await it.it.must(set_(X, 1, blind=True))
        await it.it.must(set_(C, 2, blind=True))
        await it.it.must(delete_(B, blind=True))
        assert it.group.at == before
        it.reading.step()
        await turns()
        assert (it.group.at, it.group.entities()) == (before + 1, {A, B})  # and now it asks for C
        assert it.calls.told == [(before + 5, before + 1)]
        for to in (v(before + 1),):
            await it.holder.take(to)
        await it.release()
        assert it.calls.told == [(before + 5, before + 1), (before + 5, before + 5)]
        assert it.group.delta(v(before + 2), v(before + 3)) is not None
        await it.holder.take(v(before + 2))
        assert it.holder.held.keys() == {A, B, C}
        await it.check()
        for version, seen in it.holder.seen.items():
            assert seen == await fresh(it.it, it.holder.prepared, EVERYTHING, version)


@pytest.mark.rule("SYNC-6")
async def test_a_group_whose_batches_are_gone_is_evaluated_anew() -> None:
    async with scene(batches_max=1) as it:
        before = it.feed.version
        await it.point(B)
        await it.it.must(set_(X, 1, blind=True))
        await it.it.must(set_(B, 5, blind=True))
        await it.release()
        assert (it.group.error, it.group.at, it.group.entities()) == (None, it.feed.version, {A, B})
        assert it.group.delta(before, it.feed.version) is None
        assert it.calls.told[-1] == (it.feed.version, it.feed.version)
        await it.check()
        assert it.holder.by_reading == 1
        await it.it.must(set_(B, 6, blind=True))
        await it.check()
        assert it.holder.by_reading == 1


async def test_a_bound_passed_behind_the_feed_ends_the_group() -> None:
    async with scene(limits=Limits(query_entities_max=2)) as it:
        before = it.feed.version
        await it.it.must(set_(A, [link(B), link(C)], blind=True))
        await it.release()
        assert isinstance(it.group.error, LimitExceeded)
        assert (it.group.at, it.calls.told) == (before, [(before + 1, before)])


async def test_an_internal_error_behind_the_feed_ends_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as it:
        reported: list[BaseException] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
        before = it.feed.version
        await it.point(B)
        with monkeypatch.context() as patching:
            patching.setattr(evaluation, "may_read", None)
            await it.release()
        assert isinstance(it.group.error, Internal)
        assert (it.calls.told, [type(one) for one in reported]) == ([(before + 1, before)], [TypeError])


async def test_a_branch_deleted_meanwhile_ends_the_group_with_its_last_state() -> None:
    async with scene(branch="draft") as it:
        await it.it.must(set_(A, {"next": link(B)}, blind=True), branch="draft")
        await it.it.must(set_(B, 7, blind=True), branch="draft")
        await it.it.structure(BranchDelete(name=BranchName("draft")))
        last = it.feed.version
        await it.it.must(set_(B, 8, blind=True))
        await it.release()
        assert isinstance(it.group.error, BranchDeleted)
        assert it.group.at == last
        await it.holder.take(last)
        assert it.holder.held == await fresh(it.it, it.holder.prepared, EVERYTHING, last)
        assert it.holder.held.keys() == {A, B}


async def test_what_concerns_it_again_while_it_is_behind_waits() -> None:
    async with scene() as it:
        await it.point(B)
        await it.point(C)
        await it.it.must(set_(A, 2, blind=True))
        await it.release()
        await it.check()
        assert it.holder.held.keys() == {A}


async def test_the_journal_keeps_no_step_whose_batch_is_gone() -> None:
    async with scene(batches_max=1) as it:
        before = it.feed.version
        await it.point(B)
        await it.it.must(set_(X, 1, blind=True))
        await it.release()
        assert it.group.delta(before, it.feed.version) is None
        assert it.group.delta(v(before + 1), it.feed.version) is not None
        await it.check()


async def test_a_group_that_was_let_go_while_it_is_evaluated_anew_stays_so() -> None:
    async with scene(batches_max=1, idle_max=0) as it:
        await it.point(B)
        for n in range(3):
            await it.it.must(set_(X, n, blind=True))
        it.reading.step()
        await turns()
        assert len(it.reading) == 1
        at = it.group.at
        it.holder.end()
        it.group.leave(it.calls)
        await it.release()
        assert (it.group.at, it.group.entities(), it.feed.groups.count) == (at, {A, B}, 0)
        assert len(it.feed.groups._stepper._index) == 0


async def test_a_group_that_was_let_go_meanwhile_stays_so() -> None:
    async with scene(idle_max=0) as it:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        before = it.feed.version
        await it.point(B)
        it.holder.end()
        it.group.leave(it.calls)
        assert it.group.error is not None
        await it.release()
        assert (it.group.at, it.group.entities(), it.calls.told, reported) == (before, {A}, [], [])


async def test_a_cut_below_a_new_floor_makes_it_evaluate_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as it:
        await it.point(B)

        def gone(*_: object, **__: object) -> None:
            raise Compacted(version=1, oldest=2)

        with monkeypatch.context() as patching:
            patching.setattr(evaluation, "finish", gone)
            await it.release()
            await it.point(C)  # the first was asked for before
            await it.release()
        await it.check()


async def test_a_group_that_cannot_be_read_is_tried_again_with_the_next_batch() -> None:
    reading = Failing()
    async with engine(workers=Executors(executors.Inline(), reading)) as it, feeding(it) as feed:
        await it.must(set_(A, 1, blind=True), set_(B, 1, blind=True))
        holder = Holder(it, feed, roots(A, schema=True))
        await holder.begin()
        reading.fails = True
        await it.must(set_(A, {"next": link(B)}, blind=True))
        await turns()
        await it.must(set_(X, 1, blind=True))
        await turns()
        reading.fails = False
        await turns()
        assert (holder.group.error, holder.group.at) == (None, 2)
        await it.must(set_(X, 2, blind=True))
        await turns()
        assert (holder.group.error, holder.group.at) == (None, feed.version)
        await holder.take(feed.version)
        assert holder.held == await fresh(it, holder.prepared, EVERYTHING, feed.version)


async def test_one_that_is_evaluated_anew_may_pass_a_bound() -> None:
    reading = Failing()
    limits = Limits(query_entities_max=2)
    async with engine(workers=Executors(executors.Inline(), reading), limits=limits) as it, feeding(it) as feed:
        await it.must(*(set_(id_, 1, blind=True) for id_ in (A, B, C)))
        holder = Holder(it, feed, roots(A, schema=True))
        await holder.begin()
        calls = Calls(feed)
        holder.group.join(calls)
        reading.fails = True
        await it.must(set_(A, [link(B), link(C)], blind=True))
        await turns()
        reading.fails = False
        await it.must(set_(X, 1, blind=True))
        await turns()
        assert isinstance(holder.group.error, LimitExceeded)
        assert calls.told == [(4, 2)]


async def test_what_is_written_while_a_group_is_made_is_caught_up_with() -> None:
    async with scene() as it:
        making = asyncio.ensure_future(it.feed.groups.get(roots("urn:*"), EVERYTHING))
        await turns()
        await it.it.must(set_(X, 1, blind=True))
        await it.release()
        group = await making
        assert (group.at, group.entities()) == (it.feed.version, {A, B, C, X})
        first = group.first()
        assert first is not None
        assert held(dict(first)) == await fresh(it.it, roots("urn:*"), EVERYTHING, group.at)


@pytest.mark.rule("WATCH-1")
async def test_a_step_that_is_too_much_for_the_loop_is_made_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as it:
        monkeypatch.setattr(step, "TURN_WORK", 5)
        before = it.feed.version
        await it.it.must(set_(A, 2, blind=True))
        assert (it.feed.version, it.group.at) == (before + 1, before)
        await it.it.must(set_(A, 3, blind=True))
        await it.release()
        assert it.group.at == it.feed.version
        await it.check()


@pytest.mark.rule("QUERY-6")
async def test_a_step_past_the_budget_ends_the_watch_and_names_the_bound() -> None:
    async with scene(limits=Limits(query_work_max=1_000)) as it:
        await it.it.must(set_(A, [[] for _ in range(5_000)], blind=True))
        await it.release()
        assert isinstance(it.group.error, LimitExceeded)
        assert it.group.error.facts["bound"] == "query_work_max"
