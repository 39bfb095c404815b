"""Evaluating watches on the log, in workers: the first answer, the rest of a step, what lies between versions.

All of it is as of a named version, on whatever later read view it is read from; what was erased since is not there.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from functools import partial
from typing import TypeAlias, TypeVar

import msgspec

from stemmadb.protocol.errors import BranchDeleted, Compacted, UnknownBranch
from stemmadb.protocol.model.query.query import Ask, Prepared, Start, Supply, TraversalResult, listed
from stemmadb.protocol.model.query.traversal import traverse
from stemmadb.protocol.model.schema import WorkBudget
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.model.watch import WatchEvaluator, WatchStep
from stemmadb.server.engine.base.moments import ReadMoment, ResolvedMoment
from stemmadb.server.engine.base.paging import MayRead
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.engine.base.state_chunks import scan
from stemmadb.server.engine.read.entities import EntityValue, entity_of, is_erased, resolve_moment
from stemmadb.server.engine.read.store_queries import Supplied
from stemmadb.server.service.watch.watch_journal import NOTHING, Delta
from stemmadb.server.storage.port import LogReader

Scope: TypeAlias = tuple[str, ...]
"""The beginnings of the ids that may be read; `access.EVERY_ID` is everything, and none is nothing."""

Walk: TypeAlias = Generator[Ask, Supply[EntityValue], WatchStep[EntityValue]]
T = TypeVar("T")


def may_read(scope: Scope) -> MayRead:
    """What is out of scope looks like what is missing (ACL-2)."""
    return lambda id_: id_.startswith(scope)


# ---------------------------------------------------------------- on a read view, in a worker


class Filled(msgspec.Struct, frozen=True):
    """A watch that goes on from `version`, and the values of its answer."""

    version: Version
    watch: WatchEvaluator[EntityValue]
    entities: dict[EntityId, EntityValue]
    size: int
    """The bytes of those values."""


def fill(
    reader: LogReader,
    prepared: Prepared,
    scope: Scope,
    *,
    version: Version,
    limits: Limits,
    budget: WorkBudget | None = None,
) -> Filled:
    """A new watch, from its query afresh; `BranchDeleted` if the branch goes on no more, compacted or not."""
    branch = reader.branch(prepared.branch)
    if branch is not None and branch.deleted is not None and branch.deleted <= version:
        raise BranchDeleted(branch=prepared.branch)
    resolved = _resolve(reader, prepared.branch, version)
    watch: WatchEvaluator[EntityValue] = WatchEvaluator(prepared, limits=limits)
    walk = watch.fill(budget)
    answer: TraversalResult[EntityValue] = _feed(walk, next(walk), reader, resolved, scope)
    return Filled(version, watch, answer.entities, sum(entity.size for entity in answer.entities.values()))


def finish(
    reader: LogReader, walk: Walk, ask: Ask, *, branch: BranchName, version: Version, scope: Scope
) -> WatchStep[EntityValue]:
    """The rest of a step that asks for values, which are those after it."""
    return _feed(walk, ask, reader, _resolve(reader, branch, version), scope)


def compare(
    reader: LogReader, prepared: Prepared, scope: Scope, *, after: Version, to: Version | None, limits: Limits
) -> tuple[Version, Delta]:
    """See `difference`. Without a schema each entity is in the answer by itself: only what changed is looked at."""
    version = reader.tip().version if to is None else to
    prepared = _changed(reader, prepared, after=after, to=version, count_max=limits.query_entities_max) or prepared
    if not prepared.starts:
        return version, NOTHING
    answer = partial(_answer, reader, prepared, scope, limits=limits)
    # The values of the first are let go at once.
    before = {id_: entity.hash for id_, entity in answer(after, supplied=Unerased).items()}
    return version, _delta(before, answer(version))


def _changed(
    reader: LogReader, prepared: Prepared, *, after: Version, to: Version, count_max: int
) -> Prepared | None:
    """The same query, asked of what was written since and of what it names; None if it follows links or that is much.

    Time then follows what changed, and not what is watched (RESUME-1).
    """
    if prepared.window is not None or any(start.conjuncts is not None for start in prepared.starts):
        return None
    _resolve(reader, prepared.branch, after)  # raises if that version cannot be read any more
    spans = _resolve(reader, prepared.branch, to).spans
    written: dict[EntityId, None] = {}
    for prefix in prepared.prefixes():
        written |= dict.fromkeys(reader.changed_after(spans, prefix, after, count_max + 1))
    if len(written) > count_max:
        return None
    listed_ = [visit for id_ in written for visit in listed(prepared.listings(), id_)]
    starts = (Start(visit.id, False, visit.path, None) for visit in (*prepared.named(), *listed_))
    return Prepared(tuple(starts), prepared.branch, prepared.version, prepared.time, prepared.space)


class Unerased(Supplied):
    """Gives what a client was sent back then. What was erased since is not known any more, and the client may still
    have it: it has to start over, as if that version had been compacted away.
    """

    def _entities(self, ids: Iterable[EntityId]) -> Iterator[EntityValue]:
        for _, (state,) in scan(self._reader, [self._moment.spans], ids, self._may_read):
            if is_erased(state):
                raise Compacted(version=self._moment.version, oldest=self._reader.tip().version)
            if (entity := entity_of(state)) is not None:
                yield entity


def _delta(before: dict[EntityId, Hash], now: dict[EntityId, EntityValue]) -> Delta:
    return Delta(
        entered={id_: entity for id_, entity in now.items() if id_ not in before},
        updated={id_: entity for id_, entity in now.items() if before.get(id_, entity.hash) != entity.hash},
        left=frozenset(before.keys() - now.keys()),
    )


def _answer(
    reader: LogReader,
    prepared: Prepared,
    scope: Scope,
    version: Version,
    *,
    limits: Limits,
    supplied: type[Supplied] = Supplied,
) -> dict[EntityId, EntityValue]:
    walk: Generator[Ask, Supply[EntityValue], TraversalResult[EntityValue]] = traverse(prepared, limits=limits)
    return _feed(walk, next(walk), reader, _resolve(reader, prepared.branch, version), scope, supplied).entities


def _feed(
    walk: Generator[Ask, Supply[EntityValue], T],
    ask: Ask,
    reader: LogReader,
    resolved: ResolvedMoment,
    scope: Scope,
    supplied: type[Supplied] = Supplied,
) -> T:
    while True:
        try:
            ask = walk.send(supplied(reader, resolved, ask, may_read(scope)))
        except StopIteration as end:
            result: T = end.value
            return result


def _resolve(reader: LogReader, branch: BranchName, version: Version) -> ResolvedMoment:
    """As of a version at which the branch is there: one that was made later is not known yet."""
    resolved = resolve_moment(reader, ReadMoment(branch, version))
    state = reader.branch(branch)
    if state is None or state.fork > version:
        raise UnknownBranch(branch=branch)
    return resolved


# ---------------------------------------------------------------- from the event loop


async def difference(
    space: SpaceApi, prepared: Prepared, scope: Scope, *, after: Version, to: Version | None, limits: Limits
) -> tuple[Version, Delta]:
    """The net change of an answer, by evaluating it at both versions on one read view; without `to` it is the head.

    For a session that comes back or was too slow, where no journal reaches back (SYNC-6, RESUME-1). `updated` is
    what has another last fact. `Compacted` below the floor; `LimitExceeded` if one of the answers passes a bound.
    """
    return await space.read(
        lambda reader: compare(reader, prepared, scope, after=after, to=to, limits=limits),
    )


async def values(
    space: SpaceApi, branch: BranchName, ids: Iterable[EntityId], version: Version, scope: Scope
) -> dict[EntityId, EntityValue]:
    """The entities as of a version; those that are not there, or may not be read, are left out."""
    wanted = tuple(dict.fromkeys(ids))

    def ask(reader: LogReader) -> dict[EntityId, EntityValue]:
        seen = scan(reader, [_resolve(reader, branch, version).spans], wanted, may_read(scope))
        return {id_: entity for id_, (state,) in seen if (entity := entity_of(state)) is not None}

    return await space.read(ask)
