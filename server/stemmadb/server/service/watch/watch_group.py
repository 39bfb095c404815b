"""A watch group: one evaluation and its journal for all watches with the same query and scope (WATCH-2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.query.query import Ask, Prepared
from stemmadb.protocol.model.schema import WorkBudget
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.watch import NOTHING_ASKED, WatchEvaluator, WatchStep
from stemmadb.server.engine.read.entities import EntityValue
from stemmadb.server.service.base.durable_batches import Batch
from stemmadb.server.service.watch.evaluation import Filled, Scope, Walk
from stemmadb.server.service.watch.watch_journal import Delta, WatchJournal

JOURNAL_STEPS_MAX: Final = 1_024
JOURNAL_BYTES_MAX: Final = 4 * 1024 * 1024
"""What the journal of one group may keep; much of it is shared with the batches of the feed."""


class Member(Protocol):
    """Notified when the answer may have changed: a watch, or a broadcast group."""

    def stepped(self, group: WatchGroup) -> None:
        """The answer changed, or the group caught up, or it is over. Called at most once for each batch."""
        ...


class JournalBounds(msgspec.Struct, frozen=True):
    steps_max: int = JOURNAL_STEPS_MAX
    bytes_max: int = JOURNAL_BYTES_MAX


class Unfinished(msgspec.Struct, frozen=True):
    """A step that asks for values that the batch does not have."""

    walk: Walk
    ask: Ask


class WatchGroup:
    """Made and stepped by `WatchGroups`; read by sessions, from the event loop of the space."""

    def __init__(
        self, prepared: Prepared, scope: Scope, feed_version: Callable[[], Version], bounds: JournalBounds
    ) -> None:
        self.prepared = prepared
        self.scope = scope
        self.error: StemmaError | None = None
        """Why it is over; set once. What it published up to `at` stays true."""
        self.budget: WorkBudget | None = None
        """Of the step that a worker makes last; cancelled when the group is over."""
        self._feed_version = feed_version
        self._bounds = bounds
        self._members: dict[Member, int] = {}

    # ------------------------------------------------------------ what sessions use

    @property
    def at(self) -> Version:
        """The answer is known up to here: the version of the feed, unless the group is behind or over."""
        return self._feed_version() if self._at is None else self._at

    def delta(self, after: Version, to: Version) -> Delta | None:
        """The net change of the answer, from the journal (SYNC-3, RESUME-1).

        None if it does not reach back to `after`, if `to` is later than `at`, or if one of them lies inside a batch
        that changed the answer. Not to be changed.
        """
        return None if to < after or to > self.at else self.journal.between(after, to)

    def entities(self) -> set[EntityId]:
        """The ids in the answer at `at`; not to be changed, and not to be kept."""
        return self._answer

    def size_of(self, id_: EntityId) -> int:
        """The bytes of the value of an entity at `at`, encoded; it may have left since."""
        return self.watch.size_of(id_)

    def first(self) -> Mapping[EntityId, EntityValue] | None:
        """The answer at `at` with its values, for a short time after the first evaluation, if it was small."""
        return self._values

    def join(self, member: Member) -> None:
        """Notifies the member from now on; it leaves as often as it joined. A group that is over notifies nobody."""
        self._members[member] = self._members.get(member, 0) + 1

    def leave(self, member: Member) -> None:
        count = self._members.pop(member) - 1
        if count:
            self._members[member] = count
        elif not self._members:
            self.deserted()

    # ------------------------------------------------------------ what `WatchGroups` uses

    deserted: Callable[[], None]
    """Called when the last member has left."""

    @property
    def members(self) -> Sequence[Member]:
        return tuple(self._members)

    @property
    def is_behind(self) -> bool:
        return self._at is not None

    def begin(self, filled: Filled, *, keep_values: bool) -> None:
        """Goes on from an evaluation; it is behind, at its version, until it has caught up."""
        self.watch: WatchEvaluator[EntityValue] = filled.watch
        self.journal = WatchJournal(
            filled.version, steps_max=self._bounds.steps_max, bytes_max=self._bounds.bytes_max
        )
        self._answer = set(filled.entities)
        self._values: dict[EntityId, EntityValue] | None = filled.entities if keep_values else None
        self._at: Version | None = filled.version

    def drop_values(self) -> None:
        self._values = None

    def stand_at(self, version: Version | None) -> None:
        """It is known up to a version, or, with None, wherever the feed is."""
        self._at = version

    def step(
        self, batch: Batch, ids: Sequence[EntityId], budget: WorkBudget | None = None
    ) -> WatchStep[EntityValue] | Unfinished:
        """Steps to the end of a batch of which these ids concern it, if the batch has all the values it takes.

        Unfinished also where the budget's turn is over: the rest is for a worker.
        """
        changes = batch.changes(self.prepared.branch)
        walk = self.watch.step({id_: self._readable(changes[id_]) for id_ in ids}, budget)
        try:
            ask = next(walk)
            while ask is not NOTHING_ASKED and all(id_ in changes for id_ in ask.ids):
                entities = ((id_, self._readable(changes[id_])) for id_ in ask.ids)
                ask = walk.send({id_: entity for id_, entity in entities if entity is not None})
        except StopIteration as end:
            step: WatchStep[EntityValue] = end.value
            return step
        return Unfinished(walk, ask)

    def record(self, batch: Batch, step: WatchStep[EntityValue]) -> bool:
        """The step was made; whether the answer changed."""
        delta = Delta(step.entered, step.updated, step.left)
        if delta.is_empty():
            return False
        self.journal.add(batch.after, batch.to, delta)
        self._answer.update(step.entered)
        self._answer.difference_update(step.left)
        if self._values is not None:  # made anew, since somebody may be sending what it was
            values = {**self._values, **step.entered, **step.updated}
            self._values = {id_: entity for id_, entity in values.items() if id_ not in step.left}
        return True

    def _readable(self, entity: EntityValue | None) -> EntityValue | None:
        return entity if entity is not None and entity.id.startswith(self.scope) else None
