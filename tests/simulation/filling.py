"""What the transactions of an app do, by chance: numbers that add up, lists that grow, documents that change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeAlias

from graphs import link
from simulation.ledger import Effect
from simulation.scene import ACCOUNTS, COUNTERS, DOCS, LISTS, TALLIES
from stemmadb.client.transactions import Transaction

Fill: TypeAlias = Callable[[Transaction, int], Awaitable[tuple[Effect, ...]]]
"""Does something in a transaction with a mark; says what adds up."""


class Filling:
    """Each method is a `Fill`."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def any(self) -> tuple[Fill, bool]:
        """One of them, and whether it means the same on any value."""
        return self._random.choice(
            (
                (self.count, True),
                (self.tally, False),
                (self.append, True),
                (self.append_after_reading, False),
                (self.move, True),
                (self.doc, False),
                (self.docs, False),
                (self.slow, False),
                (self.listed, False),
            )
        )

    def stacked(self) -> Fill:
        """One that builds on what it did before."""
        return self._random.choice((self.tally, self.move, self.append_after_reading, self.count, self.docs))

    async def count(self, tx: Transaction, _mark: int) -> tuple[Effect, ...]:
        id_, by = self._random.choice(COUNTERS), self._random.randint(1, 3)
        tx.increment(id_, "/n", by, blind=self._random.random() < 0.5)
        return (Effect("add", id_, by),)

    async def tally(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        id_ = self._random.choice(TALLIES)
        value: Any = await tx.get(id_)
        tx.update(id_, value | {"n": value["n"] + 1, "by": mark})
        return (Effect("add", id_, 1),)

    async def append(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        id_ = self._random.choice(LISTS)
        tx.patch(id_, [{"op": "add", "path": "/items/-", "value": mark}], blind=self._random.random() < 0.5)
        return (Effect("append", id_, mark),)

    async def append_after_reading(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        id_ = self._random.choice(LISTS)
        items: Any = await tx.get(id_, "/items")
        tx.update(id_, {"items": [*items, mark]})
        return (Effect("append", id_, mark),)

    async def move(self, tx: Transaction, _mark: int) -> tuple[Effect, ...]:
        source, target = self._random.sample(ACCOUNTS, 2)
        tx.increment(source, "/n", -1)
        tx.increment(target, "/n", 1)
        return (Effect("add", source, -1), Effect("add", target, 1))

    async def doc(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        random, id_ = self._random, self._random.choice(DOCS)
        kind = random.choice(("set", "set", "blind", "create", "patch", "update", "delete", "delete blind"))
        if kind in ("set", "blind"):
            tx.set(id_, self.content(mark), blind=kind == "blind")
        elif kind == "create":
            tx.create(id_, self.content(mark))
        elif kind == "patch":
            tx.patch(id_, [{"op": "add", "path": "/title", "value": mark}], blind=random.random() < 0.5)
        elif kind == "update":
            value: Any = await tx.get(id_)
            if value is not None:
                tx.update(id_, value | {"done": random.random() < 0.5, "n": value.get("n", 0) + 1})
        else:
            tx.delete(id_, blind=kind == "delete blind")
        return ()

    async def blind_doc(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        """By one who may read little."""
        tx.set(self._random.choice(DOCS), self.content(mark), blind=True)
        return ()

    def content(self, mark: int) -> dict[str, Any]:
        random = self._random
        content: dict[str, Any] = {"title": mark, "done": random.random() < 0.4, "n": 0}
        if random.random() < 0.6:
            content["next"] = link(random.choice((*DOCS, *COUNTERS)))
        return content

    async def docs(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        await self.doc(tx, mark)
        await self.doc(tx, mark)
        return await self.count(tx, mark)

    async def slow(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        """What it reads stays as it is, however long it takes (NURSERY-2)."""
        ids = self._random.sample((*DOCS, *TALLIES), 2)
        before = [await tx.get(id_) for id_ in ids]
        await asyncio.sleep(self._random.expovariate(4))
        assert [await tx.get(id_) for id_ in ids] == before, "what a transaction reads has changed"
        return await self.tally(tx, mark)

    async def listed(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        found = await tx.list("urn:doc:*")
        for id_ in sorted(found)[:1]:
            tx.delete(id_)
        return await self.count(tx, mark)
