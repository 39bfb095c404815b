"""What every call of a tool goes through, without a transport: the cooldown, and the caller's own connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from memory_worlds import AGENT, TestClock, memory_world
from stemmadb.memory.interfaces.mcp.tool_calls import ToolCalls
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.process.audit_file import AuditFile
from stemmadb.memory.process.opened_memory import OpenedMemory
from stemmadb.memory.rules.cooldown import Cooldown
from stemmadb.memory.rules.roles import MemoryCaller

NS = "custom:acme.api"
SECONDS = 1_000.0


class Client:
    """The tools of one client, and how often its connection was asked for."""

    def __init__(self, opened: OpenedMemory, data: Path) -> None:
        self.memory = opened.memory
        self.asked = 0
        self._calls = ToolCalls(opened.memory, NS, lambda: AGENT, Cooldown(SECONDS), AuditFile(data), self._writer)

    async def _writer(self, _caller: MemoryCaller, _client: Mapping[str, Any]) -> MemorySpace:
        self.asked += 1
        return self.memory

    async def record(self, target: str, rationale: str = "It needs no server") -> str:
        """What the answer says."""
        given = {"title": "Use SQLite", "target": target, "rationale": rationale}
        return str((await self._calls.call("record_decision", given))["message"])

    async def count(self) -> int:
        await self.memory.space.settled()
        return len(await self.memory.space.list("urn:memory:*"))


@pytest.mark.rule("MCP-6")
async def test_a_call_that_its_client_cancels_starts_the_cooldown(tmp_path: Path) -> None:
    clock, data = TestClock(), tmp_path / "data"
    async with memory_world(data, clock) as opened:
        client = Client(opened, data)
        first = asyncio.create_task(client.record("one"))
        while not client.memory.space.pending():
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await client.count() == 1, "its commit was on the way"
        assert (await client.record("two")).startswith("Rate Limit Exceeded")
        assert client.asked == 1, "no connection is opened for a call that comes too early"
        clock.pass_ms(int(SECONDS * 1_000))
        assert (await client.record("two")).startswith("Recorded")
        assert (client.asked, await client.count()) == (2, 2)


@pytest.mark.rule("MCP-6")
async def test_a_call_that_is_cancelled_while_it_waits_for_its_turn_changes_nothing(tmp_path: Path) -> None:
    clock, data = TestClock(), tmp_path / "data"
    async with memory_world(data, clock) as opened:
        client = Client(opened, data)
        async with client.memory.alone(f"writes of {AGENT.name}"):
            waiting = asyncio.create_task(client.record("one"))
            await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert (client.asked, await client.count()) == (0, 0)
        assert (await client.record("one", rationale="short")).startswith("rationale")
        assert (await client.record("one")).startswith("Recorded"), "neither that nor a refusal counts"
