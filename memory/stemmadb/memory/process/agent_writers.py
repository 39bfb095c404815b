"""Agents write with their own keys: each session has a connection of its own, so the author of a commit is the agent.

A key gets the right to write by a token of 7 days, which is renewed when a session opens. A connection is made at the
first write, so that who only reads writes nothing and costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from stemmadb.client import ClientSettings, Transaction, connect
from stemmadb.client.keys.ring import KeyRing
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.rules import delegations, ids, records
from stemmadb.memory.rules.calls import CallAnswer
from stemmadb.memory.rules.delegations import AgentSession
from stemmadb.memory.rules.roles import MemoryCaller

IDLE_SECONDS: Final = 600.0
"""A session over HTTP says no goodbye; its connection is closed after so long without a write."""


class WriterKey(NamedTuple):
    """Whose connection it is: a secret that changes its namespaces gets another one."""

    session: str
    agent: str
    namespaces: frozenset[str] | None


class _Writer(NamedTuple):
    memory: MemorySpace
    stack: AsyncExitStack
    opened_at: float


class AgentWriters:
    """The connections of one memory space. `memory_of` opens one; `end` closes those of a session."""

    def __init__(self, memory: MemorySpace, dial: Any, *, url: str, keys: Path, settings: ClientSettings) -> None:
        self._memory = memory
        self._dial = dial
        self._url = url
        self._keys = keys
        self._settings = settings
        self._writers: dict[WriterKey, _Writer] = {}
        self._used: dict[WriterKey, float] = {}
        self._opening = asyncio.Lock()

    async def memory_of(self, session: str, caller: MemoryCaller, client: Mapping[str, Any]) -> MemorySpace:
        """The memory, written with the caller's key; with our own if its namespaces do not fit into a token."""
        key, now = WriterKey(session, caller.name, caller.namespaces), self._memory.clock.monotonic()
        found = self._writers.get(key)
        if found is not None and now - found.opened_at < delegations.RENEW_SECONDS:
            self._used[key] = now
            return found.memory
        async with self._opening:
            found = self._writers.get(key)
            if found is None or now - found.opened_at >= delegations.RENEW_SECONDS:
                await self._close_idle(now)
                await self._close([key])
                prefixes = delegations.prefixes_of(caller.namespaces)
                if prefixes is None:
                    return self._memory
                found = self._writers[key] = await self._opened(caller.name, prefixes, client)
            self._used[key] = now
        return found.memory

    async def end(self, session: str) -> None:
        """Nothing more comes from this session."""
        async with self._opening:
            await self._close([key for key in self._writers if key.session == session])

    async def close(self) -> None:
        async with self._opening:
            await self._close(list(self._writers))

    async def _opened(self, agent: str, prefixes: list[str], client: Mapping[str, Any]) -> _Writer:
        identity = await asyncio.to_thread(KeyRing(self._keys).identity, delegations.key_name(agent))
        space = self._memory.space
        token = await space.delegate(
            identity.did, "write", prefixes=prefixes, expires=timedelta(days=delegations.DAYS)
        )
        async with AsyncExitStack() as stack:
            connected = connect(
                self._url,
                dial=self._dial,
                config=self._keys,
                identity=identity,
                delegations=[token],
                settings=self._settings,
            )
            database = await stack.enter_async_context(connected)
            memory = self._memory.written_through(await database.space(space.did))
            await _write_session(memory, agent, client)
            return _Writer(memory, stack.pop_all(), memory.clock.monotonic())
        raise AssertionError("the block returns or raises")

    async def _close_idle(self, now: float) -> None:
        await self._close([key for key in self._writers if now - self._used[key] >= IDLE_SECONDS])

    async def _close(self, keys: list[WriterKey]) -> None:
        for key in keys:
            writer = self._writers.pop(key, None)
            self._used.pop(key, None)
            if writer is not None:
                await writer.stack.aclose()


async def _write_session(memory: MemorySpace, agent: str, client: Mapping[str, Any]) -> None:
    session = AgentSession(agent=agent, client=dict(client), started_at=memory.clock.now())
    entity = ids.session_entity(memory.new_id())

    async def work(tx: Transaction) -> CallAnswer:
        tx.create(entity, records.stored(session))
        return CallAnswer()

    await memory.write(work)
