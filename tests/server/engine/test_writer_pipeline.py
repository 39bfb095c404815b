"""The pipeline of the writer: what is told when, and on what the next batch is decided."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engines import Engine, Held, LonelyStorage, engine, turns
from space import ALICE, BOB, SPACE, patch_, prefix_, read_, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.admission import Accepted, Outcome, RefusedCommit, Repeated
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete, TagCreate, TagDelete
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Version
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import SpaceLog
from verdicts import X, Y, code, refusal, replace

DRAFT = BranchName("draft")


def later(it: Engine, *operations: Any, **how: Any) -> asyncio.Task[Outcome]:
    return asyncio.ensure_future(it.commit(*operations, **how))


@asynccontextmanager
async def held(storage: MemoryStorage | None = None, **sizes: int) -> AsyncIterator[tuple[Engine, Held]]:
    """An engine with a warm head of X, whose writing is held from now on."""
    writing = Held()
    workers = Executors(writing, executors.Inline())
    async with engine(storage or LonelyStorage(), workers=workers, sizes=Settings(ahead_min=1, **sizes)) as it:
        await it.must(set_(X, {"a": 1, "b": 1}, blind=True))
        writing.is_held = True
        try:
            yield it, writing
        finally:
            writing.release()


@pytest.mark.rule("COMMIT-1")
async def test_a_commit_is_seen_and_acknowledged_only_once_it_is_durable() -> None:
    async with held() as (it, writing):
        commit = later(it, set_(X, 2, blind=True))
        await turns()
        assert len(writing) == 1
        assert not commit.done()
        assert await it.value(X) == {"a": 1, "b": 1}
        assert it.space.version == 2
        writing.step()
        assert isinstance(await commit, Accepted)
        assert await it.value(X) == 2
        assert it.space.version == 3


@pytest.mark.rule("COMMIT-10")
async def test_the_next_batch_is_decided_on_what_is_in_flight_and_told_after_it() -> None:
    async with held() as (it, writing):
        first = later(it, patch_(X, replace("/a", 2)), reads=[read_(X, 2, "/a")])
        await turns()
        stale = later(it, patch_(X, replace("/a", 3)), reads=[read_(X, 2, "/a")])
        again = asyncio.ensure_future(it.space.decide(it.propose(set_(X, 5, blind=True), local=1, session="s")))
        other = later(it, patch_(X, replace("/b", 2)), reads=[read_(X, 2, "/b")], session="t")
        await turns()
        assert not any(one.done() for one in (first, stale, again, other))
        writing.step()
        await turns()
        assert first.done()
        assert not stale.done()  # it was decided together with one that is being written
        writing.release()
        assert code(await first) == "accepted"
        assert code(await stale) == "conflict"
        assert code(await again) == "identity_clash"
        assert code(await other) == "accepted"
        assert await it.value(X) == {"a": 2, "b": 2}


@pytest.mark.rule("COMMIT-10")
async def test_refusals_alone_need_no_append_but_wait_for_the_one_in_flight() -> None:
    async with held() as (it, writing):
        first = later(it, patch_(X, replace("/a", 2)), reads=[read_(X, 2, "/a")])
        await turns()
        stale = later(it, patch_(X, replace("/a", 3)), reads=[read_(X, 2, "/a")])
        await turns()
        assert len(writing) == 1
        assert not stale.done()
        writing.step()
        assert code(await stale) == "conflict"
        assert len(writing) == 0
        assert first.done()


@pytest.mark.rule("COMMIT-10")
async def test_where_others_write_too_a_refusal_asks_for_the_tail() -> None:
    async with held(MemoryStorage()) as (it, writing):
        stale = later(it, patch_(X, replace("/a", 3)), reads=[read_(X, 0, "/a")])
        await turns()
        assert len(writing) == 1
        assert not stale.done()
        writing.step()
        assert code(await stale) == "conflict"


async def test_proposals_that_wait_are_written_by_one_append() -> None:
    appends: list[str] = []
    storage = LonelyStorage(appends.append)
    async with held(storage) as (it, writing):
        first = later(it, set_(X, 1, blind=True))
        await turns()
        rest = [later(it, set_(X, number, blind=True)) for number in range(50)]
        await turns()
        appends.clear()
        writing.release()
        assert [one.commit.version for one in await asyncio.gather(first, *rest) if isinstance(one, Accepted)] == [
            *range(3, 54)
        ]
        assert appends.count("append") == 2


async def test_a_batch_is_bounded_by_count() -> None:
    seen: list[int] = []
    async with held(batch_commits_max=4) as (it, writing):
        it.space.subscribe(lambda batch: seen.append(len(batch)))
        rest = [later(it, set_(X, number, blind=True)) for number in range(10)]
        await turns()
        writing.release()
        await asyncio.gather(*rest)
    assert seen == [4, 4, 2]


async def test_a_batch_is_bounded_by_bytes_and_one_larger_than_that_goes_by_itself() -> None:
    seen: list[int] = []
    async with held(batch_bytes_max=5_000) as (it, writing):
        it.space.subscribe(lambda batch: seen.append(len(batch)))
        sizes = [2_000, 2_000, 2_000, 9_000, 1_000]
        rest = [later(it, set_(X, "x" * size, blind=True)) for size in sizes]
        await turns()
        writing.release()
        await asyncio.gather(*rest)
    assert seen == [2, 1, 1, 1]


@pytest.mark.rule("COMMIT-1")
async def test_subscribers_are_told_in_order_before_the_verdicts_and_until_they_leave() -> None:
    told: list[int] = []
    async with engine() as it:

        def subscriber(batch: Sequence[Accepted]) -> None:
            assert it.space.version == batch[-1].commit.version
            told.extend(one.commit.version for one in batch)

        leave = it.space.subscribe(subscriber)
        commits = [later(it, set_(X, number, blind=True)) for number in range(5)]
        for commit in commits:
            outcome = await commit
            assert isinstance(outcome, Accepted)
            assert outcome.commit.version in told
        assert told == [2, 3, 4, 5, 6]
        leave()
        await it.must(set_(X, 9, blind=True))
        assert told == [2, 3, 4, 5, 6]


async def test_a_subscriber_that_fails_keeps_nobody_from_being_told() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    told: list[int] = []
    async with engine() as it:

        def wrong(_batch: Sequence[Accepted]) -> None:
            raise ZeroDivisionError

        it.space.subscribe(wrong)
        it.space.subscribe(lambda batch: told.append(len(batch)))
        await it.must(set_(X, 9, blind=True))
    assert told == [1]
    assert [type(context["exception"]) for context in reported] == [ZeroDivisionError]


@pytest.mark.rule("COMMIT-5")
async def test_locals_are_decided_in_the_order_they_came_in_also_when_the_queue_is_full() -> None:
    async with held(queue_max=2, batch_commits_max=2) as (it, writing):
        commits = [later(it, set_(X, number, blind=True)) for number in range(20)]
        await turns()
        assert not it.space.has_room
        writing.release()
        outcomes = await asyncio.gather(*commits)
        assert [code(one) for one in outcomes] == ["accepted"] * 20
        assert await it.value(X) == 19


async def test_a_caller_who_gives_up_disturbs_nobody() -> None:
    async with held(queue_max=2, batch_commits_max=1) as (it, writing):
        commits = [later(it, set_(f"urn:{number}", number, blind=True)) for number in range(6)]
        await turns()
        for number in (0, 2, 5):  # in flight, in the queue, waiting for room
            commits[number].cancel()
        await turns()
        writing.release()
        outcomes = await asyncio.gather(*commits, return_exceptions=True)
        assert [isinstance(one, asyncio.CancelledError) for one in outcomes] == [True, False] * 2 + [False, True]
        assert code(await it.commit(set_(Y, 1, blind=True))) == "accepted"
        assert [await it.value(f"urn:{number}") for number in range(6)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.rule("ACL-1")
async def test_a_change_of_rights_holds_from_the_very_next_proposal_on() -> None:
    async with held() as (it, writing):
        before = later(it, set_(X, 1, blind=True), author=BOB)
        change = later(it, set_(SPACE, {ALICE: "own"}, blind=True))
        after = later(it, set_(X, 2, blind=True), author=BOB)
        own = later(it, set_(X, 3, blind=True))
        await turns()
        writing.release()
        assert [code(await one) for one in (before, change, after, own)] == [
            "accepted",
            "accepted",
            "forbidden",
            "accepted",
        ]


@pytest.mark.rule("ACL-3")
async def test_before_there_is_an_access_list_only_the_space_itself_may_write_it() -> None:
    async with engine(access=None) as it:
        assert code(await it.commit(set_(SPACE, {ALICE: "own"}, blind=True))) == "forbidden"
        assert code(await it.commit(set_(X, 1, blind=True), author=SPACE)) == "forbidden"
        assert code(await it.commit(set_(SPACE, {ALICE: "own"}, blind=True), author=SPACE)) == "accepted"
        assert code(await it.commit(set_(X, 1, blind=True))) == "accepted"


@pytest.mark.rule("BRANCH-1", "BRANCH-2")
async def test_a_branch_made_in_flight_sees_what_was_in_flight_before_it() -> None:
    async with held(MemoryStorage()) as (it, writing):
        first = later(it, set_(X, "in flight", blind=True))
        made = asyncio.ensure_future(it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=Version(3))))
        await turns()
        stale = later(it, set_(X, "stale"), reads=[read_(X, 2)], branch="draft")
        fine = later(it, set_(X, "fine"), reads=[read_(X, 3)], branch="draft", session="t")
        await turns()
        assert len(writing) == 1  # nothing is gathered on a structure that is not durable
        writing.release()
        verdicts = [code(await one) for one in (first, made, stale, fine)]
        assert verdicts == ["accepted", "accepted", "conflict", "accepted"]


@pytest.mark.rule("BRANCH-1")
async def test_branches_and_tags_change_under_the_batches_that_follow() -> None:
    async with engine(LonelyStorage()) as it:
        await it.must(set_(X, 1, blind=True))
        steps = [
            it.commit(set_(X, 2, blind=True), branch="draft", session="a"),
            it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=Version(2))),
            it.commit(set_(X, 2, blind=True), branch="draft", session="b"),
            it.commit(set_(Y, 2), reads=[read_(X, 2, branch="main"), read_(Y, 2)], branch="draft", session="b"),
            it.structure(TagCreate(name="v1", branch=DRAFT, version=Version(3))),
            it.structure(TagCreate(name="v1", branch=DRAFT, version=Version(3))),
            it.structure(BranchDelete(name=DRAFT)),
            it.commit(set_(X, 3, blind=True), branch="draft", session="b"),
            it.structure(TagDelete(name="v1")),
            it.structure(TagDelete(name="v1")),
        ]
        outcomes = await asyncio.gather(*steps)
        assert [code(one) for one in outcomes] == [
            "unknown_branch",
            "accepted",
            "accepted",
            "accepted",
            "accepted",
            "tag_exists",
            "accepted",
            "branch_deleted",
            "accepted",
            "unknown_tag",
        ]
        assert (await it.value(X), await it.value(X, "draft")) == (1, 2)


@pytest.mark.rule("COMMIT-11")
async def test_an_operation_id_is_accepted_once_also_while_it_is_in_flight() -> None:
    async with held() as (it, writing):
        details = BranchCreate(name=DRAFT, parent=MAIN, fork=Version(1))
        first = asyncio.ensure_future(it.structure(details, operation="once"))
        await turns()
        again = asyncio.ensure_future(it.structure(details, operation="once"))
        await turns()
        writing.release()
        assert isinstance(await first, Accepted)
        assert await again == Repeated(Version(3))
        assert await it.structure(details, operation="once") == Repeated(Version(3))
        assert code(await it.structure(BranchDelete(name=DRAFT), operation="once")) == "identity_clash"


@pytest.mark.rule("COMMIT-5")
async def test_a_commit_sent_again_gets_its_first_answer_however_long_ago_that_was() -> None:
    async with held(sessions_max=1) as (it, writing):
        proposal = it.propose(set_(X, 1, blind=True), session="t")
        first = asyncio.ensure_future(it.space.decide(proposal))
        await turns()
        again = asyncio.ensure_future(it.space.decide(proposal))
        await turns()
        writing.release()
        assert isinstance(await first, Accepted)
        assert await again == Repeated(Version(3))
        await it.must(set_(X, 2, blind=True), session="u")
        await it.must(set_(X, 2, blind=True), session="t", local=7)
        assert await it.space.decide(proposal) == Repeated(Version(3))
        late = refusal(await it.commit(set_(X, 2, blind=True), session="t", local=6))
        assert isinstance(late, errors.Overtaken)


@pytest.mark.rule("COMMIT-4")
async def test_a_read_through_a_commit_in_flight_holds() -> None:
    async with held() as (it, writing):
        first = later(it, set_(X, "mine", blind=True), session="t", local=1)
        await turns()
        second = later(it, set_(X, "mine too"), reads=[read_(X, 2, through=[1])], session="t", local=2)
        third = later(it, set_(X, "not"), reads=[read_(X, 2, through=[5])], session="t", local=6)
        await turns()
        writing.release()
        assert [code(await one) for one in (first, second, third)] == ["accepted", "accepted", "dependency"]


@pytest.mark.rule("COMMIT-2")
async def test_a_prefix_read_sees_what_is_in_flight() -> None:
    async with held() as (it, writing):
        first = later(it, set_("urn:todo:1", 1, blind=True))
        await turns()
        stale = later(it, set_("urn:todo:2", 1), reads=[prefix_("urn:todo:", 2)], session="t")
        fine = later(it, set_("urn:note:2", 1), reads=[prefix_("urn:note:", 2)], session="u")
        await turns()
        writing.release()
        assert [code(await one) for one in (first, stale, fine)] == ["accepted", "conflict", "accepted"]


async def test_work_in_turn_runs_alone_and_after_what_was_asked_for_before_it() -> None:
    async with held() as (it, writing):
        order: list[str] = []

        def work(log: SpaceLog) -> str:
            with log.reader() as reader:
                order.append(f"work at {reader.tip().version}")
            return "done"

        it.space.subscribe(lambda batch: order.append(f"commit {batch[-1].commit.version}"))
        first = later(it, set_(X, 1, blind=True))
        done = asyncio.ensure_future(it.space.in_turn(work))
        second = later(it, set_(X, 2, blind=True))
        await turns()
        assert len(writing) == 1
        writing.release()
        assert await done == "done"
        await asyncio.gather(first, second)
        assert order == ["commit 3", "work at 3", "commit 4"]


async def test_an_exception_of_work_in_turn_reaches_its_caller_and_nobody_else() -> None:
    async with engine() as it:

        def stop(_log: SpaceLog) -> None:
            raise StopIteration

        for wrong, seen in ((lambda _: 1 // 0, ZeroDivisionError), (stop, RuntimeError)):
            work = asyncio.ensure_future(it.space.in_turn(wrong))
            commit = later(it, set_(X, 1, blind=True))
            with pytest.raises(seen):
                await work
            assert isinstance(await commit, Accepted)


async def test_a_closed_space_has_finished_what_came_before_and_refuses_what_comes_after() -> None:
    async with held() as (it, writing):
        commits = [later(it, set_(X, number, blind=True)) for number in range(3)]
        await turns()
        reading = asyncio.ensure_future(it.value(X))
        closing = asyncio.ensure_future(it.space.close())
        await turns()
        with pytest.raises(errors.Unavailable):
            await it.commit(set_(X, 9, blind=True))
        with pytest.raises(errors.Unavailable):
            await it.space.in_turn(lambda _: None)
        writing.release()
        await closing
        assert [code(await one) for one in commits] == ["accepted"] * 3
        assert await reading is not None
        with pytest.raises(errors.Unavailable):
            await it.value(X)


async def test_a_proposal_that_could_never_be_accepted_is_refused_in_its_turn() -> None:
    async with engine() as it:
        outcome = await it.commit(set_(X, 1), branch="no such name!")
        assert isinstance(outcome, RefusedCommit)
        assert outcome.error.code == "invalid_name"
        assert outcome.at == 1
