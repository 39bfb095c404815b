"""Decisions and proposals on a real server: one transaction each, races, the review window, search."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from memory_worlds import ADMIN, AGENT, PLUGIN, TestClock, memory_world
from stemmadb.memory.operations import (
    checking,
    decisions,
    forgetting,
    histories,
    memories,
    proposals,
    ranking,
    searching,
)
from stemmadb.memory.operations.memory_space import MemorySpace, Once
from stemmadb.memory.operations.searching import SearchQuery
from stemmadb.memory.rules import ids
from stemmadb.memory.rules.decisions import DecisionDraft
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.refusals import (
    AlreadyReviewed,
    IsolationViolation,
    NoSuchMemory,
    NoSuchProposal,
    NotAllowed,
    NotTheActive,
    PermissionDenied,
    ReviewWindow,
    TargetTaken,
)
from stemmadb.memory.rules.roles import MemoryCaller
from stemmadb.memory.rules.scoring import SearchMode

NS = "custom:acme.api"
HOUR_MS = 3_600_000
VIEWER = MemoryCaller(role="viewer", name="viewer", via="mcp")
LIMITED = AGENT._replace(namespaces=frozenset({"custom:other"}))
NOBODY = MemoryId("550e8400-e29b-41d4-a716-446655440000")


def draft(title: str = "Use SQLite", target: str = "database", rationale: str = "No server at all") -> DecisionDraft:
    return DecisionDraft(title, target, rationale, ["one file"])


async def found(memory: MemorySpace, text: str, mode: SearchMode = "balanced") -> list[tuple[str, str, float]]:
    answer = await ranking.search_decisions(memory, VIEWER, NS, text, mode=mode)
    return [(one.id, one.status, one.score) for one in answer.found]


async def status_of(memory: MemorySpace, uuid: MemoryId) -> str:
    return (await memories.find_memory(memory, AGENT, uuid)).memory.status


@pytest.mark.rule("MCP-2")
@pytest.mark.rule("MCP-3")
@pytest.mark.rule("MCP-8")
async def test_superseding_is_all_or_nothing_and_search_shows_the_active_one(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        memory = opened.memory
        first = await decisions.record_decision(memory, AGENT, NS, draft(rationale="zebras run fast"))
        other = await decisions.record_decision(memory, AGENT, NS, draft(target="queue", rationale="a queue of rows"))
        head = memory.index.head
        for olds in ([NOBODY], [other], [first, other], [first, NOBODY]):
            with pytest.raises((NoSuchMemory, NotTheActive)):
                await decisions.supersede_decision(memory, AGENT, NS, draft(), olds)
        assert memory.index.head == head, "a refusal writes nothing"
        second = await decisions.supersede_decision(memory, AGENT, NS, draft(rationale="newer reasons"), [first])
        with pytest.raises(NotTheActive, match=second):
            await decisions.supersede_decision(memory, AGENT, NS, draft(), [first])
        third = await decisions.supersede_decision(memory, ADMIN, NS, draft(rationale="a person's reasons"), [second])
        with pytest.raises(IsolationViolation):
            await decisions.supersede_decision(memory, AGENT, NS, draft(), [third])
        assert [await status_of(memory, one) for one in (first, second, third)] == ["superseded"] * 2 + ["active"]
        assert await found(memory, "zebras") == [(third, "active", 2.1)]
        assert await found(memory, "zebras", "strict") == [(third, "active", 2.1)]
        assert await found(memory, "zebras", "audit") == [(first, "superseded", 1.0)]
        assert {one for one, _, _ in await found(memory, "sqlite", "audit")} == {first, second, third, other}
        changes = await histories.history(memory, AGENT, first)
        assert len(changes) == 2
        assert (await checking.check(memory))[1] == []


@pytest.mark.rule("MEM-11")
async def test_a_limited_secret_sees_no_history_of_another_namespace_also_after_its_text_is_erased(
    tmp_path: Path,
) -> None:
    elsewhere, here = (AGENT._replace(namespaces=frozenset([name])) for name in ("org:other", NS))
    async with memory_world(tmp_path / "data") as opened:
        memory = opened.memory
        uuid = await decisions.record_decision(memory, AGENT, NS, draft())
        proposal = await proposals.propose_decision(memory, AGENT, NS, draft())
        for one in (uuid, proposal):
            with pytest.raises(NoSuchMemory):
                await histories.history(memory, elsewhere, one)
        entity = ids.memory_entity(ids.namespace_hash(NS), uuid)
        first = await memory.space.history(entity, order="oldest").first()
        assert first is not None
        async with memory.space.transaction() as tx:
            value: Any = await tx.get(entity)
            tx.set(entity, value | {"status": "superseded"})
        memory.index.heard_of(await tx.confirmed())
        await memory.space.erase(entity, [first.version])
        with pytest.raises(NoSuchMemory):
            await histories.history(memory, elsewhere, uuid)
        assert [one.is_gone for one in await histories.history(memory, here, uuid)] == [True, False]


@pytest.mark.rule("MEM-9")
@pytest.mark.rule("MCP-1")
async def test_of_many_recorders_one_wins_and_every_refusal_names_it(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        memory = opened.memory
        for number in range(5):
            one = draft(target=f"target {number}")
            tried = [decisions.record_decision(memory, AGENT, NS, one) for _ in range(20)]
            done = await asyncio.gather(*tried, return_exceptions=True)
            (winner,) = [made for made in done if isinstance(made, str)]
            assert {lost.active for lost in done if isinstance(lost, TargetTaken)} == {winner}
            assert len([lost for lost in done if isinstance(lost, TargetTaken)]) == 19
            two = [decisions.supersede_decision(memory, AGENT, NS, one, [MemoryId(winner)]) for _ in range(2)]
            made, lost = sorted(
                await asyncio.gather(*two, return_exceptions=True), key=lambda x: not isinstance(x, str)
            )
            assert isinstance(made, str)
            assert isinstance(lost, NotTheActive)
            assert lost.active == made
        assert (await checking.check(memory))[1] == []


@pytest.mark.rule("MEM-4")
async def test_the_same_key_records_once(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        once = Once("key", AGENT.name, "record_decision", {"title": "t"})
        first = await decisions.record_decision(opened.memory, AGENT, NS, draft(), once=once)
        assert await decisions.record_decision(opened.memory, AGENT, NS, draft(), once=once) == first


@pytest.mark.rule("MCP-3")
async def test_who_may_not_write_writes_nothing(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        memory, head = opened.memory, opened.memory.index.head
        with pytest.raises(PermissionDenied):
            await decisions.record_decision(memory, VIEWER, NS, draft())
        with pytest.raises(NotAllowed):
            await decisions.record_decision(memory, LIMITED, NS, draft())
        with pytest.raises(PermissionDenied):
            await proposals.propose_decision(memory, VIEWER, NS, draft())
        with pytest.raises(PermissionDenied):
            await proposals.accept_proposal(memory, AGENT, NS, NOBODY)
        with pytest.raises(NoSuchProposal):
            await proposals.accept_proposal(memory, ADMIN, NS, NOBODY)
        with pytest.raises(NotAllowed):
            await ranking.search_decisions(memory, LIMITED, NS, "x")
        assert memory.index.head == head


@pytest.mark.rule("MCP-4")
@pytest.mark.rule("MCP-5")
async def test_a_proposal_becomes_the_active_decision_after_its_hour(tmp_path: Path) -> None:
    clock = TestClock()
    async with memory_world(tmp_path / "data", clock) as opened:
        memory = opened.memory
        old = await decisions.record_decision(memory, ADMIN, NS, draft())
        proposed = await proposals.propose_decision(
            memory, AGENT, NS, draft("Use a cluster", rationale="growth of giraffes"), ["a"]
        )
        ((seen, status, score),) = await found(memory, "giraffes", "audit")
        assert (seen, status, score) == (proposed, "draft", 1.0)
        assert [one for one, _, _ in await found(memory, "giraffes")] == [old]
        plain = await searching.search(memory, PLUGIN, SearchQuery([NS]))
        assert [one.id for one in plain.found] == [old], "a proposal is no memory"
        with pytest.raises(ReviewWindow):
            await proposals.accept_proposal(memory, ADMIN, NS, proposed)
        clock.shift += HOUR_MS + 60_000  # only the clock of the day moves: somebody has set it
        with pytest.raises(ReviewWindow):
            await proposals.accept_proposal(memory, ADMIN, NS, proposed)
        clock.passed += 3_601
        tried = [proposals.accept_proposal(memory, ADMIN, NS, proposed) for _ in range(2)]
        done = await asyncio.gather(*tried, return_exceptions=True)
        (made,) = [one for one in done if isinstance(one, str)]
        assert any(isinstance(one, AlreadyReviewed) for one in done)
        stored = await memories.find_memory(memory, AGENT, MemoryId(made))
        assert (stored.memory.authority, stored.memory.status, stored.memory.evidence) == ("human", "active", ["a"])
        assert await status_of(memory, old) == "superseded"
        assert await proposals.list_proposals(memory, AGENT, NS) == []
        await forgetting.forget_memory(memory, ADMIN, MemoryId(made))
        assert await proposals.list_proposals(memory, AGENT, NS, everything=True) == [], "it goes with its decision"
        assert (await checking.check(memory))[1] == []


@pytest.mark.rule("MCP-4")
async def test_a_rejected_proposal_cannot_be_accepted(tmp_path: Path) -> None:
    clock = TestClock()
    async with memory_world(tmp_path / "data", clock) as opened:
        memory = opened.memory
        proposed = await proposals.propose_decision(memory, AGENT, NS, draft())
        assert [one.id for one in await proposals.list_proposals(memory, VIEWER, NS)] == [proposed]
        with pytest.raises(PermissionDenied):
            await proposals.reject_proposal(memory, AGENT, NS, proposed)
        await proposals.reject_proposal(memory, ADMIN, NS, proposed)
        clock.pass_ms(2 * HOUR_MS)
        for review in (proposals.accept_proposal, proposals.reject_proposal):
            with pytest.raises(AlreadyReviewed, match="already rejected"):
                await review(memory, ADMIN, NS, proposed)
        assert await found(memory, "sqlite", "audit") == []


@pytest.mark.rule("MCP-8")
async def test_strict_never_shows_what_is_superseded_meanwhile(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        memory = opened.memory
        active = [await decisions.record_decision(memory, AGENT, NS, draft())]

        async def supersede() -> None:
            for _ in range(20):
                active.append(await decisions.supersede_decision(memory, AGENT, NS, draft(), [active[-1]]))

        writing = asyncio.create_task(supersede())
        while not writing.done():
            answer = await ranking.search_decisions(memory, VIEWER, NS, "sqlite", mode="strict")
            (one,) = answer.found
            at = await memories.read_memories(
                memory, [one.entity for one in await memory.index.find(one.id)], version=answer.version
            )
            assert [read.memory.status for read in at] == ["active"]
        await writing
        assert [one for one, _, _ in await found(memory, "sqlite", "strict")] == [active[-1]]


@pytest.mark.rule("MCP-8")
async def test_many_versions_of_one_target_do_not_hide_another_target(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        memory = opened.memory
        said = draft(rationale="sqlite sqlite sqlite")
        last = await decisions.record_decision(memory, AGENT, NS, said)
        for _ in range(30):
            last = await decisions.supersede_decision(memory, AGENT, NS, said, [last])
        other = await decisions.record_decision(
            memory, AGENT, NS, draft("Cache", "cache", "A file, for sqlite is one")
        )
        await proposals.propose_decision(memory, AGENT, NS, draft("New", "queue", "sqlite sqlite for it"))
        modes: tuple[SearchMode, ...] = ("strict", "balanced")
        for mode in modes:
            answer = await ranking.search_decisions(memory, AGENT, NS, "sqlite", mode=mode, limit=2)
            assert {one.id for one in answer.found} == {last, other}
        everything = await ranking.search_decisions(memory, AGENT, NS, "sqlite", mode="audit", limit=20)
        assert len(everything.found) == 20
