"""The decision on one entity: who changed it, and who wins if both did (MERGE-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from stemmadb.protocol.errors import Erased
from stemmadb.protocol.model import pointer
from stemmadb.protocol.model.commit import Contested, Strategy
from stemmadb.protocol.model.difference import Content, is_gone, same
from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.merge import counters
from stemmadb.protocol.model.merge.fields import ContestedPath, merge_fields
from stemmadb.protocol.model.merge.precedence import source_is_later
from stemmadb.protocol.model.merge.sides import Candidate

Winner: TypeAlias = Literal["source", "target", "both", "resolution"]
Resolutions: TypeAlias = Mapping[EntityId, Content]
"""What the caller chose for entities in conflict: a value, or `ABSENT` to delete."""


class Decision(msgspec.Struct, frozen=True):
    """What the target holds after the merge, and the conflicts that were decided for it."""

    content: Content
    conflicts: tuple[Contested, ...] = ()
    is_resolved: bool = False


def decide(entity: Candidate, strategy: Strategy, resolutions: Resolutions) -> Decision | None:
    """What becomes of an entity; None if the source brings nothing, so that the target need not be looked at."""
    if not (entity.source_changed or (entity.is_crossed and counters.has_news(entity, entity.source_stamp))):
        return None
    for side in (entity.source, entity.target):
        if is_gone(side.content):
            raise Erased(id=entity.id)
    if not (entity.target_changed or (entity.is_crossed and counters.has_news(entity, entity.target_stamp))):
        return Decision(entity.source.content)
    if same(entity.source.content, entity.target.content) and not counters.hidden_in(entity):
        return Decision(entity.target.content)
    if entity.id in resolutions:
        return Decision(resolutions[entity.id], _whole(entity, "resolution"), is_resolved=True)
    return STRATEGIES[strategy](entity)


def _by_origin(entity: Candidate) -> Decision:
    wins = source_is_later(
        entity.base_content,
        entity.source.content,
        entity.target.content,
        entity.source_stamp,
        entity.target_stamp,
    )
    return _for_source(entity) if wins else _for_target(entity)


def _for_source(entity: Candidate) -> Decision:
    return Decision(entity.source.content, _whole(entity, "source"))


def _for_target(entity: Candidate) -> Decision:
    return Decision(entity.target.content, _whole(entity, "target"))


def _by_fields(entity: Candidate) -> Decision:
    content, contested = merge_fields(entity)
    if not contested:  # different fields: both sides are kept, and the caller is still told
        return Decision(content, _whole(entity, "both"))
    return Decision(content, tuple(_contested(entity, place) for place in contested))


STRATEGIES: Final[Mapping[Strategy, Callable[[Candidate], Decision]]] = {
    "lww": _by_origin,
    "source": _for_source,
    "target": _for_target,
    "fields": _by_fields,
    "fail": _for_target,  # the target stands, since nothing is going to be written
}


def _whole(entity: Candidate, winner: Winner) -> tuple[Contested, ...]:
    return (_record(entity, pointer.ROOT, winner),)


def _contested(entity: Candidate, place: ContestedPath) -> Contested:
    return _record(entity, place.path, place.winner)


def _record(entity: Candidate, path: str, winner: Winner) -> Contested:
    return Contested(
        id=entity.id,
        path=path,
        base=None if entity.base is None else entity.base.version,
        source=entity.source.version,
        target=entity.target.version,
        winner=winner,
    )
