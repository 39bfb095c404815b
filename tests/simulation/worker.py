"""The worker: does everything that a person can do with a space, one deed after the other, by chance."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias

from simulation import reading, restructuring
from simulation.filling import Fill, Filling
from simulation.followers import Follower
from simulation.ledger import Effect
from simulation.lives import Life
from simulation.scene import COUNTERS, DOCS, EXPECTED, TALLIES, Scene
from stemmadb.client.reading.queries import Schema, Selector, roots_of
from stemmadb.client.space import Space
from stemmadb.client.transactions import Transaction
from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.values.ids import Version

FOLLOWERS_MAX: Final = 3
OPEN: Final = {"properties": {"done": {"const": False}}, "required": ["done"]}
LINKED: Final = {"properties": {"done": {"const": False}, "next": {"properties": {"n": {"type": "integer"}}}}}
WEIGHTS: Final = {"write": 12, "stack": 3, "branch": 3, "watch": 3, "read": 2, "merge": 2}
"""Of kinds of work; the others have 1."""

Deed: TypeAlias = Callable[[], Awaitable[None]]


class Worker:
    """Works in one life of an app until a moment."""

    def __init__(self, life: Life, random: Random, scene: Scene) -> None:
        self.life = life
        self.random = random
        self.scene = scene
        self.fill = Filling(random)

    def deeds(self) -> dict[str, Deed]:
        """By the kind of work."""
        beside = {kind: partial(self._beside, deed) for kind, deed in restructuring.DEEDS.items()}
        return beside | {
            "write": self.write,
            "stack": self.stack,
            "branch": self.write_elsewhere,
            "transact": self.transact,
            "watch": self.watch,
            "retry": self.retry,
            "read": partial(reading.read, self.life, self.random, self.scene),
            "past": partial(reading.past, self.life, self.random, self.scene),
            "past_watch": partial(reading.past_watch, self.life, self.random, self.scene),
        }

    async def work(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        deeds = {kind: deed for kind, deed in self.deeds().items() if kind in self.scene.options.work}
        weights = [WEIGHTS.get(kind, 1) for kind in deeds]
        if self.random.random() < 0.6:
            with suppress(*EXPECTED):
                await self._follow(self.life.space, "urn:*", None)
        while loop.time() < until:
            kind = self.random.choices(list(deeds), weights)[0]
            self.scene.done[kind] += 1
            with suppress(*EXPECTED):
                await deeds[kind]()
            self.life.check_tasks()
            await asyncio.sleep(self.random.expovariate(1 / self.scene.options.pace))

    async def _beside(self, deed: restructuring.Deed) -> None:
        """Not in the way of other deeds: it may take long."""
        self._spawn(partial(deed, self.life, self.random, self.scene))

    def _spawn(self, wait: Callable[[], Awaitable[object]]) -> None:
        async def waited() -> None:
            with suppress(*EXPECTED):
                await wait()

        self.life.spawn(waited())

    # ------------------------------------------------------------ writing

    async def commit(self, space: Space, fill: Fill, *, can_repeat: bool = False) -> Transaction:
        mark = self.scene.ledger.next_mark()
        async with space.transaction(note={"mark": mark}) as tx:
            self.life.begin(tx, mark, await fill(tx, mark), can_repeat=can_repeat)
        return tx

    async def write(self) -> None:
        fill, can_repeat = self.fill.any()
        tx = await self.commit(self.life.space, fill, can_repeat=can_repeat)
        if self.random.random() < 0.3:
            self._spawn(tx.confirmed)
        if self.random.random() < 0.1:
            self._spawn(tx.journaled)

    async def stack(self) -> None:
        """Several at once, each on the one before."""
        fill = self.fill.stacked()
        for _ in range(self.random.randint(2, 6)):
            await self.commit(self.life.space, fill)

    async def write_elsewhere(self) -> None:
        await self.commit(await restructuring.branch(self.life, self.random), self.fill.doc)

    async def transact(self) -> None:
        id_, mark = self.random.choice(TALLIES), self.scene.ledger.next_mark()

        async def count(tx: Transaction) -> None:
            value: Any = await tx.get(id_)
            self.life.begin(tx, mark, (Effect("add", id_, 1),))
            tx.update(id_, value | {"n": value["n"] + 1})

        self._spawn(lambda: self.life.space.transact(count, note={"mark": mark}))

    async def retry(self) -> None:
        """A rejected commit: retried on the current values, or dropped."""
        life = self.life
        life.look()
        for refused in life.space.rejected()[:2]:
            note: Any = refused.note
            if not note:  # the access list, which has no mark
                refused.drop()
                continue
            record = life.app.ledger.find(life.app.did, refused.name, note["mark"])
            if record.can_repeat and self.random.random() < 0.7:
                with suppress(Malformed):  # another worker of this app was first
                    tx = await refused.retry()
                    life.begin(tx, record.mark, record.effects, can_repeat=True)
            else:
                refused.drop()

    # ------------------------------------------------------------ watching

    async def watch(self) -> None:
        life, random = self.life, self.random
        if len(life.followers) >= FOLLOWERS_MAX:
            follower = random.choice(life.followers)
            life.followers.remove(follower)
            follower.watch.close()
            return
        space = life.space
        if "branch" in self.scene.options.work and random.random() < 0.2:
            space = await restructuring.branch(life, random)
        await self._follow(space, *self._watched())

    def _watched(self) -> tuple[Selector, Schema | None]:
        random = self.random
        return random.choice(
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

    async def _follow(self, space: Space, selector: Selector, schema: Schema | None) -> None:
        """A slow one misses changes in between, and must come to the same."""
        roots = roots_of(selector, schema=schema, path="")
        watch = space.watch(selector, schema=schema)
        follower = Follower(space, watch, roots, self.scene.states, may_read=self._may_read)
        self.life.followers.append(follower)
        is_stalled = self.random.random() < 0.3
        self.life.spawn(follower.follow(lambda: self.random.expovariate(1) if is_stalled else 0.0))

    def _may_read(self, epoch: int, version: Version) -> bool:
        return self.scene.states.histories[epoch].role(self.life.app.did, version) is not None


class GuestWorker(Worker):
    """Works with delegated rights: it writes and watches documents."""

    def deeds(self) -> dict[str, Deed]:
        return {"write": self.write, "watch": self.watch}

    async def write(self) -> None:
        await self.commit(self.life.space, self.fill.blind_doc)

    def _watched(self) -> tuple[Selector, Schema | None]:
        return self.random.choice(("urn:doc:*", DOCS[0])), None

    async def _follow(self, space: Space, selector: Selector, schema: Schema | None) -> None:
        await super()._follow(space, "urn:doc:*" if selector == "urn:*" else selector, schema)

    def _may_read(self, epoch: int, version: Version) -> bool:
        revoked = self.scene.states.histories[epoch].revoked.values()
        return all(version < one for one in revoked)
