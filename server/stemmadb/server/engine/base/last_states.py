"""What state many entities have at a moment, without their values: read a chunk at a time (QUERY-9..11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.ids import EntityId, Hash, Version
from stemmadb.server.engine.base import states
from stemmadb.server.engine.base.paging import MayRead, anything
from stemmadb.server.engine.base.states import LoadedEntity
from stemmadb.server.storage.port import LastFact, LogReader, StateKind

CHUNK_FIRST: Final = 64
CHUNK: Final = 1_024


class LastState(NamedTuple):
    """The version and hash of an entity's last fact, and what it left."""

    version: Version
    hash: Hash
    state: StateKind


def scan(
    reader: LogReader, spans: Sequence[Span], ids: Iterable[EntityId], may_read: MayRead = anything
) -> Iterator[tuple[EntityId, LastState | None]]:
    """Each of the ids in the order given; None where it has no fact, or may not be read."""
    waiting, count = iter(ids), CHUNK_FIRST
    while chunk := list(islice(waiting, count)):
        found = load(reader, spans, [id_ for id_ in chunk if may_read(id_)])
        for id_ in chunk:
            yield id_, found.get(id_)
        count = CHUNK


def load(reader: LogReader, spans: Sequence[Span], ids: Sequence[EntityId]) -> dict[EntityId, LastState]:
    """Those of the entities that have a fact in the spans; only where the last facts leave it open by a replay."""
    last = reader.last_facts(spans, ids)
    open_ = [id_ for id_, fact in last.items() if fact.state is None]
    replayed = states.load(reader, spans, open_) if open_ else {}
    return {id_: _settled(fact, replayed.get(id_)) for id_, fact in last.items()}


def _settled(fact: LastFact, replayed: LoadedEntity | None) -> LastState:
    if fact.state is not None:
        return LastState(fact.version, fact.hash, fact.state)
    assert replayed is not None, "what has a last fact can be replayed"
    return LastState(fact.version, fact.hash, _kind_of(replayed))


def _kind_of(loaded: LoadedEntity) -> StateKind:
    if not isinstance(loaded.value, Missing):
        return "value"
    return "absent" if loaded.value is Missing.ABSENT else "erased"
