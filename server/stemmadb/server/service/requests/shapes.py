"""How much of each entity an answer brings: whole, a preview, or the id alone (QUERY-9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from stemmadb.protocol.model.query import preview
from stemmadb.protocol.model.query.preview import OMITTED_BYTES_MAX, PREVIEW_BYTES_MAX
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.wire.messages.reading import QueriedEntity, Shape
from stemmadb.server.engine.base.paging import ITEM_BYTES
from stemmadb.server.engine.read.entities import EntityValue, message_size
from stemmadb.server.engine.read.id_pages import NamedEntity

_PREVIEW: Final = 2 * PREVIEW_BYTES_MAX + OMITTED_BYTES_MAX
"""What a preview takes at most, in either encoding."""


def shaped(entities: Iterable[EntityValue | NamedEntity], shape: Shape) -> tuple[QueriedEntity, ...]:
    """The entities of an answer as they are sent."""
    return tuple(_shaped(entity, shape) for entity in entities)


def size_in(shape: Shape) -> Callable[[EntityValue], int]:
    """What an entity takes in a message."""
    return message_size if shape == "whole" else _size_without_value if shape == "ids" else _size_of_preview


def _shaped(entity: EntityValue | NamedEntity, shape: Shape) -> QueriedEntity:
    if shape == "ids" or isinstance(entity, NamedEntity):
        return QueriedEntity(id=entity.id, version=entity.version, hash=entity.hash)
    if shape == "whole":
        return QueriedEntity(id=entity.id, version=entity.version, hash=entity.hash, body=entity.body)
    shown = preview.preview(entity.value)
    return QueriedEntity(
        id=entity.id,
        version=entity.version,
        hash=entity.hash,
        body=encode(shown.value) if shown.has_value else None,
        truncated=shown.truncated,
        size=shown.size if shown.truncated else None,
        omitted=shown.omitted,
    )


def _size_without_value(entity: EntityValue) -> int:
    return len(entity.id.encode()) + ITEM_BYTES


def _size_of_preview(entity: EntityValue) -> int:
    return _size_without_value(entity) + min(entity.size, _PREVIEW)
