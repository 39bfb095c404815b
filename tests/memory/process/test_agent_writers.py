"""Agents write with keys of their own: who the author is, what a limited key may write, when a connection ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from memory_worlds import AGENT, TestClock, memory_world
from stemmadb.client.keys.ring import KeyRing
from stemmadb.memory.operations import decisions, forgetting
from stemmadb.memory.operations.checking import check
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.process.opened_memory import OpenedMemory
from stemmadb.memory.rules import delegations, ids
from stemmadb.memory.rules.decisions import DecisionDraft
from stemmadb.memory.rules.refusals import TargetTaken
from stemmadb.memory.rules.roles import MemoryCaller
from stemmadb.protocol.errors import Forbidden

NS = "custom:acme.api"
DRAFT = DecisionDraft("Use SQLite", "database", "It needs no server")
EVE = AGENT._replace(name="Eve X", namespaces=frozenset([NS]))


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
async def opened(tmp_path: Path, clock: TestClock) -> AsyncIterator[OpenedMemory]:
    async with memory_world(tmp_path / "data", clock) as world:
        yield world


async def authors_of(memory: MemorySpace, entity: str) -> list[tuple[str, bytes | None]]:
    return [(one.author, one.session) async for one in memory.space.history(entity, order="oldest")]


@pytest.mark.rule("MCP-16")
async def test_the_author_is_the_agent_and_each_session_has_its_own_id(opened: OpenedMemory, tmp_path: Path) -> None:
    memory, writers = opened.memory, opened.writers
    first = await writers.memory_of("one", AGENT, {"name": "editor"})
    assert await writers.memory_of("one", AGENT, {}) is first
    second = await writers.memory_of("two", AGENT, {})
    limited = await writers.memory_of("three", EVE, {})
    made = await decisions.record_decision(first, AGENT, NS, DRAFT)
    with pytest.raises(TargetTaken):
        await decisions.record_decision(second, AGENT, NS, DRAFT)
    later = await decisions.supersede_decision(second, AGENT, NS, DRAFT, [made])
    last = await decisions.supersede_decision(limited, EVE, NS, DRAFT, [later])
    nsh, keys = ids.namespace_hash(NS), KeyRing(tmp_path / "data" / "keys").identities()
    (one, one_session), (two, two_session) = await authors_of(memory, ids.memory_entity(nsh, made))
    assert one == two == keys["agent-ada"] != memory.space.did
    assert one_session is not None
    assert one_session != two_session
    ((eve, _),) = await authors_of(memory, ids.memory_entity(nsh, last))
    assert eve == keys[delegations.key_name("Eve X")] != one
    sessions: dict[str, Any] = await memory.space.list(ids.SESSIONS + "*")
    assert sorted(one["agent"] for one in sessions.values()) == ["Eve X", "ada", "ada"]
    assert {"name": "editor"} in [one["client"] for one in sessions.values()]
    of_first = [await authors_of(memory, entity) for entity in sessions]
    assert [(one, one_session)] in of_first
    assert (await check(memory))[1] == []


@pytest.mark.rule("MCP-16")
async def test_a_limited_key_writes_in_its_namespaces_only(opened: OpenedMemory) -> None:
    limited = await opened.writers.memory_of("one", EVE, {})
    free = EVE._replace(namespaces=None)  # as if the memory server had forgotten to check
    with pytest.raises(Forbidden):
        await decisions.record_decision(limited, free, "custom:other", DRAFT)
    assert await decisions.record_decision(limited, EVE, NS, DRAFT)


@pytest.mark.rule("MCP-16")
async def test_a_connection_ends_with_its_session_or_when_it_is_idle(opened: OpenedMemory, clock: TestClock) -> None:
    memory, writers = opened.memory, opened.writers
    first = await writers.memory_of("one", AGENT, {})
    await writers.end("one")
    again = await writers.memory_of("one", AGENT, {})
    assert again is not first
    clock.pass_ms(601_000)
    await writers.memory_of("two", AGENT, {})
    assert await writers.memory_of("one", AGENT, {}) is not again
    clock.pass_ms(round(delegations.RENEW_SECONDS * 1_000))
    renewed = await writers.memory_of("two", AGENT, {})
    made = await decisions.record_decision(renewed, AGENT, NS, DRAFT)
    queued = await forgetting.forget_memory(memory, AGENT, made)
    assert await opened.job.erased(queued, within=20)


@pytest.mark.rule("MCP-16")
def test_the_prefixes_of_a_token() -> None:
    names = [f"custom:{number}" for number in range(8)]
    assert delegations.prefixes_of(None) == ["*"]
    seven = delegations.prefixes_of(names[:7])
    assert seven is not None
    assert len(seven) <= delegations.PREFIXES_MAX
    assert delegations.prefixes_of(names) is None
    assert MemoryCaller(role="agent", name="x", via="mcp").namespaces is None
    assert delegations.key_name("h.x") != "agent-h.x"
