"""What a watcher holds equals the query afresh, at every version and whatever happens when (WATCH-1)."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from engines import Engine, Wandering, engine, turns
from feeds import Holder, feeding, fresh
from graphs import Stored, random_changes, random_entities, random_limits, random_query
from space import SPACE, delete_, set_
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete
from stemmadb.protocol.model.query.query import Prepared, Query, prepare
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.service.watch.feed import Feed
from stemmadb.server.service.watch.watch_group import JournalBounds
from stemmadb.server.storage.memory import MemoryStorage

COUNT = 12
SEEDS = 60
ALL = 1_000
SCOPES = (("",), ("",), ("urn:even:",), ("urn:odd:", "urn:even:1"), ())
BRANCHES = ("main", "draft", "side")


class World:
    """Random commits on several branches, and holders that come, take what changed now and then, and go."""

    def __init__(self, seed: int, it: Engine, other: Engine | None, feed: Feed) -> None:
        self.random = Random(seed)
        self.it = it
        self.other = other
        self.feed = feed
        self.may_skip = feed._batches_max < ALL
        """Whether a group may be evaluated anew, at a later version than the next."""
        self.entities: dict[str, dict[EntityId, Stored]] = {}
        self.live = list(BRANCHES)
        self.boundaries: list[Version] = []
        self.holders: list[Holder] = []
        self.gone: list[Holder] = []
        self.queries: list[tuple[Prepared, tuple[str, ...]]] = []
        feed.on_batch = lambda batch: self.boundaries.append(batch.to)

    async def begin(self) -> None:
        first = random_entities(self.random, COUNT)
        await self.it.must(*(set_(id_, one.value, blind=True) for id_, one in first.items()))
        for branch in BRANCHES:
            self.entities[branch] = dict(first)
        for branch in BRANCHES[1:]:
            made = BranchCreate(name=BranchName(branch), parent=MAIN, fork=self.it.space.version)
            assert isinstance(await self.it.structure(made), Accepted)
        for _ in range(6):
            query = Query(roots=random_query(self.random, COUNT).roots, branch=self.random.choice(BRANCHES))
            self.queries.append((prepare(query, space=SPACE), self.random.choice(SCOPES)))

    async def commit(self, who: Engine, session: str) -> None:
        branch = self.random.choice(self.live)
        entities = self.entities[branch]
        changes = random_changes(self.random, COUNT, entities)
        operations: list[Operation] = []
        for id_, after in changes.items():
            if after is None:
                del entities[id_]
                operations.append(delete_(id_, blind=True))
            else:
                entities[id_] = after
                operations.append(set_(id_, after.value, blind=True))
        if operations:
            await who.commit(*operations, branch=branch, session=session)

    async def write(self, count: int, session: str) -> None:
        for _ in range(count):
            who = self.other if self.other is not None and self.random.random() < 0.3 else self.it
            await self.commit(who, session if who is self.it else f"o{session}")
            await turns(self.random.randrange(3))

    async def look(self, count: int) -> None:
        for _ in range(count):
            await turns(self.random.randrange(6))
            await self.random.choice([self.come, self.take, self.take, self.take, self.go])()

    async def come(self) -> None:
        holder = Holder(self.it, self.feed, *self.random.choice(self.queries))
        asked_at = self.feed.version
        try:
            await holder.begin()
        except LimitExceeded:
            since = [asked_at, *(to for to in self.boundaries if asked_at < to <= self.feed.version)]
            answers = [await fresh(self.it, holder.prepared, holder.scope, to) for to in since]
            assert None in answers
            return
        self.holders.append(holder)

    async def take(self) -> None:
        if not self.holders:
            return
        holder = self.random.choice(self.holders)
        reached = [to for to in self.boundaries if holder.version <= to <= holder.group.at]
        try:
            await holder.take(self.random.choice([*reached, holder.group.at]))
        except LimitExceeded:
            self.leave(holder)

    async def go(self) -> None:
        if self.holders and self.random.random() < 0.5:
            self.leave(self.random.choice(self.holders))

    def leave(self, holder: Holder) -> None:
        holder.end()
        self.holders.remove(holder)
        self.gone.append(holder)

    async def end(self) -> None:
        """Everybody catches up, and everything anybody held is compared."""
        await self.it.must(set_("urn:other:last", 1, blind=True), session="last")
        for _ in range(200):
            await turns()
        assert self.feed.version == self.it.space.version
        for holder in self.holders:
            group = holder.group
            if group.error is None:
                assert group.at == self.feed.version
                assert group.delta(group.at, group.at) is not None
                await self.finish(holder)
        for holder in (*self.holders, *self.gone):
            for version, held in holder.seen.items():
                assert held == await fresh(self.it, holder.prepared, holder.scope, version)
            if isinstance(holder.group.error, LimitExceeded):
                after = [to for to in self.boundaries if to > holder.group.at]
                answers = [await fresh(self.it, holder.prepared, holder.scope, to) for to in after]
                assert answers[0] is None or (None in answers and self.may_skip)

    async def finish(self, holder: Holder) -> None:
        try:
            await holder.take(holder.group.at)
        except LimitExceeded:  # at the version it stood at, or in between: then it would have to begin anew
            return
        assert holder.held.keys() == holder.group.entities()


@pytest.mark.rule("WATCH-1", "WATCH-2")
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_what_is_held_equals_the_query_afresh(seed: int) -> None:
    random = Random(f"bounds {seed}")
    storage = MemoryStorage()
    tiny = JournalBounds(steps_max=random.choice((1, 3, 1_000)), bytes_max=random.choice((300, 2_000, 1 << 20)))
    sizes = {"batches_max": random.choice((1, 3, ALL)), "idle_max": random.choice((0, 1, 64)), "journals": tiny}
    workers = Executors(Wandering(seed), Wandering(seed + 1, turns_max=random.choice((0, 6, 40))))
    limits = random_limits(random)
    async with engine(storage, workers=workers, limits=limits) as it:
        if seed % 3:
            async with feeding(it, **sizes) as feed:
                await run(World(seed, it, None, feed))
        else:
            async with engine(storage, limits=limits) as other, feeding(it, **sizes) as feed:
                await run(World(seed, it, other, feed))


async def run(world: World) -> None:
    await world.begin()
    writers = [world.write(25, f"w{number}") for number in range(3)]
    await asyncio.gather(*writers, world.look(80))
    await world.end()


async def test_a_deleted_branch_ends_its_groups_with_the_last_state() -> None:
    async with engine() as it, feeding(it) as feed:
        world = World(7, it, None, feed)
        await world.begin()
        world.queries = [(one, scope) for one, scope in world.queries if one.branch == "draft"] or [
            (prepare(Query(roots=random_query(world.random, COUNT).roots, branch="draft"), space=SPACE), ("",))
        ]
        await world.come()
        await world.write(10, "w")
        assert isinstance(await it.structure(BranchDelete(name=BranchName("draft"))), Accepted)
        (holder,) = world.holders
        assert holder.group.error is not None
        assert (holder.group.error.code, holder.group.at) == ("branch_deleted", feed.version)
        await holder.take(feed.version)
        assert holder.held == await fresh(it, holder.prepared, holder.scope, feed.version)
