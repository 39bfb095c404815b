"""States: entities as a lineage sees them, folded from what the log replays (COMMIT-8, HISTORY-3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from stemmadb.protocol.model.log import replay
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import EntityId, Hash, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.server.storage.port import FactPosition, LogReader, Recorded, Replay


class LoadedEntity(msgspec.Struct, frozen=True):
    """An entity at a moment, with what replaying it from the last whole value costs (SNAP-1).

    `version` is that of the last fact that changed it; `hash` and `place` are those of its last fact, checkpoints
    included.
    """

    id: EntityId
    value: Value | Missing
    version: Version
    hash: Hash
    place: FactPosition
    patches: int
    patch_bytes: int


def load(reader: LogReader, spans: Sequence[Span], ids: Iterable[EntityId]) -> dict[EntityId, LoadedEntity]:
    """Those of the entities that have a fact in the spans, deleted ones included."""
    return {id_: fold(found) for id_, found in reader.replays(spans, ids).items()}


def fold(found: Replay) -> LoadedEntity:
    """The state that a replay leads to."""
    start, rest = _beginning(found)
    last = found.facts[-1]
    patches = [fact for fact in rest if fact.kind == "patch"]
    return LoadedEntity(
        id=last.id,
        value=replay.fold(start, rest),
        version=_last_change(found.facts),
        hash=last.hash,
        place=FactPosition(last.version, last.index),
        patches=len(patches),
        patch_bytes=sum(len(fact.body or b"") for fact in patches),
    )


def _beginning(found: Replay) -> tuple[Value | Missing, Sequence[Recorded]]:
    """The last whole value there is, and the facts that follow it."""
    snapshot, facts = found.snapshot, found.facts
    for index in range(len(facts) - 1, -1, -1):
        fact = facts[index]
        if snapshot is not None and (fact.version, fact.index) == (snapshot.place.version, snapshot.place.index):
            return body.read_stored(snapshot.body), facts[index + 1 :]
        if replay.begins_here(fact):
            return Missing.ABSENT, facts[index:]
    return Missing.ABSENT, facts


def _last_change(facts: Sequence[Recorded]) -> Version:
    """A checkpoint changes nothing; a replay always has the last fact that does."""
    return next(fact.version for fact in reversed(facts) if fact.kind != "checkpoint")
