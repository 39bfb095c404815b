"""Listing the entities under a prefix at a moment, in pages by id (QUERY-6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from stemmadb.protocol.model.values import ids
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.paging import ITEM_BYTES, Budget, MayRead, anything, fill
from stemmadb.server.engine.base.state_chunks import EntityStates, ids_under, scan
from stemmadb.server.engine.read.entities import HEAD, EntityValue, entity_of, is_erased, message_size, resolve_moment
from stemmadb.server.storage.port import LogReader


class _Item(NamedTuple):
    """What a page says of an id; None for an entity that was erased."""

    id: EntityId
    entity: EntityValue | None


class ListedEntity(msgspec.Struct, frozen=True):
    """A page, as of `version`, by id; `erased` are the ids among them whose values are not known any more.

    `next` is given back as `after`, with `version` as that of the moment, so that all pages have one version. A page
    can be short or empty and still have a next one: a call looks at a bounded number of ids.
    """

    version: Version
    entities: tuple[EntityValue, ...]
    erased: tuple[EntityId, ...]
    next: EntityId | None


def page(
    reader: LogReader,
    prefix: str = "",
    moment: ReadMoment = HEAD,
    *,
    after: EntityId | None = None,
    limit: int | None = None,
    may_read: MayRead = anything,
    limits: Limits = DEFAULTS,
) -> ListedEntity:
    """The next entities under the prefix; deleted ones are not there, erased ones are listed apart."""
    budget = Budget(limit, limits)
    resolved = resolve_moment(reader, moment)
    under = ids_under(reader, ids.id_prefix(prefix, limits.id_bytes_max), after)
    items, next_ = fill(_looked_at(scan(reader, [resolved.spans], under, may_read)), _size, budget)
    entities = tuple(item.entity for item in items if item.entity is not None)
    erased = tuple(item.id for item in items if item.entity is None)
    return ListedEntity(resolved.version, entities, erased, next_)


def _looked_at(seen: Iterator[EntityStates]) -> Iterator[tuple[EntityId, _Item | None]]:
    for id_, (state,) in seen:
        entity = entity_of(state)
        yield id_, _Item(id_, entity) if entity is not None or is_erased(state) else None


def _size(item: _Item) -> int:
    return len(item.id.encode()) + ITEM_BYTES if item.entity is None else message_size(item.entity)
