"""What is decided in one go is bounded, by what it costs and not by what its commits look like."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from engine_scripts import verify
from engines import Engine, Held, LonelyStorage, engine, inline_executors, turns
from space import ALICE, SPACE, delete_, patch_, read_, session_of, set_
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.commit.request import PendingName
from stemmadb.protocol.model.values.ids import Local, Version
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.engine.write.batch_sizing import first_fitting
from stemmadb.server.engine.write.needs import Needs
from stemmadb.server.engine.write.queue import NAME_BYTES, QueueEntry, WriteQueue
from verdicts import X, Y, replace

LARGE = [7] * 10_000
FOUR = Settings(batch_bytes_max=4 * 10_003)


async def batches(it: Engine, proposals: Sequence[Proposal]) -> list[int]:
    """How many were decided and written together, when all came at once."""
    sizes: list[int] = []
    it.space.subscribe(lambda accepted: sizes.append(len(accepted)))
    outcomes = await asyncio.gather(*[it.space.decide(proposal) for proposal in proposals])
    assert all(isinstance(one, Accepted) for one in outcomes)
    assert [one.commit.identity for one in outcomes if isinstance(one, Accepted)] == [p.identity for p in proposals]
    return sizes


def patches(it: Engine, id_: str, count: int) -> list[Proposal]:
    return [it.propose(patch_(id_, replace("/5", number), blind=True)) for number in range(count)]


async def test_small_patches_of_a_large_value_are_decided_a_few_at_a_time() -> None:
    async with engine(LonelyStorage(), sizes=FOUR) as it:
        await it.must(set_(X, LARGE, blind=True))
        sizes = await batches(it, patches(it, X, 12))
        assert sum(sizes) == 12
        assert max(sizes) <= 4
        assert (await it.value(X))[5] == 11


async def test_small_patches_of_small_values_are_decided_together() -> None:
    async with engine(LonelyStorage(), sizes=FOUR) as it:
        await it.must(set_(X, [7] * 10, blind=True))
        assert 40 in await batches(it, patches(it, X, 40))


async def test_one_patch_of_a_value_beyond_the_bound_is_decided_by_itself() -> None:
    async with engine(LonelyStorage(), sizes=Settings(ahead_min=1, batch_bytes_max=1_000)) as it:
        await it.must(set_(X, LARGE, blind=True))
        assert await batches(it, patches(it, X, 3)) == [1, 1, 1]


async def test_a_value_counts_as_large_as_it_may_become_in_the_batch() -> None:
    async with engine(LonelyStorage()) as it:
        grows = {"op": "add", "path": "/-", "value": "b" * 1_000}
        set_first = [it.propose(set_(X, LARGE, blind=True)), *patches(it, X, 8)]
        assert len(first_fitting(set_first, {}, 45_000)) == 5
        refused_perhaps = [*set_first[:2], it.propose(set_(X, 1, blind=True)), it.propose(delete_(X, blind=True))]
        assert len(first_fitting([*refused_perhaps, *set_first[2:]], {}, 45_000)) == 7
        growing = [it.propose(patch_(Y, grows, blind=True)) for _ in range(9)]
        assert 4 <= len(first_fitting(growing, {}, 10_000)) <= 5
        assert first_fitting(growing[:1], {}, 0) == growing[:1]


def through(it: Engine, names: Sequence[PendingName], times: int) -> Proposal:
    return it.propose(set_(X, 1), reads=[read_(X, 1, through=names)] * times, session="t")


@pytest.mark.rule("COMMIT-4")
async def test_commits_that_many_reads_were_made_through_are_looked_up_once() -> None:
    async with engine(LonelyStorage()) as it:
        one, two, three = Local(1), Local(2), Local(3)
        other = (session_of("u"), two)
        needs = Needs([through(it, [one, two, other], 50), through(it, [two, three], 50)], SPACE)
        assert needs.named == {(ALICE, session_of("t")): {one, two, three}, (ALICE, session_of("u")): {two}}


async def test_commits_that_reads_were_made_through_count_for_the_size_of_a_batch() -> None:
    async with engine(LonelyStorage()) as it:
        queue = WriteQueue(Settings(batch_bytes_max=1_000 * NAME_BYTES))
        for _ in range(6):
            queue.put(QueueEntry(lambda _: None, through(it, [Local(local) for local in range(1, 401)], 1)))
        assert [len(queue.take()) for _ in range(3)] == [2, 2, 2]


async def test_what_was_cut_off_is_decided_next_while_the_first_is_in_flight() -> None:
    writing = Held()
    async with engine(LonelyStorage(), sizes=FOUR, workers=Executors(writing, inline_executors().reading)) as it:
        await it.must(set_(X, LARGE, blind=True))
        writing.is_held = True
        waiting = [asyncio.ensure_future(it.space.decide(one)) for one in patches(it, X, 6)]
        await turns()
        assert len(writing) == 1
        writing.release()
        versions = [one.commit.version for one in await asyncio.gather(*waiting) if isinstance(one, Accepted)]
        assert versions == [Version(version) for version in range(3, 9)]
        assert await it.space.read(verify) == 8


async def test_a_verdict_that_is_kept_keeps_no_value_in_memory() -> None:
    async with engine(LonelyStorage()) as it:
        outcome = await it.commit(set_(X, LARGE, blind=True))
        assert isinstance(outcome, Accepted)
        assert outcome.written == {}
