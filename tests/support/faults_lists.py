"""Clients that append to lists and read them, over real sockets, and the history of what they did and saw.

Writers have several commits in flight, some of which declare what they read. Readers ask the server for several lists
on one cut. A watcher follows everything. Each commit has a mark in its note, by which it is found in the log.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, cast

from check_log import Acknowledged
from check_reads import ServerRead, Told
from client_processes import PATIENCE_SECONDS
from list_history import Append, Outcome, Read, Step, Transaction
from stemmadb.client import Space
from stemmadb.client import Transaction as Block
from stemmadb.protocol.errors import NotInView, StemmaError, TimedOut, Unavailable, Unreachable

LISTS: Final = "urn:list:"
ERA_LISTS: Final = 8
ERA_COMMITS: Final = 250
"""After so many acknowledged commits other lists are used, so that none gets long."""
AHEAD: Final = 24
"""Commits of a writer that are in flight."""
AWAY: Final = (NotInView, TimedOut, Unavailable, Unreachable)
"""What a client says that cannot ask the server: nothing was seen."""


@dataclass(slots=True)
class Recorded:
    """Everything that all clients did and saw."""

    transactions: list[Transaction] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    reads: list[ServerRead] = field(default_factory=list)
    made: int = 0
    """Commits so far; the next one has the next number, which is its element too."""

    def keys(self) -> list[str]:
        """The lists that are in use now."""
        return era_keys(len(self.acknowledged) // ERA_COMMITS)


def era_keys(era: int) -> list[str]:
    return [f"{LISTS}{era}:{number}" for number in range(ERA_LISTS)]


def all_keys(commits: int) -> list[str]:
    """The lists that so many commits use, those in flight included."""
    return [key for era in range(commits // ERA_COMMITS + 2) for key in era_keys(era)]


def listed(value: object) -> tuple[int, ...]:
    """The elements of a list as it was read."""
    return tuple(cast(list[int], value or []))


class Writer:
    """Commits one after the other, without waiting for verdicts, until there are enough in all."""

    def __init__(self, name: str, space: Space, recorded: Recorded, *, seed: int, worked: Callable[[], None]) -> None:
        self._name, self._space, self._recorded = name, space, recorded
        self._chance = random.Random(seed)
        self._worked = worked
        self._room = asyncio.Semaphore(AHEAD)
        self._following: set[asyncio.Task[None]] = set()
        space.on_rejected(lambda refused: refused.drop())

    async def write(self, commits: int) -> None:
        """Until `commits` are acknowledged to all writers together, and all of its own are decided."""
        while len(self._recorded.acknowledged) < commits:
            await self._room.acquire()
            try:
                await self._one()
            except AWAY:  # it could not be read, so nothing was written
                self._room.release()
                await self._space.connected(timeout=PATIENCE_SECONDS)
        await asyncio.gather(*self._following)

    async def _one(self) -> None:
        recorded = self._recorded
        recorded.made += 1
        mark = f"{self._name}-{recorded.made}"
        keys, number, began = recorded.keys(), recorded.made, time.monotonic()
        async with self._space.transaction(note=mark) as tx:
            steps = await self._steps(tx, keys, number)
        place = len(recorded.transactions)
        recorded.transactions.append(Transaction(self._name, began, began, "unknown", steps, mark))
        task = asyncio.create_task(self._follow(tx, place))
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _steps(self, tx: Block, keys: list[str], number: int) -> tuple[Step, ...]:
        first, second = self._chance.sample(keys, 2)
        kind = self._chance.random()
        if kind < 0.7:
            return self._append(tx, first, 2 * number), self._append(tx, second, 2 * number + 1)
        if kind < 0.85:
            return self._append(tx, first, 2 * number), self._append(tx, first, 2 * number + 1)
        seen = Read(first, listed(await tx.get(first)))
        if kind < 0.97:
            return seen, self._append(tx, second, 2 * number)
        return seen, self._append(tx, first, 2 * number), Read(first, listed(await tx.get(first)))

    def _append(self, tx: Block, key: str, element: int) -> Append:
        tx.patch(key, [{"op": "add", "path": "/-", "value": element}], blind=True)
        return Append(key, element)

    async def _follow(self, tx: Block, place: int) -> None:
        recorded, made = self._recorded, self._recorded.transactions[place]
        outcome: Outcome = "ok"
        try:
            version = int(await tx.confirmed())
        except StemmaError:
            outcome = "failed"
        now = time.monotonic()
        recorded.transactions[place] = Transaction(made.process, made.began, now, outcome, made.steps, made.name)
        if outcome == "ok":
            recorded.acknowledged.append(Acknowledged(made.name, version))
            recorded.told.append(Told(now, version))
        else:
            recorded.refused.append(made.name)
        self._room.release()
        self._worked()


async def read_on(name: str, space: Space, recorded: Recorded, *, seed: int) -> None:
    """Reads two lists on one cut from the server, again and again; it never writes, so nothing lies on top."""
    chance = random.Random(seed)
    while True:
        keys = chance.sample(recorded.keys(), 2)
        began = time.monotonic()
        try:
            found = await space.query(keys)
        except AWAY:
            await space.connected(timeout=PATIENCE_SECONDS)
            continue
        now = time.monotonic()
        steps = tuple(Read(key, listed(found.get(key))) for key in keys)
        recorded.transactions.append(Transaction(name, began, now, "ok", steps, f"{name} at {found.version}"))
        recorded.reads.append(ServerRead(began, int(found.version), name))
        await asyncio.sleep(0.002)  # readers are few among writers
