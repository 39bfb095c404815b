"""How much of each entity an answer brings: whole, a preview, or the id alone (QUERY-9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
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
_READ_PER_SENT: Final = 64
"""How many bytes are read for one that a page of previews counts: 64 MiB for a page of 1 MiB."""


def shaped(entities: Iterable[EntityValue | NamedEntity], shape: Shape) -> tuple[QueriedEntity, ...]:
    """The entities of an answer as they are sent."""
    return tuple(_shaped(shape, entity) for entity in entities)


def shaper(shape: Shape) -> Callable[[EntityValue], QueriedEntity]:
    """What makes of an entity what is sent of it."""
    return partial(_shaped, shape)


def size_in(shape: Shape) -> Callable[[EntityValue], int]:
    """What an entity counts towards the bytes of a page."""
    return message_size if shape == "whole" else _size_without_value if shape == "ids" else _size_of_preview


def _shaped(shape: Shape, entity: EntityValue | NamedEntity) -> QueriedEntity:
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
    return _size_without_value(entity) + max(min(entity.size, _PREVIEW), entity.size // _READ_PER_SENT)
