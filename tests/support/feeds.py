"""Feeds in tests: what a session would hold of a watch, put together from deltas, and the query afresh beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from engines import Engine
from space import SPACE
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.access.access_roles import EVERY_ID
from stemmadb.protocol.model.query.query import Prepared, Query, Root, prepare
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.server.engine.base.executors import Inline
from stemmadb.server.engine.read import store_queries
from stemmadb.server.engine.read.entities import EntityValue
from stemmadb.server.service.watch import evaluation, watch_groups
from stemmadb.server.service.watch.feed import Feed
from stemmadb.server.service.watch.watch_groups import Delta, Scope, WatchGroup
from stemmadb.server.storage.port import StorageFailed

A_DAY = 86_400.0
T = TypeVar("T")
Held = dict[EntityId, tuple[Version, bytes, Any]]


def v(number: int) -> Version:
    return Version(number)


def roots(*ids: str, branch: str = "main", schema: Any = None) -> Prepared:
    """A query at the head for these ids and prefixes."""
    written = tuple(Root(id=id_, schema=schema) for id_ in ids)
    return prepare(Query(roots=written, branch=branch), space=SPACE)


@asynccontextmanager
async def feeding(it: Engine, **how: Any) -> AsyncIterator[Feed]:
    """A feed of the space that is started, and stopped at the end; its bounds are large unless they are given."""
    feed = Feed(it.space, **{"bytes_max": 1 << 24, "batches_max": 1_000, "groups_max": 1_000, **how})
    await feed.start()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(watch_groups, "HANDED_S", A_DAY)  # else a slow machine drops what nobody has joined yet
        try:
            yield feed
        finally:
            feed.stop()


class Failing(Inline):
    """Workers on the thread of the loop whose storage can be made to fail."""

    def __init__(self) -> None:
        self.fails = False

    async def run(self, work: Callable[[], T]) -> T:
        if self.fails:
            raise StorageFailed
        return work()


class Calls:
    """A member that notes when it is told: the version of the feed, and where the group is."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.told: list[tuple[int, int]] = []

    def stepped(self, group: WatchGroup) -> None:
        self.told.append((self.feed.version, group.at))


async def fresh(it: Engine, prepared: Prepared, scope: Scope, version: int) -> Held | None:
    """The answer at a version by running the query afresh; None if it passes a bound."""
    at = Prepared(prepared.starts, prepared.branch, version, None, prepared.space, prepared.window)

    def may_read(id_: str) -> bool:
        return any(id_.startswith(prefix) for prefix in scope)

    try:
        found = await it.space.read(
            lambda reader: store_queries.run(reader, at, may_read=may_read, limits=it.space.limits)
        )
    except LimitExceeded:
        return None
    return held(found.answer.entities)


def held(entities: dict[EntityId, EntityValue]) -> Held:
    return {id_: (entity.version, entity.hash, entity.value) for id_, entity in entities.items()}


def applied(before: Held, delta: Delta) -> Held:
    """What is held after a change, each part of which must fit on what is held."""
    assert not delta.entered.keys() & before.keys()
    assert delta.updated.keys() <= before.keys()
    assert delta.left <= before.keys()
    assert not delta.left & (delta.entered.keys() | delta.updated.keys())
    kept = {id_: one for id_, one in before.items() if id_ not in delta.left}
    return {**kept, **held(delta.entered), **held(delta.updated)}


class Holder:
    """One who watches: joins a group, and takes what changed whenever it likes."""

    def __init__(self, it: Engine, feed: Feed, prepared: Prepared, scope: Scope = EVERY_ID) -> None:
        self.it = it
        self.feed = feed
        self.prepared = prepared
        self.scope = scope
        self.seen: dict[Version, Held] = {}
        """What it held at each version that it stopped at."""
        self.by_journal = 0
        self.by_reading = 0

    async def begin(self) -> None:
        """Takes the whole answer, from memory if it is there, else by a read of the ids."""
        self.group = await self.feed.groups.get(self.prepared, self.scope)
        self.group.join(self)
        self.version = self.group.at
        values = self.group.first()
        if values is None:
            ids = set(self.group.entities())
            values = await evaluation.values(
                self.it.space, BranchName(self.prepared.branch), ids, self.version, self.scope
            )
            assert values.keys() == ids
        self.held = held(dict(values))
        self.seen[self.version] = self.held

    def stepped(self, group: WatchGroup) -> None:
        assert group is self.group

    def end(self) -> None:
        self.group.leave(self)

    async def take(self, to: Version) -> None:
        """Goes on to a version the group has reached; from its journal, or by comparing two evaluations."""
        delta = self.group.delta(self.version, to)
        if delta is None:
            self.by_reading += 1
            limits = self.it.space.limits
            _, delta = await evaluation.difference(
                self.it.space, self.prepared, self.scope, after=self.version, to=to, limits=limits
            )
        else:
            self.by_journal += 1
        self.version = to
        self.held = self.seen[to] = applied(self.held, delta)
