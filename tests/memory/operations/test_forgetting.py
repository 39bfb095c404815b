"""Forgetting: hidden by one commit, erased by one job, on every branch, also after a kill between the steps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memory_worlds import ADMIN, AGENT, PLUGIN, TestClock, bytes_under, fact, memory_world
from stemmadb.memory.operations import decisions, forgetting, memories, namespaces, proposals, searching
from stemmadb.memory.operations.erasing import EraseJob
from stemmadb.memory.operations.forgetting import make_namespace
from stemmadb.memory.operations.namespaces import NamespaceChange, patch_namespace
from stemmadb.memory.operations.plan_store import PlanStore
from stemmadb.memory.operations.searching import SearchQuery
from stemmadb.memory.operations.sweeping import sweep
from stemmadb.memory.process.opened_memory import OpenedMemory
from stemmadb.memory.rules import ids
from stemmadb.memory.rules.decisions import DecisionDraft
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.records import read_embedding
from stemmadb.memory.rules.refusals import IsolationViolation, NoSuchMemory, NoSuchNamespace, NotAllowed
from stemmadb.memory.rules.sweeps import GRACE_MS, SweepGuard
from stemmadb.memory.rules.tasks.decide import FileChange
from stemmadb.memory.rules.tasks.paths import PlanFile

NS = "workspace:1"
SECRET = "ZEBRA-4711"  # noqa: S105


async def written(opened: OpenedMemory, text: str = f"the word is {SECRET}", **fields: object) -> MemoryId:
    record = fact(NS, text, **fields)
    return await memories.write_memory(opened.memory, PLUGIN, record, vector=read_embedding([0.5, 1.0]))


async def texts(opened: OpenedMemory) -> list[str]:
    answer = await searching.search(opened.memory, PLUGIN, SearchQuery([NS], limit=100))
    return sorted(one.memory.text for one in answer.found)


async def changed_on_a_branch(opened: OpenedMemory, uuid: MemoryId) -> None:
    """The same memory with another text on a branch, and one that is only there."""
    nsh = ids.namespace_hash(NS)
    draft = await opened.memory.space.branch("draft", create=True)
    async with draft.transaction() as tx:
        tx.set(ids.memory_entity(nsh, uuid), msgspec.to_builtins(fact(NS, f"draft of {SECRET}")))
    await tx.confirmed()


@pytest.mark.rule("MEM-7", "MEM-8")
async def test_a_forgotten_memory_is_nowhere_in_any_file_and_no_merge_brings_it_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with memory_world(data) as opened:
        await make_namespace(opened.memory, PLUGIN, NS, kind="org")
        uuid, kept = await written(opened), await written(opened, "kept")
        await changed_on_a_branch(opened, uuid)
        assert SECRET.encode() in bytes_under(data)
        queued = await forgetting.forget_memory(opened.memory, PLUGIN, uuid)
        assert await texts(opened) == ["kept"], "hidden before it is erased"
        assert await opened.job.erased(queued, within=20)
        assert SECRET.encode() not in bytes_under(data)
        await opened.memory.space.merge_from("draft")
        assert await texts(opened) == ["kept"]
        assert SECRET.encode() not in bytes_under(data)
        assert await opened.memory.space.list("urn:forget:*") == {}
        with pytest.raises(NoSuchMemory):
            await forgetting.forget_memory(opened.memory, PLUGIN, uuid)
        assert await memories.find_memory(opened.memory, PLUGIN, kept)
    assert SECRET.encode() not in bytes_under(data)


@pytest.mark.rule("MEM-7")
async def test_a_memory_server_that_ended_between_the_steps_finishes_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    monkeypatch.setattr(EraseJob, "_run", lambda _self: asyncio.sleep(0))
    async with memory_world(data) as opened:
        await make_namespace(opened.memory, PLUGIN, NS, kind="org")
        await forgetting.forget_memory(opened.memory, PLUGIN, await written(opened))
        other = "org:other"
        await make_namespace(opened.memory, PLUGIN, other, kind="org")
        await memories.write_memory(opened.memory, PLUGIN, fact(other, f"also {SECRET}"))
        await forgetting.delete_namespace(opened.memory, PLUGIN, other)
        assert await texts(opened) == []
        assert SECRET.encode() in bytes_under(data)
    monkeypatch.undo()
    async with memory_world(data) as opened:
        async with asyncio.timeout(20):
            while opened.job.oldest is not None:
                await asyncio.sleep(0.01)
        assert SECRET.encode() not in bytes_under(data)
        assert await opened.memory.space.list("urn:forget:*") == {}


@pytest.mark.rule("MEM-7")
async def test_a_namespace_goes_with_everything_in_it_and_can_be_made_anew_meanwhile(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with memory_world(data) as opened:
        await make_namespace(opened.memory, PLUGIN, NS, kind="org", metadata={"owner": SECRET})
        await asyncio.gather(*(written(opened, f"{SECRET} {number}") for number in range(50)))
        queued = await forgetting.delete_namespace(opened.memory, PLUGIN, NS)
        with pytest.raises(NoSuchNamespace):
            await forgetting.delete_namespace(opened.memory, PLUGIN, NS)
        made = await make_namespace(opened.memory, PLUGIN, NS, kind="team")
        await written(opened, "of the new one")
        assert await opened.job.erased(queued, within=20)
        assert SECRET.encode() not in bytes_under(data)
        assert await texts(opened) == ["of the new one"]
        assert made.kind == "team"


async def test_a_deletion_that_was_only_begun_is_finished_by_the_next_memory_server(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        await make_namespace(opened.memory, PLUGIN, NS, kind="org")
        await written(opened)
        async with opened.memory.space.transaction() as tx:
            entity = ids.namespace_entity(ids.namespace_hash(NS))
            tx.patch(entity, [{"op": "add", "path": "/deleting", "value": True}])
        await tx.confirmed()
        assert await texts(opened) == [], "it is absent from the first commit on"
        with pytest.raises(NoSuchNamespace):
            await written(opened)
    async with memory_world(tmp_path / "data") as opened:
        async with asyncio.timeout(20):
            while await opened.memory.space.list("urn:ns:*"):
                await asyncio.sleep(0.01)
        assert await opened.memory.space.list("urn:memory:*") == {}


async def test_who_may_forget(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        await make_namespace(opened.memory, PLUGIN, NS, kind="org")
        human = await written(opened, "by a person", via="command", authority="human")
        agent = await written(opened, "by an agent", via="mcp")
        with pytest.raises(NotAllowed):
            await forgetting.forget_memory(opened.memory, PLUGIN, agent)
        with pytest.raises(IsolationViolation):
            await forgetting.forget_memory(opened.memory, AGENT, human)
        elsewhere = AGENT._replace(namespaces=frozenset(["org:other"]))
        with pytest.raises(NoSuchMemory):
            await forgetting.forget_memory(opened.memory, elsewhere, agent)
        assert len(await texts(opened)) == 2
        await forgetting.forget_memory(opened.memory, AGENT, agent)
        await forgetting.forget_memory(opened.memory, ADMIN, human, keeps_history=True)
        assert await texts(opened) == []


async def test_a_sweep_deletes_what_expired_a_day_ago_and_old_calls(tmp_path: Path) -> None:
    clock = TestClock()
    async with memory_world(tmp_path / "data", clock) as opened:
        await make_namespace(opened.memory, PLUGIN, NS, kind="org")
        await written(opened, "expires", expires_at=Millis(clock.now() + 1_000))
        await written(opened, "stays")
        clock.pass_ms(2_000)
        assert (await sweep(opened.memory, ADMIN))[:3] == (0, 0, 0)
        clock.pass_ms(GRACE_MS)
        assert (await sweep(opened.memory, ADMIN, erases=True))[:3] == (1, 0, 0)
        assert len(await opened.memory.space.list("urn:memory:*")) == 1


@pytest.mark.rule("MEM-7")
async def test_a_sweep_that_erases_leaves_nothing_of_a_memory_and_its_observations(tmp_path: Path) -> None:
    clock, data = TestClock(), tmp_path / "data"
    async with memory_world(data, clock) as opened:
        await make_namespace(opened.memory, PLUGIN, NS, kind="org")
        uuid = await written(opened, "expires", expires_at=Millis(clock.now() + 1_000))
        stays = await written(opened, "stays")
        nsh = ids.namespace_hash(NS)
        async with opened.memory.space.transaction() as tx:
            for one, reason in ((uuid, SECRET), (stays, "a reason that stays")):
                tx.create(ids.observation_entity(nsh, one, opened.memory.new_id()), {"reason": reason})
        opened.memory.index.heard_of(await tx.confirmed())
        assert SECRET.encode() in bytes_under(data)
        clock.pass_ms(GRACE_MS + 2_000)
        (queued,) = (await sweep(opened.memory, ADMIN, erases=True)).queued
        assert await opened.job.erased(queued, within=20)
        assert SECRET.encode() not in bytes_under(data)
        assert b"a reason that stays" in bytes_under(data)


def test_a_clock_that_jumps_stops_the_sweep_until_a_restart() -> None:
    year = 365 * 24 * 3_600_000
    guard = SweepGuard(now=Millis(0), monotonic=0.0)
    assert not guard.may_sweep(now=Millis(1_000), monotonic=1.0), "not in the first hour"
    assert guard.may_sweep(now=Millis(4_000_000), monotonic=4_000.0)
    assert not guard.may_sweep(now=Millis(4_000_000 + year), monotonic=4_000.0)
    assert not guard.may_sweep(now=Millis(5_000_000), monotonic=5_000.0), "also after it was set back"


async def write_of_others(opened: OpenedMemory, what: str) -> str:
    """What another interface writes into the namespace; the id of an entity of it."""
    memory, nsh = opened.memory, ids.namespace_hash(NS)
    draft = DecisionDraft("Use SQLite", "database", "It needs no server")
    if what == "memory":
        return ids.memory_entity(nsh, await written(opened, via="json"))
    if what == "decision":
        return ids.memory_entity(nsh, await decisions.record_decision(memory, ADMIN, NS, draft))
    if what == "proposal":
        return ids.proposal_entity(nsh, await proposals.propose_decision(memory, AGENT, NS, draft))
    plan = PlanStore(memory.space, NS, now=memory.clock.now)
    file = PlanFile("task", "1") if what == "task" else PlanFile("note", "notes/a.md")
    content = {"id": "1", "title": "A task", "type": "epic", "status": "pending"} if what == "task" else "a note"
    done, _ = await plan.apply([FileChange(file, None, content)])
    assert file in done.writes, done
    return file.entity(nsh)


@pytest.mark.rule("PLUG-5")
@pytest.mark.parametrize("what", ["memory", "decision", "proposal", "task", "note"])
async def test_the_plugin_interface_ends_no_namespace_that_holds_what_others_wrote(tmp_path: Path, what: str) -> None:
    clock = TestClock()
    async with memory_world(tmp_path / "data", clock) as opened:
        memory, soon, late = opened.memory, Millis(clock.now() + 60_000), Millis(clock.now() + 120_000)
        await make_namespace(memory, PLUGIN, NS, kind="org", expires_at=late)
        await written(opened, "of the plugin itself")
        entity = await write_of_others(opened, what)
        await memory.space.settled()
        before = await memory.space.list("urn:ns:*")
        with pytest.raises(NotAllowed):
            await forgetting.delete_namespace(memory, PLUGIN, NS)
        with pytest.raises(NotAllowed):
            await make_namespace(memory, PLUGIN, NS, kind="org", expires_at=soon)
        with pytest.raises(NotAllowed):
            await patch_namespace(memory, PLUGIN, NS, NamespaceChange(expires_at=soon))
        assert await memory.space.list("urn:ns:*") == before
        await patch_namespace(memory, PLUGIN, NS, NamespaceChange(expires_at=late, metadata={"a": 1}))
        clock.pass_ms(120_001)
        with pytest.raises(NotAllowed):
            await make_namespace(memory, PLUGIN, NS, kind="org")
        assert await memory.space.get(entity) is not None
        await forgetting.delete_namespace(memory, ADMIN, NS, expired=True)
        assert await memory.space.get(entity) is None


@pytest.mark.rule("PLUG-5")
async def test_what_is_decided_while_the_plugin_interface_looks_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with memory_world(tmp_path / "data") as opened:
        await make_namespace(opened.memory, PLUGIN, NS, kind="org")
        await written(opened)
        looked, made = namespaces.check_may_end, list[str]()

        async def look(*given: Any) -> None:
            await looked(*given)
            if not made:
                made.append(await write_of_others(opened, "decision"))

        monkeypatch.setattr(forgetting, "check_may_end", look)
        with pytest.raises(NotAllowed):
            await forgetting.delete_namespace(opened.memory, PLUGIN, NS)
        assert await opened.memory.space.get(made[0]) is not None


@pytest.mark.rule("PLUG-5")
async def test_writes_of_the_plugin_interface_do_not_stop_it_from_ending_its_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with memory_world(tmp_path / "data") as opened:
        await make_namespace(opened.memory, PLUGIN, NS, kind="org")
        looked, looks = namespaces.check_may_end, list[MemoryId]()

        async def look(*given: Any) -> None:
            await looked(*given)
            looks.append(await written(opened))

        monkeypatch.setattr(forgetting, "check_may_end", look)
        await forgetting.delete_namespace(opened.memory, PLUGIN, NS)
        assert len(looks) == 1
        assert await texts(opened) == []
