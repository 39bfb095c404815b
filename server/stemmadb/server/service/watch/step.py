"""Stepping watch groups from batch to batch: at once where memory has all it takes, else through a worker (WATCH-1).

A group is in one of these states:

- *synced*: its answer is known at the version of the feed; each batch steps it at once (`is_behind` is False).
- *behind*: a step needs values that are being read, or is too much work for the event loop. It stays at the last
  version it knows, then catches up with the batches that the feed has kept, or is evaluated anew if those are gone.
  No session waits for it meanwhile.
- *stalled*: the storage failed while it was evaluated anew; this is tried again after a while and with every batch.
- *idle*: it has no members and is kept for a while (`WatchGroups`), synced or behind.
- *over*: `error` says why.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Final, Protocol
from weakref import WeakSet

from stemmadb.protocol.errors import (
    BranchDeleted,
    Compacted,
    LimitExceeded,
    StemmaError,
    Unavailable,
    Unready,
)
from stemmadb.protocol.model.query.query import Prepared
from stemmadb.protocol.model.schema import WorkBudget
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.watch import NOTHING_ASKED, WatchStep
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.engine.read.entities import EntityValue
from stemmadb.server.service.base.durable_batches import Batch
from stemmadb.server.service.watch import evaluation
from stemmadb.server.service.watch.evaluation import Filled, Scope
from stemmadb.server.service.watch.watch_group import Unfinished, WatchGroup
from stemmadb.server.service.watch.watch_index import WatchIndex, narrowed_ids, narrowed_prefixes
from stemmadb.server.service.watch.watch_reports import AGAIN_SECONDS, internal, report

FILLS_MAX: Final = 8
"""How often an evaluation is tried again because the log was compacted beyond what was published."""


TURN_WORK: Final = 25_000
"""Units of work, about 5 ms, that the event loop does for one batch. Groups beyond that are stepped in workers."""


class BatchSource(Protocol):
    """The feed, as groups use it."""

    @property
    def version(self) -> Version: ...

    @property
    def retained_after(self) -> Version: ...

    def batches(self, after: Version) -> Sequence[Batch] | None: ...


class _Went(enum.Enum):
    """How a step went."""

    SAME = "the answer is what it was"
    CHANGED = "the answer changed"
    WAITS = "it waits for values"
    OVER = "it failed"


class _Turn:
    """The work that is left for the event loop in this turn, for all groups together."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = TURN_WORK


