"""Through connections: whatever happens in between, a start plus the first frame equals a client without a cache."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from session_worlds import App, Stage, staged_in
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.client.watches import Watch
from stemmadb.protocol.errors import StemmaError

SEEDS = int(os.environ.get("STEMMADB_CACHE_CHAOS", "12"))
STEPS = 25
QUERIES: tuple[dict[str, Any], ...] = (
    {"selector": "urn:todo:*"},
    {"selector": "urn:todo:*", "schema": {"properties": {"done": {"const": False}}, "required": ["done"]}},
    {"selector": "urn:todo:1"},
)


class CacheChaos:
    """Carol reads with a cache; alice owns the space, bob writes."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage, self.dice = stage, Random(seed)
        self.backup: Any = None
        self.watches: list[tuple[dict[str, Any], Watch]] = []
        self.offline_starts = 0

    async def run(self) -> None:
        self.owner = await self.stage.app("alice", line="owner")
        self.bob = await self.stage.app("bob")
        self.app = await self.stage.app("alice", disk=SimulatedJournal(), cache=True)
        for number in range(4):
            await self._write(number)
        self.open()
        for _ in range(STEPS):
            await self.dice.choice(self._steps())()
            await asyncio.sleep(self.dice.choice((0.0, 0.05, 0.3, 1.0)))
        await self.check()

    def _steps(self) -> list[Callable[[], Awaitable[object]]]:
        return [self._write, self._write, self._write, self._own, self._restart, self._restart, self._compact,
                self._erase, self._save, self._go_back, self._lose, self._rights, self.check]  # fmt: skip

    def open(self) -> None:
        self.watches = [(query, self.app.space.watch(**query)) for query in QUERIES]
        self.offline_starts += sum(watch.state == "offline" for _, watch in self.watches)

    async def _write(self, number: int | None = None) -> None:
        id_ = f"urn:todo:{self.dice.randrange(4) if number is None else number}"
        with suppress(StemmaError):
            async with self.bob.space.transaction() as tx:
                if number is None and self.dice.random() < 0.2:
                    tx.delete(id_, blind=True)
                else:
                    tx.set(id_, {"n": self.dice.randrange(99), "done": self.dice.random() < 0.5}, blind=True)
            await tx.confirmed()

    async def _own(self) -> None:
        await self.app.set(f"urn:own:{self.dice.randrange(3)}", {"n": self.dice.randrange(99)}, blind=True)

    async def _restart(self) -> None:
        """Killed, and started without a server: what is cached is shown."""
        self.app.line.offline()
        await self.app.restart()
        self.open()
        if self.dice.random() < 0.5:
            await self._write()
        self.app.line.online()
        self.app.space.nudge()

    async def _compact(self) -> None:
        with suppress(StemmaError):
            await self.owner.space.compact(self.owner.space.status().server_head)

    async def _erase(self) -> None:
        with suppress(StemmaError):
            await self.owner.space.erase("urn:todo:1", [self.dice.randint(2, 9)])

    async def _save(self) -> None:
        self.backup = self.stage.world.backup()

    async def _go_back(self) -> None:
        if self.backup is not None:
            await self.stage.world.restore(self.backup)
            self.backup = None

    async def _lose(self) -> None:
        self.app.line.cut()

    async def _rights(self) -> None:
        """Bob comes and goes: the access list changes, and with it what everybody is judged by."""
        did = self.stage.world.identity("carol").did
        with suppress(StemmaError):
            await self.owner.space.acl.set(did, self.dice.choice(("read", "write")))

    async def check(self) -> None:
        """The watches of the cached client and the same queries, asked by one that has nothing."""
        self.app.line.online()
        self.app.space.nudge()
        await self.app.space.connected()
        for one in (self.app, self.owner):
            with suppress(StemmaError):
                await one.space.settled()
        await asyncio.sleep(5)
        for query, watch in self.watches:
            assert watch.state == "live"
            shown = await _shown(self.app, query)
            asked = await self.owner.space.query(**query)
            assert shown == dict(asked), query


async def _shown(app: App, query: dict[str, Any]) -> dict[str, Any]:
    """What the client holds for the query: a second watch of it, filled from the server, would not tell."""
    nursery = app.core.session.nursery
    for number, one in app.core.session.subscriptions._live.items():
        watcher = one.watcher
        if watcher.query.roots[0].id == query["selector"] and watcher.query.roots[0].schema == query.get("schema"):
            return {id_: nursery.value(watcher.branch, id_) for id_ in nursery.members(number)}
    raise AssertionError("it is watched")


@pytest.mark.rule("CACHE-6")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_start_plus_first_frame_equals_a_client_that_started_with_nothing(seed: int) -> None:
    async def scenario(stage: Stage) -> None:
        await CacheChaos(stage, seed).run()

    staged_in(seed=seed)(scenario)()
