"""The watch groups of a space: found or made, shared, and let go when nobody needs them (WATCH-2, RESUME-1)."""

from __future__ import annotations

import asyncio
from copy import copy
from functools import partial
from typing import Final, TypeAlias

from stemmadb.protocol.errors import GoingAway, LimitExceeded, StemmaError, Unavailable
from stemmadb.protocol.model.query import Prepared
from stemmadb.server.engine.api import SpaceApi
from stemmadb.server.service.batches import Batch
from stemmadb.server.service.evaluating import Scope
from stemmadb.server.service.group import Group, JournalBounds, Member
from stemmadb.server.service.journals import Delta
from stemmadb.server.service.lingering import LINGER_ENTITIES_MAX, LINGER_MAX, Lingering
from stemmadb.server.service.stepping import Stepper, Stream
from stemmadb.server.service.watch_reports import internal

__all__ = ["Delta", "Group", "Groups", "Member", "Scope"]

HANDED_S: Final = 1.0
"""How long one who was given a group has time to join it, and to use the values of its first evaluation."""
FIRSTS_MAX: Final = 16
"""How many groups keep those values at a time."""

Key: TypeAlias = tuple[Prepared, Scope]


ENTITIES_MAX: Final = 1_000_000
"""Entities in the answers of all groups together."""


class Groups:
    """All of it is used from one event loop."""

    def __init__(
        self,
        space: SpaceApi,
        stream: Stream,
        *,
        groups_max: int,
        entities_max: int = ENTITIES_MAX,
        linger_max: int = LINGER_MAX,
        linger_entities_max: int = LINGER_ENTITIES_MAX,
        journals: JournalBounds,
    ) -> None:
        self._stream = stream
        self._part_bytes_max = space.limits.part_bytes_max
        self._groups_max = groups_max
        self._entities_max = entities_max
        self._journals = journals
        self._groups: dict[Key, Group] = {}
        self._filling: dict[Key, asyncio.Task[Group | StemmaError]] = {}
        self._stepper = Stepper(space, stream, self._over)
        self._lingering: Lingering[Group] = Lingering(_size, count_max=linger_max, size_max=linger_entities_max)
        self._firsts: dict[Group, None] = {}
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

    async def get(self, prepared: Prepared, scope: Scope) -> Group:
        """The group of a query and a scope, evaluated now if there is none; to be joined at once.

        Who asks meanwhile shares the evaluation. What that fails with is raised, and nothing is kept: errors of the
        query or of its branch, `Unavailable`, or `LimitExceeded` with `groups_max` where there is no room.
        """
        key = (prepared, scope)
        group = self._groups.get(key)
        if group is None:
            group = await self._filled(key)
            if group.error is not None:  # since it was made, and before it was handed out
                raise copy(group.error)
        self._lingering.remove(group)
        if not group.members:
            asyncio.get_running_loop().call_later(HANDED_S, self._settle, group)
        return group

    def step(self, batch: Batch) -> None:
        """A batch was told."""
        self._stepper.step(batch)

    def forget(self, batch: Batch) -> None:
        """A batch is kept no longer."""
        self._stepper.forget(batch)

    def stop(self) -> None:
        """Nothing is evaluated any more; who waits for an evaluation is told `GoingAway`."""
        self._is_stopped = True
        self._stepper.stop()
        for task in self._filling.values():
            task.cancel()

    # ------------------------------------------------------------ making

    async def _filled(self, key: Key) -> Group:
        if self._is_stopped:
            raise GoingAway
        task = self._filling.get(key)
        if task is None:
            self._make_room()
            task = self._filling[key] = asyncio.get_running_loop().create_task(self._fill(key))
            task.add_done_callback(lambda _: self._filling.pop(key))
        try:
            made = await asyncio.shield(task)  # one who gives up takes it from nobody else
        except asyncio.CancelledError:
            if task.cancelled():
                raise GoingAway from None
            raise
        if isinstance(made, StemmaError):
            raise copy(made)  # each its own: who catches one adds to its traceback
        return made

    async def _fill(self, key: Key) -> Group | StemmaError:
        try:
            filled = await self._stepper.evaluate(*key)
        except StemmaError as error:
            return error
        except Exception as mistake:
            return internal(mistake, self._stream.version)
        group = Group(*key, lambda: self._stream.version, self._journals)
        group.deserted = partial(self._settle, group)
        self._groups[key] = group
        self._stepper.begin(group, filled, keep_values=filled.size <= self._part_bytes_max)
        if group.error is not None:
            return group.error
        self._firsts[group] = None
        if len(self._firsts) > FIRSTS_MAX:
            self._drop_first(next(iter(self._firsts)))
        return group

    def _make_room(self) -> None:
        while len(self._groups) + len(self._filling) >= self._groups_max:
            self._dismiss_one("groups_max", self._groups_max)
        while self.entities >= self._entities_max:
            self._dismiss_one("watched_entities_max", self._entities_max)

    def _dismiss_one(self, bound: str, maximum: int) -> None:
        """One that nobody needs; `LimitExceeded` if there is none."""
        if not len(self._lingering):
            raise LimitExceeded(bound=bound, maximum=maximum, actual=maximum + 1)
        self._dismiss(self._lingering.pop())

    # ------------------------------------------------------------ letting go

    def _settle(self, group: Group) -> None:
        """Nobody needs its first values any more; if nobody needs the group either, it lingers."""
        self._drop_first(group)
        if group.error is None and not group.members:
            for oldest in self._lingering.add(group):
                self._dismiss(oldest)

    def _drop_first(self, group: Group) -> None:
        self._firsts.pop(group, None)
        group.drop_values()

    def _dismiss(self, group: Group) -> None:
        self._stepper.end(group, Unavailable(), at=group.at)

    def _over(self, group: Group) -> None:
        self._lingering.remove(group)
        self._drop_first(group)
        self._groups.pop((group.prepared, group.scope), None)


def _size(group: Group) -> int:
    return len(group.entities())