class Stepper:
    """Used from one event loop. Members are notified only after all groups that could be stepped at once were."""

    def __init__(self, space: SpaceApi, source: BatchSource, ended: Callable[[WatchGroup], None]) -> None:
        self._space = space
        self._source = source
        self._ended = ended
        self._index: WatchIndex[WatchGroup] = WatchIndex()
        self._stalled: dict[WatchGroup, None] = {}
        """Those to be evaluated anew once the storage works again: tried with the next batch."""
        self._stepped: dict[Version, WeakSet[WatchGroup]] = {}
        """Whose journals have a step to the end of which batch, as long as that batch is kept."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def evaluate(self, prepared: Prepared, scope: Scope) -> Filled:
        """Evaluates the query at the version published last; the work ends if the caller is cancelled."""
        for _ in range(FILLS_MAX):
            version, limits = self._source.version, self._space.limits
            budget = WorkBudget(limits.query_work_max)
            ask = partial(
                evaluation.fill, prepared=prepared, scope=scope, version=version, limits=limits, budget=budget
            )
            try:
                return await self._space.read(ask)
            except Compacted:
                continue  # the log has gone on, and the feed follows
            finally:
                budget.cancel()
        raise Unavailable

    def begin(self, group: WatchGroup, filled: Filled, *, keep_values: bool = False) -> None:
        """Steps the group from now on, after it has caught up with what was published since the evaluation."""
        group.begin(filled, keep_values=keep_values)
        watch, scope = filled.watch, group.scope
        # What may not be read is never there, so a change of it concerns nobody.
        ids, prefixes = narrowed_ids(watch.ids, scope), narrowed_prefixes(watch.prefixes, scope)
        self._index.add(group, group.prepared.branch, ids=ids, prefixes=prefixes)
        self._catch_up(group)

    def end(self, group: WatchGroup, error: StemmaError, *, at: Version) -> None:
        """It is over; what it published up to that version stays true."""
        group.error = error
        if group.budget is not None:
            group.budget.cancel()
        group.stand_at(at)
        self._index.drop(group)
        self._stalled.pop(group, None)
        self._ended(group)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    # ------------------------------------------------------------ a batch

    def step(self, batch: Batch) -> None:
        """Steps those that the batch concerns; costs nothing for the others."""
        changed: list[WatchGroup] = []
        turn = _Turn()
        for group, ids in self._index.find(batch.written).items():
            if not group.is_behind and self._advance(group, batch, ids, turn) in (_Went.CHANGED, _Went.OVER):
                changed.append(group)
        for branch in batch.deleted:
            there = [group for group in self._index.watching(branch) if not group.is_behind]
            changed.extend(group for group in there if self._is_last(group, batch))
        for group in tuple(self._stalled):
            self._evaluate_anew(group)
        for group in dict.fromkeys(changed):
            _notify(group)

    def forget(self, batch: Batch) -> None:
        """The feed keeps it no longer, and neither do the journals."""
        for group in self._stepped.pop(batch.to, ()):
            group.journal.trim(batch.to)

    def _advance(self, group: WatchGroup, batch: Batch, ids: Sequence[EntityId], turn: _Turn) -> _Went:
        budget = WorkBudget(self._space.limits.query_work_max, turn=turn.left)
        try:
            step = group.step(batch, ids, budget)
        except Exception as error:
            self.end(group, self._reported(error), at=batch.after)
            return _Went.OVER
        turn.left = max(turn.left - budget.spent, 0)
        if isinstance(step, Unfinished):
            turn.left = 0 if step.ask is NOTHING_ASKED else turn.left
            group.stand_at(batch.after)
            self._start(self._finish(group, batch, step, budget))
            return _Went.WAITS
        return self._record(group, batch, step)

    def _record(self, group: WatchGroup, batch: Batch, step: WatchStep[EntityValue]) -> _Went:
        if step.watched or step.unwatched:
            watched, unwatched = narrowed_ids(step.watched, group.scope), narrowed_ids(step.unwatched, group.scope)
            self._index.change(group, watched=watched, unwatched=unwatched)
        if not group.record(batch, step):
            return _Went.SAME
        if batch.after >= self._source.retained_after:
            self._stepped.setdefault(batch.to, WeakSet()).add(group)
        else:
            group.journal.trim(batch.to)
        return _Went.CHANGED

    def _is_last(self, group: WatchGroup, batch: Batch) -> bool:
        """Whether the branch was deleted: a watch on it ends with its last state (BRANCH-1)."""
        branch = group.prepared.branch
        if branch not in batch.deleted:
            return False
        self.end(group, BranchDeleted(branch=branch), at=batch.to)
        return True

    # ------------------------------------------------------------ behind

    async def _finish(self, group: WatchGroup, batch: Batch, step: Unfinished, budget: WorkBudget) -> None:
        """The rest of a step in a worker, and then what came meanwhile."""
        branch, scope = group.prepared.branch, group.scope
        rest = partial(evaluation.finish, walk=step.walk, ask=step.ask, branch=branch, version=batch.to, scope=scope)
        budget.turn = None
        group.budget = budget
        try:
            made = await self._space.read(rest)
        except Exception as error:
            self._not_finished(group, error)
            return
        if group.error is None:
            self._record(group, batch, made)
            group.stand_at(batch.to)
            if not self._is_last(group, batch):
                self._catch_up(group)
            _notify(group)

    def _not_finished(self, group: WatchGroup, error: Exception) -> None:
        if group.error is not None:
            return
        if isinstance(error, StemmaError) and not isinstance(error, LimitExceeded):
            self._evaluate_anew(group)  # what could not be read is not the fault of the watch
        else:
            self.end(group, self._reported(error), at=group.at)
            _notify(group)

    def _catch_up(self, group: WatchGroup) -> None:
        batches = self._source.batches(group.at)
        if batches is None:
            self._evaluate_anew(group)
            return
        turn = _Turn()
        for batch in batches:
            ids = self._index.concerns(group, batch.changes(group.prepared.branch))
            if ids and self._advance(group, batch, ids, turn) in (_Went.WAITS, _Went.OVER):
                return
            group.stand_at(batch.to)
            if self._is_last(group, batch):
                return
        group.stand_at(None)

    def _evaluate_anew(self, group: WatchGroup) -> None:
        self._stalled.pop(group, None)
        self._start(self._begin_again(group))

    async def _begin_again(self, group: WatchGroup) -> None:
        try:
            filled = await self.evaluate(group.prepared, group.scope)
        except Exception as error:
            self._not_begun(group, error)
            return
        if group.error is None:
            self._index.drop(group)
            self.begin(group, filled)
            _notify(group)

    def _not_begun(self, group: WatchGroup, error: Exception) -> None:
        if group.error is not None:
            return
        if isinstance(error, Unready):
            self._stalled[group] = None
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._again, group)
        else:
            self.end(group, self._reported(error), at=group.at)
            _notify(group)

    def _again(self, group: WatchGroup) -> None:
        if group in self._stalled:
            self._evaluate_anew(group)

    # ------------------------------------------------------------ errors and tasks

    def _reported(self, error: Exception) -> StemmaError:
        return error if isinstance(error, StemmaError) else internal(error, self._source.version)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            report("a watch group could not be continued", error)


def _notify(group: WatchGroup) -> None:
    for member in group.members:
        try:
            member.stepped(group)
        except Exception as error:  # a member that fails must not keep the others from being notified
            report("a member of a watch group failed", error)
