"""The decision on one entity: who changed it, and who wins if both did (MERGE-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from stemmadb.protocol.errors import Compacted, Erased
from stemmadb.protocol.model.history.difference import Content, is_gone, same
from stemmadb.protocol.model.log.commit_record import Contested, Strategy
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.merge import counters
from stemmadb.protocol.model.merge.fields import merge_fields
from stemmadb.protocol.model.merge.precedence import source_is_later
from stemmadb.protocol.model.merge.report import Winner, told
from stemmadb.protocol.model.merge.sides import Candidate
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, EntityId, Version

Resolutions: TypeAlias = Mapping[EntityId, Content]
"""What the caller chose for entities in conflict: a value, or `ABSENT` to delete."""


class MergeDecision(msgspec.Struct, frozen=True):
    """What the target holds after the merge, and the conflicts that were decided for it."""

    content: Content
    conflicts: tuple[Contested, ...] = ()
    is_resolved: bool = False


def decide(
    entity: Candidate, strategy: Strategy, resolutions: Resolutions, oldest: Version = EMPTY_SPACE
) -> MergeDecision | None:
    """What becomes of an entity; None if the source brings nothing, so that the target need not be looked at."""
    if not (entity.source_changed or (entity.is_crossed and counters.has_news(entity, entity.source_stamp))):
        return None
    if is_gone(entity.source.content) or is_gone(entity.target.content):
        return _of_gone(entity, strategy, resolutions, oldest)
    if not (entity.target_changed or (entity.is_crossed and counters.has_news(entity, entity.target_stamp))):
        return MergeDecision(entity.source.content)
    if same(entity.source.content, entity.target.content) and not counters.hidden_in(entity):
        return MergeDecision(entity.target.content)
    if entity.id in resolutions:
        return MergeDecision(resolutions[entity.id], _whole(entity, "resolution"), is_resolved=True)
    return STRATEGIES[strategy](entity)


def _of_gone(entity: Candidate, strategy: Strategy, resolutions: Resolutions, oldest: Version) -> MergeDecision:
    """A side whose value is not known any more: only what does not ask for it can be decided."""
    if entity.id in resolutions:
        return MergeDecision(resolutions[entity.id], _whole(entity, "resolution"), is_resolved=True)
    if strategy == "target" and not is_gone(entity.target.content):
        return _for_target(entity)
    erased = entity.source if is_gone(entity.source.content) else entity.target
    if erased.content is Missing.COMPACTED:
        raise Compacted(version=erased.version, oldest=oldest)
    raise Erased(id=entity.id)


def _by_origin(entity: Candidate) -> MergeDecision:
    wins = source_is_later(
        entity.base_content,
        entity.source.content,
        entity.target.content,
        entity.source_stamp,
        entity.target_stamp,
        entity.is_common,
    )
    return _for_source(entity) if wins else _for_target(entity)


def _for_source(entity: Candidate) -> MergeDecision:
    return MergeDecision(entity.source.content, _whole(entity, "source"))


def _for_target(entity: Candidate) -> MergeDecision:
    return MergeDecision(entity.target.content, _whole(entity, "target"))


def _by_fields(entity: Candidate) -> MergeDecision:
    content, contested = merge_fields(entity)
    if not contested:  # different fields: both sides are kept, and the caller is still told
        return MergeDecision(content, _whole(entity, "both"))
    return MergeDecision(content, tuple(_record(entity, path, winner) for path, winner in told(contested)))


STRATEGIES: Final[Mapping[Strategy, Callable[[Candidate], MergeDecision]]] = {
    "lww": _by_origin,
    "source": _for_source,
    "target": _for_target,
    "fields": _by_fields,
    "fail": _for_target,  # the target stands, since nothing is going to be written
}


def _whole(entity: Candidate, winner: Winner) -> tuple[Contested, ...]:
    return (_record(entity, pointer.ROOT, winner),)


def _record(entity: Candidate, path: str, winner: Winner) -> Contested:
    return Contested(
        id=entity.id,
        path=path,
        base=None if entity.base is None else entity.base.version,
        source=entity.source.version,
        target=entity.target.version,
        winner=winner,
    )
