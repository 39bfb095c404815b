"""Stepping watch groups from batch to batch: at once where memory has all it takes, else through a worker (WATCH-1).

A group that asks for values is behind until they were read, at the last version it knows. It then catches up with the
batches that the feed has kept; where those are gone it is evaluated anew. Nobody waits for it meanwhile.
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
from stemmadb.protocol.model.ids import EntityId, Version
from stemmadb.protocol.model.query import Prepared
from stemmadb.protocol.model.watching import Step
from stemmadb.server.engine.api import SpaceApi
from stemmadb.server.engine.reading import Entity
from stemmadb.server.service import evaluating
from stemmadb.server.service.batches import Batch
from stemmadb.server.service.evaluating import Filled, Scope
from stemmadb.server.service.group import Group, Unfinished
from stemmadb.server.service.watch_index import WatchIndex, narrowed_ids, narrowed_prefixes
from stemmadb.server.service.watch_reports import AGAIN_SECONDS, internal, report

FILLS_MAX: Final = 8
"""How often an evaluation is tried again because the log was compacted beyond what has been told."""


class Stream(Protocol):
    """The feed, as groups use it."""

    @property
    def version(self) -> Version: ...

    @property
    def kept_after(self) -> Version: ...

    def batches(self, after: Version) -> Sequence[Batch] | None: ...


class _Went(enum.Enum):
    """How a step went."""

    SAME = "the answer is what it was"
    CHANGED = "the answer changed"
    WAITS = "it waits for values"
    OVER = "it failed"


class Stepper:
    """Used from one event loop. Members are told only once all groups that could be stepped at once are."""

    def __init__(self, space: SpaceApi, stream: Stream, ended: Callable[[Group], None]) -> None:
        self._space = space
        self._stream = stream
        self._ended = ended
        self._index: WatchIndex[Group] = WatchIndex()
        self._stalled: dict[Group, None] = {}
        """Those to be evaluated anew once the storage works again: tried with the next batch."""
        self._stepped: dict[Version, WeakSet[Group]] = {}
        """Whose journals have a step to the end of which batch, as long as that batch is kept."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def evaluate(self, prepared: Prepared, scope: Scope) -> Filled:
        """The query afresh at the version told last."""
        for _ in range(FILLS_MAX):
            version, limits = self._stream.version, self._space.limits
            ask = partial(evaluating.fill, prepared=prepared, scope=scope, version=version, limits=limits)
            try:
                return await self._space.read(ask)
            except Compacted:
                continue  # the log has gone on, and what is told follows
        raise Unavailable

    def begin(self, group: Group, filled: Filled, *, keep_values: bool = False) -> None:
        """Steps the group from now on, after it has caught up with what was told since the evaluation."""
        group.begin(filled, keep_values=keep_values)
        watch, scope = filled.watch, group.scope
        # What may not be read is never there, so a change of it concerns nobody.
        ids, prefixes = narrowed_ids(watch.ids, scope), narrowed_prefixes(watch.prefixes, scope)
        self._index.add(group, group.prepared.branch, ids=ids, prefixes=prefixes)
        self._catch_up(group)

    def end(self, group: Group, error: StemmaError, *, at: Version) -> None:
        """It is over; what it told up to there stays."""
        group.error = error
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
        changed: list[Group] = []
        for group, ids in self._index.find(batch.written).items():
            if not group.is_behind and self._advance(group, batch, ids) in (_Went.CHANGED, _Went.OVER):
                changed.append(group)
        for branch in batch.deleted:
            there = [group for group in self._index.watching(branch) if not group.is_behind]
            changed.extend(group for group in there if self._is_last(group, batch))
        for group in tuple(self._stalled):
            self._evaluate_anew(group)
        for group in dict.fromkeys(changed):
            _tell(group)

    def forget(self, batch: Batch) -> None:
        """The feed keeps it no longer, and neither do the journals."""
        for group in self._stepped.pop(batch.to, ()):
            group.journal.trim(batch.to)

    def _advance(self, group: Group, batch: Batch, ids: Sequence[EntityId]) -> _Went:
        try:
            step = group.step(batch, ids)
        except Exception as error:
            self.end(group, self._told(error), at=batch.after)
            return _Went.OVER
        if isinstance(step, Unfinished):
            group.stand_at(batch.after)
            self._start(self._finish(group, batch, step))
            return _Went.WAITS
        return self._record(group, batch, step)

    def _record(self, group: Group, batch: Batch, step: Step[Entity]) -> _Went:
        watched, unwatched = narrowed_ids(step.watched, group.scope), narrowed_ids(step.unwatched, group.scope)
        self._index.change(group, watched=watched, unwatched=unwatched)
        if not group.record(batch, step):
            return _Went.SAME
        if batch.after >= self._stream.kept_after:
            self._stepped.setdefault(batch.to, WeakSet()).add(group)
        else:
            group.journal.trim(batch.to)
        return _Went.CHANGED

    def _is_last(self, group: Group, batch: Batch) -> bool:
        """Whether the branch was deleted: a watch on it ends with its last state (BRANCH-1)."""
        branch = group.prepared.branch
        if branch not in batch.deleted:
            return False
        self.end(group, BranchDeleted(branch=branch), at=batch.to)
        return True

    # ------------------------------------------------------------ behind

    async def _finish(self, group: Group, batch: Batch, step: Unfinished) -> None:
        """The rest of a step in a worker, and then what came meanwhile."""
        branch, scope = group.prepared.branch, group.scope
        rest = partial(evaluating.finish, walk=step.walk, ask=step.ask, branch=branch, version=batch.to, scope=scope)
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
            _tell(group)

    def _not_finished(self, group: Group, error: Exception) -> None:
        if group.error is not None:
            return
        if isinstance(error, StemmaError) and not isinstance(error, LimitExceeded):
            self._evaluate_anew(group)  # what could not be read is not the fault of the watch
        else:
            self.end(group, self._told(error), at=group.at)
            _tell(group)

    def _catch_up(self, group: Group) -> None:
        batches = self._stream.batches(group.at)
        if batches is None:
            self._evaluate_anew(group)
            return
        for batch in batches:
            ids = self._index.concerns(group, batch.changes(group.prepared.branch))
            if ids and self._advance(group, batch, ids) in (_Went.WAITS, _Went.OVER):
                return
            group.stand_at(batch.to)
            if self._is_last(group, batch):
                return
        group.stand_at(None)

    def _evaluate_anew(self, group: Group) -> None:
        self._stalled.pop(group, None)
        self._start(self._begin_again(group))

    async def _begin_again(self, group: Group) -> None:
        try:
            filled = await self.evaluate(group.prepared, group.scope)
        except Exception as error:
            self._not_begun(group, error)
            return
        if group.error is None:
            self._index.drop(group)
            self.begin(group, filled)
            _tell(group)

    def _not_begun(self, group: Group, error: Exception) -> None:
        if group.error is not None:
            return
        if isinstance(error, Unready):
            self._stalled[group] = None
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._again, group)
        else:
            self.end(group, self._told(error), at=group.at)
            _tell(group)

    def _again(self, group: Group) -> None:
        if group in self._stalled:
            self._evaluate_anew(group)

    # ------------------------------------------------------------ mistakes, and what runs meanwhile

    def _told(self, error: Exception) -> StemmaError:
        return error if isinstance(error, StemmaError) else internal(error, self._stream.version)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        mistake = None if task.cancelled() else task.exception()
        if isinstance(mistake, Exception):
            report("a watch group could not be gone on with", mistake)


def _tell(group: Group) -> None:
    for member in group.members:
        try:
            member.stepped(group)
        except Exception as mistake:  # one who is told must not keep the others from being told
            report("a member of a watch group made a mistake", mistake)
