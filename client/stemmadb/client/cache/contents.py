"""What a cache comes to: the fold of its steps in memory."""

from __future__ import annotations

from stemmadb.client.cache.equality import query_of
from stemmadb.client.cache.records import CacheEntity, CacheHead, CacheState, CacheStep, CacheWatch
from stemmadb.client.nursery.entities import Key
from stemmadb.protocol.model.values.ids import BranchName, EntityId


class CacheContents:
    """Takes steps one by one; `state` is what a cache with these steps holds when it is opened."""

    def __init__(self, state: CacheState | None = None) -> None:
        self._head: CacheHead | None = None
        self._watches: dict[int, CacheWatch] = {}
        self._members: dict[int, set[EntityId]] = {}
        self._entities: dict[Key, CacheEntity] = {}
        if state is not None:
            self._head = state.head
            self._watches = {one.number: one for one in state.watches}
            self._members = {number: set(ids) for number, ids in state.members.items()}
            self._entities = dict(state.entities)

    def take(self, step: CacheStep) -> None:
        if step.clear:
            self._watches, self._members, self._entities = {}, {}, {}
        self._head = step.head
        for number in step.end:
            del self._watches[number], self._members[number]
        for number, id_ in step.leave:
            self._members[number].remove(id_)
        for key in step.remove:
            del self._entities[key]
        for watch in step.watches:
            self._watches[watch.number] = watch
            self._members.setdefault(watch.number, set())
        for number, id_ in step.enter:
            self._members[number].add(id_)
        for entity in step.put:
            self._entities[entity.key] = entity

    def state(self) -> CacheState | None:
        if self._head is None:
            return None
        return CacheState(
            head=self._head,
            watches=tuple(self._watches.values()),
            members={number: set(ids) for number, ids in self._members.items()},
            entities=dict(self._entities),
            branches={one.number: BranchName(query_of(one.query).branch) for one in self._watches.values()},
        )
