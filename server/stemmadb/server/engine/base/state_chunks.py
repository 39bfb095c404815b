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
    pace, waiting, rest = Pace(), iter(ids), list[EntityId]()
    while chunk := [*rest, *islice(waiting, max(0, pace.count - len(rest)))]:
        readable = [id_ for id_ in chunk if may_read(id_)]
        sides, unread = list[dict[EntityId, Replay]](), frozenset[EntityId]()
        for spans in lineages:
            side = reader.replays_upto(spans, readable, Pace.READ_MAX)
            sides.append(side.found)
            unread |= frozenset(side.unread)
            readable = [id_ for id_ in readable if id_ not in unread]
        pace.learn(sum(found.weight for side in sides for found in side.values()))
        end = next((at for at, id_ in enumerate(chunk) if id_ in unread), len(chunk))
        chunk, rest = chunk[:end], chunk[end:]
        for id_ in chunk:
            yield EntityStates(id_, tuple(_state(side.pop(id_, None)) for side in sides))


def ids_under(reader: LogReader, prefix: str, after: EntityId | None = None) -> Iterator[EntityId]:
    """Every id under a prefix that was ever written on any branch, in order, found as it is asked for."""
    while found := reader.ids(prefix, after, Pace.COUNT_MAX):
        yield from found
        after = found[-1]


def _state(found: Replay | None) -> LoadedEntity | None:
    return None if found is None else states.fold(found)
