"""The watch groups of a space: found or made, shared, and let go when nobody needs them (WATCH-2, RESUME-1)."""

from __future__ import annotations

import asyncio
from copy import copy
from functools import partial
from typing import Final, TypeAlias

from stemmadb.protocol.errors import GoingAway, LimitExceeded, StemmaError, Unavailable
from stemmadb.protocol.model.query.query import Prepared
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.service.base.durable_batches import Batch
from stemmadb.server.service.watch.evaluation import Scope
from stemmadb.server.service.watch.idle import IDLE_ENTITIES_MAX, IDLE_MAX, IdleItems
from stemmadb.server.service.watch.step import BatchSource, Stepper
from stemmadb.server.service.watch.watch_group import JournalBounds, Member, WatchGroup
from stemmadb.server.service.watch.watch_journal import Delta
from stemmadb.server.service.watch.watch_reports import internal

__all__ = ["Delta", "Member", "Scope", "WatchGroup", "WatchGroups"]

HANDED_S: Final = 1.0
"""How long a caller that got a group may take to join it and to use the values of its first evaluation."""
FIRSTS_MAX: Final = 16
"""How many groups keep those values at a time."""

Key: TypeAlias = tuple[Prepared, Scope]


ENTITIES_MAX: Final = 1_000_000
"""Entities in the answers of all groups together."""


class WatchGroups:
    """All of it is used from one event loop."""

    def __init__(
        self,
        space: SpaceApi,
        source: BatchSource,
        *,
        groups_max: int,
        entities_max: int = ENTITIES_MAX,
        idle_max: int = IDLE_MAX,
        idle_entities_max: int = IDLE_ENTITIES_MAX,
        journals: JournalBounds,
    ) -> None:
        self._source = source
        self._part_bytes_max = space.limits.part_bytes_max
        self._groups_max = groups_max
        self._entities_max = entities_max
        self._journals = journals
        self._groups: dict[Key, WatchGroup] = {}
        self._filling: dict[Key, asyncio.Task[WatchGroup | StemmaError]] = {}
        self._callers: dict[asyncio.Task[WatchGroup | StemmaError], int] = {}
        """How many wait for each evaluation."""
        self._stepper = Stepper(space, source, self._over)
        self._idle: IdleItems[WatchGroup] = IdleItems(_size, count_max=idle_max, size_max=idle_entities_max)
        self._firsts: dict[WatchGroup, None] = {}
        self._is_stopped = False

    @property
    def count(self) -> int:
        return len(self._groups)

    @property
    def are_needed(self) -> bool:
        """Whether anybody watches, did a while ago, or is about to."""
        return bool(self._groups or self._filling)

    @property
    def entities(self) -> int:
        """How many entities are in the answers of all of them."""
        return sum(map(_size, self._groups.values()))

    async def get(self, prepared: Prepared, scope: Scope) -> WatchGroup:
        """The group of a query and a scope, evaluated now if there is none; to be joined at once.

        Callers that ask meanwhile share the evaluation. Raises what it fails with, and keeps nothing then:
        errors of the query or of its branch, `Unavailable`, or `LimitExceeded` if no idle group can be dropped.
        """
        key = (prepared, scope)
        group = self._groups.get(key)
        if group is None:
            group = await self._filled(key)
            if group.error is not None:  # since it was made, and before it was handed out
                raise copy(group.error)
        self._idle.remove(group)
        if not group.members:
            asyncio.get_running_loop().call_later(HANDED_S, self._release, group)
        return group

    def step(self, batch: Batch) -> None:
        """A batch was published."""
        self._stepper.step(batch)

    def forget(self, batch: Batch) -> None:
        """A batch is kept no longer."""
        self._stepper.forget(batch)

    def stop(self) -> None:
        """Nothing is evaluated any more; callers that wait for an evaluation get `GoingAway`."""
        self._is_stopped = True
        self._stepper.stop()
        for task in self._filling.values():
            task.cancel()

    # ------------------------------------------------------------ making

    async def _filled(self, key: Key) -> WatchGroup:
        if self._is_stopped:
            raise GoingAway
        task = self._filling.get(key)
        if task is None:
            self._make_capacity()
            task = self._filling[key] = asyncio.get_running_loop().create_task(self._fill(key))
            task.add_done_callback(partial(self._filled_up, key))
        self._callers[task] = self._callers.get(task, 0) + 1
        try:
            made = await asyncio.shield(task)  # a caller that gives up does not cancel it for the others
        except asyncio.CancelledError:
            if task.cancelled():
                raise GoingAway from None
            if self._callers[task] == 1:  # the last one: nobody waits for the evaluation any more
                self._filling.pop(key, None)
                task.cancel()
            raise
        finally:
            self._callers[task] -= 1
            if not self._callers[task]:
                del self._callers[task]
        if isinstance(made, StemmaError):
            raise copy(made)  # a copy for each caller: raising adds to the traceback
        return made

    def _filled_up(self, key: Key, task: asyncio.Task[WatchGroup | StemmaError]) -> None:
        if self._filling.get(key) is task:
            del self._filling[key]

    async def _fill(self, key: Key) -> WatchGroup | StemmaError:
        try:
            filled = await self._stepper.evaluate(*key)
        except StemmaError as error:
            return error
        except Exception as error:
            return internal(error, self._source.version)
        group = WatchGroup(*key, lambda: self._source.version, self._journals)
        group.deserted = partial(self._release, group)
        self._groups[key] = group
        self._stepper.begin(group, filled, keep_values=filled.size <= self._part_bytes_max)
        if group.error is not None:
            return group.error
        self._firsts[group] = None
        if len(self._firsts) > FIRSTS_MAX:
            self._drop_first(next(iter(self._firsts)))
        return group

    def _make_capacity(self) -> None:
        while len(self._groups) + len(self._filling) >= self._groups_max:
            self._dismiss_one("groups_max", self._groups_max)
        while self.entities >= self._entities_max:
            self._dismiss_one("watched_entities_max", self._entities_max)

    def _dismiss_one(self, bound: str, maximum: int) -> None:
        """Drops an idle group; `LimitExceeded` if there is none."""
        if not len(self._idle):
            raise LimitExceeded(bound=bound, maximum=maximum, actual=maximum + 1)
        self._dismiss(self._idle.pop())

    # ------------------------------------------------------------ letting go

    def _release(self, group: WatchGroup) -> None:
        """Drops its first values; a group without members is idle from now on."""
        self._drop_first(group)
        if group.error is None and not group.members:
            for oldest in self._idle.add(group):
                self._dismiss(oldest)

    def _drop_first(self, group: WatchGroup) -> None:
        self._firsts.pop(group, None)
        group.drop_values()

    def _dismiss(self, group: WatchGroup) -> None:
        self._stepper.end(group, Unavailable(), at=group.at)

    def _over(self, group: WatchGroup) -> None:
        self._idle.remove(group)
        self._drop_first(group)
        self._groups.pop((group.prepared, group.scope), None)


def _size(group: WatchGroup) -> int:
    return group.watch.weight
