"""Namespaces, memories and searches on a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from memory_worlds import AGENT, PLUGIN, TestClock, fact, memory_world
from stemmadb.memory.operations import memories, namespaces, searching
from stemmadb.memory.operations.forgetting import make_namespace
from stemmadb.memory.operations.memory_space import Once
from stemmadb.memory.operations.moments import read_moment
from stemmadb.memory.operations.namespaces import NamespaceChange
from stemmadb.memory.operations.searching import SearchQuery
from stemmadb.memory.process.opened_memory import OpenedMemory
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.refusals import KeyReused, NoSuchNamespace, UnknownMoment

NS = "workspace:1"


async def found(opened: OpenedMemory, text: str | None = None, at: str | None = None, ns: str = NS) -> list[str]:
    moment = None if at is None else await read_moment(opened.memory, at)
    answer = await searching.search(opened.memory, PLUGIN, SearchQuery([ns], text=text, at=moment))
    assert not answer.is_degraded
    return [one.memory.text for one in answer.found]


async def test_a_memory_is_found_at_once_and_only_in_its_namespace(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        for name in (NS, "org:other"):
            await make_namespace(opened.memory, PLUGIN, name, kind="org")
            await memories.write_memory(opened.memory, PLUGIN, fact(name, f"zebras live in {name}"))
        assert await found(opened, "zebra") == [f"zebras live in {NS}"]
        assert await found(opened, "zebra", ns="org:nowhere") == []
        with pytest.raises(NoSuchNamespace):
            await memories.write_memory(opened.memory, PLUGIN, fact("org:nowhere", "x"))


@pytest.mark.rule("MEM-2")
async def test_a_namespace_keeps_the_time_of_its_creation_and_a_patch_changes_what_it_names(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        first = await make_namespace(opened.memory, PLUGIN, NS, kind="workspace", metadata={"a": 1})
        again = await make_namespace(opened.memory, PLUGIN, NS, kind="team")
        assert (again.created_at, again.kind, again.metadata) == (first.created_at, "team", None)
        change = NamespaceChange(metadata={"b": [2]})
        patched = await namespaces.patch_namespace(opened.memory, PLUGIN, NS, change)
        assert (patched.kind, patched.metadata, patched.expires_at) == ("team", {"b": [2]}, None)
        cleared = await namespaces.patch_namespace(opened.memory, PLUGIN, NS, NamespaceChange(metadata=None))
        assert cleared.metadata is None
        assert await namespaces.list_namespaces(opened.memory, AGENT) == [cleared]


@pytest.mark.rule("MEM-3")
async def test_expiry_hides_without_a_write_also_as_of_the_past(tmp_path: Path) -> None:
    clock = TestClock()
    async with memory_world(tmp_path / "data", clock) as opened:
        memory = opened.memory
        await make_namespace(memory, PLUGIN, NS, kind="org", expires_at=Millis(clock.now() + 100_000))
        await memories.write_memory(memory, PLUGIN, fact(NS, "short zebra", expires_at=Millis(clock.now() + 50_000)))
        await memories.write_memory(memory, PLUGIN, fact(NS, "long zebra"))
        then, version = clock.now(), memory.index.head
        assert sorted(await found(opened, "zebra")) == ["long zebra", "short zebra"]
        clock.pass_ms(50_001)
        assert await found(opened, "zebra") == ["long zebra"]
        clock.pass_ms(50_000)
        assert await found(opened, "zebra") == []
        with pytest.raises(NoSuchNamespace):
            await memories.write_memory(memory, PLUGIN, fact(NS, "late zebra"))
        with pytest.raises(NoSuchNamespace):
            await namespaces.patch_namespace(memory, PLUGIN, NS, NamespaceChange(metadata={}))
        assert memory.index.head == version, "expiry writes nothing"
        assert then > 0
        assert sorted(await found(opened, "zebra", at=str(version))) == ["long zebra", "short zebra"]
        anew = await make_namespace(memory, PLUGIN, NS, kind="org")
        assert anew.created_at > then
        assert await found(opened) == [], "an expired namespace begins anew, without what was in it"


@pytest.mark.rule("MEM-6")
async def test_search_as_of_a_version_a_time_and_a_tag_of_main(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        memory = opened.memory
        await make_namespace(memory, PLUGIN, NS, kind="org")
        await memories.write_memory(memory, PLUGIN, fact(NS, "first zebra"))
        await memory.space.tags.create("before")
        version = memory.index.head
        entry = await memory.space.log(branch=None).first()
        assert entry is not None
        await asyncio.sleep(0.01)
        await memories.write_memory(memory, PLUGIN, fact(NS, "second zebra"))
        for at in (str(version), entry.time.isoformat().replace("+00:00", "Z"), "before"):
            assert await found(opened, "zebra", at=at) == ["first zebra"], at
        assert await found(opened, "zebra", at="1") == []
        assert len(await found(opened, "zebra")) == 2
        for unknown in ("999999", "no-tag"):
            with pytest.raises(UnknownMoment):
                await found(opened, "zebra", at=unknown)


async def test_a_hundred_parallel_writes_lose_nothing_and_give_no_id_twice(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        await make_namespace(opened.memory, PLUGIN, NS, kind="org")
        writes = [memories.write_memory(opened.memory, PLUGIN, fact(NS, f"zebra {number}")) for number in range(100)]
        made = await asyncio.gather(*writes)
        assert len(set(made)) == 100
        answer = await searching.search(opened.memory, PLUGIN, SearchQuery([NS], limit=100))
        assert {one.id for one in answer.found} == set(made)


@pytest.mark.rule("MEM-4")
async def test_the_same_idempotency_key_twice_at_once_writes_one_memory(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        await make_namespace(opened.memory, PLUGIN, NS, kind="org")
        once = Once("key-1", "plugin", "write", {"text": "zebra"})
        writes = [memories.write_memory(opened.memory, PLUGIN, fact(NS, "zebra"), once=once) for _ in range(5)]
        made = await asyncio.gather(*writes)
        assert len(set(made)) == 1
        assert await found(opened) == ["zebra"]
        for other in (once._replace(key="key-2"), once._replace(agent="eve"), once._replace(operation="other")):
            await memories.write_memory(opened.memory, PLUGIN, fact(NS, "zebra"), once=other)
        assert len(await found(opened)) == 4
        with pytest.raises(KeyReused):
            await memories.write_memory(
                opened.memory, PLUGIN, fact(NS, "x"), once=once._replace(arguments={"text": "x"})
            )
        calls = await opened.memory.space.list("urn:memory-call:*")
        assert len(calls) == 4
        assert b"key-1" not in msgspec.json.encode(calls)
        assert b"zebra" not in msgspec.json.encode(calls)


@pytest.mark.rule("MEM-4")
async def test_the_record_of_a_call_names_no_namespace_and_answers_a_replay(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        put, patch = (Once(f"key-{name}", "plugin", name, {"name": NS}) for name in ("put", "patch"))
        for _ in range(2):
            made = await make_namespace(opened.memory, PLUGIN, NS, kind="org", once=put)
            change = NamespaceChange(metadata={"a": 1})
            patched = await namespaces.patch_namespace(opened.memory, PLUGIN, NS, change, once=patch)
            assert (made.name, patched.metadata) == (NS, {"a": 1})
        calls = await opened.memory.space.list("urn:memory-call:*")
        assert len(calls) == 2
        assert NS.encode() not in msgspec.json.encode(calls)
