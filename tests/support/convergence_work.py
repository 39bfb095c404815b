"""What the apps of convergence do: everything a person can do with a space, by chance."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any, Final, TypeAlias

from convergence import Effect, States
from convergence_apps import Follower, Life
from graphs import link
from stemmadb.client.reading.queries import Schema, Selector, roots_of
from stemmadb.client.space import Space
from stemmadb.client.transactions import Transaction
from stemmadb.protocol.errors import (
    AlreadyExists,
    Conflict,
    Dependency,
    FutureVersion,
    NotFound,
    NotInView,
    Overtaken,
    PatchFailed,
    StemmaError,
    Unauthenticated,
    UnknownBranch,
    Unready,
)
from stemmadb.protocol.model.commit import Strategy

COUNTERS: Final = ("urn:count:a", "urn:count:b")
"""Only ever incremented, blind or not."""
TALLIES: Final = ("urn:tally:a", "urn:tally:b")
"""Read, and written with one more."""
LISTS: Final = ("urn:list:a", "urn:list:b")
"""Only ever appended to."""
ACCOUNTS: Final = tuple(f"urn:bank:{one}" for one in "abcd")
"""Something only ever moves between them: together they stay 0."""
DOCS: Final = tuple(f"urn:doc:{number}" for number in range(6))
"""Anything happens to them, on every branch."""
BRANCHES: Final = ("draft", "side")
STRATEGIES: Final[tuple[Strategy, ...]] = ("lww", "source", "target", "fields")
FOLLOWERS_MAX: Final = 4

EXPECTED: Final[tuple[type[StemmaError], ...]] = (
    Unready,
    Conflict,
    Dependency,
    FutureVersion,
    NotInView,
    AlreadyExists,
    NotFound,
    Overtaken,
    PatchFailed,
    Unauthenticated,
    UnknownBranch,
)
"""What an app may be told while the world is in chaos; anything else is a violation."""

OPEN: Final = {"properties": {"done": {"const": False}}, "required": ["done"]}
LINKED: Final = {"properties": {"done": {"const": False}, "next": {"properties": {"n": {"type": "integer"}}}}}

Deed: TypeAlias = Callable[[], Awaitable[None]]
Fill: TypeAlias = Callable[[Transaction, int], Awaitable[tuple[Effect, ...]]]
"""Does something in a transaction with a mark; says what adds up."""


class Worker:
    """Works in one life of an app until a moment, with pauses of `pace` seconds on average."""

    def __init__(self, life: Life, random: Random, states: States, *, pace: float) -> None:
        self._life = life
        self._random = random
        self._states = states
        self._pace = pace
        self._deeds: list[tuple[Deed, int]] = [
            (self.write, 12),
            (self.stack, 3),
            (self.write_elsewhere, 3),
            (self.transact, 1),
            (self.watch, 2),
            (self.unwatch, 1),
            (self.retry, 1),
            (self.read, 2),
            (self.merge, 1),
            (self.undo, 1),
        ]

    async def work(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        if self._random.random() < 0.6:
            await self._follow(self._life.space, "urn:*", None)
        while loop.time() < until:
            deed = self._random.choices([one for one, _ in self._deeds], [weight for _, weight in self._deeds])[0]
            with suppress(*EXPECTED):
                await deed()
            self._life.check_tasks()
            await asyncio.sleep(self._random.expovariate(1 / self._pace))

    # ------------------------------------------------------------ writing

    async def _commit(self, space: Space, fill: Fill, *, can_repeat: bool = False) -> Transaction:
        mark = self._life.app.ledger.next_mark()
        async with space.transaction(note={"mark": mark}) as tx:
            self._life.begin(tx, mark, await fill(tx, mark), can_repeat=can_repeat)
        return tx

    async def write(self) -> None:
        fill, can_repeat = self._random.choice(self._fills())
        tx = await self._commit(self._life.space, fill, can_repeat=can_repeat)
        if self._random.random() < 0.3:
            self._life.spawn(_waited(tx.confirmed))
        if self._random.random() < 0.1:
            self._life.spawn(_waited(tx.kept))

    async def stack(self) -> None:
        """Several at once, each on the one before."""
        fill = self._random.choice((self._tally, self._move, self._append_after_reading, self._count))
        for _ in range(self._random.randint(2, 6)):
            await self._commit(self._life.space, fill)

    async def write_elsewhere(self) -> None:
        await self._commit(await self._branch(), self._doc)

    def _fills(self) -> list[tuple[Fill, bool]]:
        return [
            (self._count, True),
            (self._tally, False),
            (self._append, True),
            (self._append_after_reading, False),
            (self._move, True),
            (self._doc, False),
            (self._docs, False),
            (self._slow, False),
            (self._list, False),
        ]

    async def _count(self, tx: Transaction, _mark: int) -> tuple[Effect, ...]:
        id_, by = self._random.choice(COUNTERS), self._random.randint(1, 3)
        tx.increment(id_, "/n", by, blind=self._random.random() < 0.5)
        return (Effect("add", id_, by),)

    async def _tally(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        id_ = self._random.choice(TALLIES)
        value: Any = await tx.get(id_)
        tx.update(id_, value | {"n": value["n"] + 1, "by": mark})
        return (Effect("add", id_, 1),)

    async def _append(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        id_ = self._random.choice(LISTS)
        tx.patch(id_, [{"op": "add", "path": "/items/-", "value": mark}], blind=self._random.random() < 0.5)
        return (Effect("append", id_, mark),)

    async def _append_after_reading(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        id_ = self._random.choice(LISTS)
        items: Any = await tx.get(id_, "/items")
        tx.update(id_, {"items": [*items, mark]})
        return (Effect("append", id_, mark),)

    async def _move(self, tx: Transaction, _mark: int) -> tuple[Effect, ...]:
        source, target = self._random.sample(ACCOUNTS, 2)
        tx.increment(source, "/n", -1)
        tx.increment(target, "/n", 1)
        return (Effect("add", source, -1), Effect("add", target, 1))

    async def _doc(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        random, id_ = self._random, self._random.choice(DOCS)
        kind = random.choice(("set", "set", "blind", "create", "patch", "update", "delete", "delete blind"))
        if kind in ("set", "blind"):
            tx.set(id_, self._content(mark), blind=kind == "blind")
        elif kind == "create":
            tx.create(id_, self._content(mark))
        elif kind == "patch":
            tx.patch(id_, [{"op": "add", "path": "/title", "value": mark}], blind=random.random() < 0.5)
        elif kind == "update":
            value: Any = await tx.get(id_)
            if value is not None:
                tx.update(id_, value | {"done": random.random() < 0.5, "n": value.get("n", 0) + 1})
        else:
            tx.delete(id_, blind=kind == "delete blind")
        return ()

    def _content(self, mark: int) -> dict[str, Any]:
        random = self._random
        content: dict[str, Any] = {"title": mark, "done": random.random() < 0.4, "n": 0}
        if random.random() < 0.6:
            content["next"] = link(random.choice((*DOCS, *COUNTERS)))
        return content

    async def _docs(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        await self._doc(tx, mark)
        await self._doc(tx, mark)
        return await self._count(tx, mark)

    async def _slow(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        """What it reads stays as it is, however long it takes (NURSERY-2)."""
        ids = self._random.sample((*DOCS, *TALLIES), 2)
        before = [await tx.get(id_) for id_ in ids]
        await asyncio.sleep(self._random.expovariate(2))
        assert [await tx.get(id_) for id_ in ids] == before, "what a transaction reads has changed"
        return await self._tally(tx, mark)

    async def _list(self, tx: Transaction, mark: int) -> tuple[Effect, ...]:
        found = await tx.list("urn:doc:*")
        for id_ in sorted(found)[:1]:
            tx.delete(id_)
        return await self._count(tx, mark)

    async def transact(self) -> None:
        """Not in the way of other deeds: it may take long."""

        id_, mark = self._random.choice(TALLIES), self._life.app.ledger.next_mark()

        async def count(tx: Transaction) -> None:
            value: Any = await tx.get(id_)
            self._life.begin(tx, mark, (Effect("add", id_, 1),))
            tx.update(id_, value | {"n": value["n"] + 1})

        self._life.spawn(_waited(lambda: self._life.space.transact(count, note={"mark": mark})))

    async def retry(self) -> None:
        """From the tray: on top of the current values, or for good."""
        life = self._life
        life.look()
        for refused in life.space.rejected()[:2]:
            note: Any = refused.note
            record = life.app.ledger.find(life.app.did, refused.name, note["mark"])
            if record.can_repeat and self._random.random() < 0.7:
                tx = await refused.retry()
                life.begin(tx, record.mark, record.effects, can_repeat=True)
            else:
                refused.drop()

    # ------------------------------------------------------------ the rest

    async def watch(self) -> None:
        life, random = self._life, self._random
        if len(life.followers) >= FOLLOWERS_MAX:
            return
        space = life.space if random.random() < 0.8 else await self._branch()
        selector, schema = random.choice(
            [
                ("urn:*", None),
                ("urn:bank:*", None),
                ("urn:doc:*", None),
                ([random.choice(DOCS), random.choice(COUNTERS)], None),
                ("urn:doc:*", OPEN),
                ("urn:doc:*", LINKED),
                (random.choice(DOCS), LINKED),
            ]
        )
        await self._follow(space, selector, schema)

    async def _follow(self, space: Space, selector: Selector, schema: Schema | None) -> None:
        """A slow one misses changes in between, and must come to the same."""
        roots = roots_of(selector, schema=schema, path="")
        follower = Follower(space, space.watch(selector, schema=schema), roots, self._states)
        self._life.followers.append(follower)
        is_slow = self._random.random() < 0.3
        self._life.spawn(follower.follow(lambda: self._random.expovariate(1) if is_slow else 0.0))

    async def unwatch(self) -> None:
        if self._life.followers:
            follower = self._random.choice(self._life.followers)
            self._life.followers.remove(follower)
            follower.watch.close()

    async def read(self) -> None:
        space = self._life.space
        if self._random.random() < 0.5:
            await space.get(self._random.choice((*DOCS, *TALLIES)))
        else:
            found: dict[str, Any] = (await space.query("urn:bank:*")).entities
            assert sum(found[one]["n"] for one in ACCOUNTS) == 0, f"a torn read: {found}"

    async def merge(self) -> None:
        """One branch is merged into main, the other is given what main has: a criss-cross would be a conflict, and
        what wins there is not for sums to say (MERGE-2)."""
        strategy = self._random.choice(STRATEGIES)
        if self._random.random() < 0.7:
            side = await self._branch("side")
            self._life.spawn(_waited(lambda: side.merge_into("main", strategy=strategy)))
        else:
            draft = await self._branch("draft")
            self._life.spawn(_waited(lambda: draft.merge_from("main", strategy=strategy)))

    async def undo(self) -> None:
        draft = await self._branch()
        self._life.spawn(_waited(draft.undo if self._random.random() < 0.6 else draft.redo))

    async def _branch(self, name: str | None = None) -> Space:
        name, spaces = name or self._random.choice(BRANCHES), self._life.branches
        if name not in spaces:
            spaces[name] = await self._life.space.branch(name, create=True)
        return spaces[name]


async def _waited(wait: Callable[[], Awaitable[object]]) -> None:
    with suppress(*EXPECTED):
        await wait()
