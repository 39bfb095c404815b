"""Many entities at one or more moments, read a chunk at a time: memory is bounded however many there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.server.engine.base import states
from stemmadb.server.engine.base.paging import MayRead, Pace, anything
from stemmadb.server.engine.base.states import LoadedEntity
from stemmadb.server.storage.port import LogReader, Replay


class EntityStates(NamedTuple):
    """An entity as each of the lineages sees it; None where it has no fact, or may not be read."""

    id: EntityId
    states: tuple[LoadedEntity | None, ...]


def scan(
    reader: LogReader, lineages: Sequence[Sequence[Span]], ids: Iterable[EntityId], may_read: MayRead = anything
) -> Iterator[EntityStates]:
    """Each of the ids in the order given; what may not be read is not even loaded."""
    pace, waiting = Pace(), iter(ids)
    while chunk := list(islice(waiting, pace.count)):
        readable = [id_ for id_ in chunk if may_read(id_)]
        sides = [reader.replays(spans, readable) for spans in lineages]
        pace.learn(sum(_weight(found) for side in sides for found in side.values()))
        for id_ in chunk:
            yield EntityStates(id_, tuple(_state(side.pop(id_, None)) for side in sides))


def ids_under(reader: LogReader, prefix: str, after: EntityId | None = None) -> Iterator[EntityId]:
    """Every id under a prefix that was ever written on any branch, in order, found as it is asked for."""
    while found := reader.ids(prefix, after, Pace.COUNT_MAX):
        yield from found
        after = found[-1]


def _state(found: Replay | None) -> LoadedEntity | None:
    return None if found is None else states.fold(found)


def _weight(found: Replay) -> int:
    snapshot = 0 if found.snapshot is None else len(found.snapshot.body)
    return snapshot + sum(len(fact.body or b"") for fact in found.facts)
