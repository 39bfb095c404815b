"""What of an entity is searched. An interface that adds a searchable kind of entity adds a reader to `READERS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from stemmadb.memory.rules import ids, records
from stemmadb.memory.rules.ids import MemoryId, NamespaceHash
from stemmadb.memory.rules.records import Memory


class IndexedDocument(NamedTuple):
    """The searchable part of one state of an entity."""

    nsh: NamespaceHash
    uuid: MemoryId
    kind: str
    status: str
    authority: str
    target: str | None
    pin: bool
    created: int
    expires: int | None
    text: str
    links: Sequence[tuple[str, str]] = ()
    """Relation and uuid of the other end."""


def document_of(entity: str, value: object) -> IndexedDocument | None:
    """The document of an entity's value; None if it is deleted, or nothing that is searched."""
    reader = next((READERS[prefix] for prefix in READERS if entity.startswith(prefix)), None)
    return None if reader is None or value is None else reader(entity, value)


def is_searched(entity: str) -> bool:
    return any(entity.startswith(prefix) for prefix in READERS)


def searched_text(memory: Memory) -> str:
    """Everything that somebody may remember of it."""
    return "\n".join(part for part in (memory.title, memory.target, memory.text, memory.rationale) if part)


def _memory_document(entity: str, value: object) -> IndexedDocument | None:
    parts, memory = ids.parts_of(entity), records.memory_of(value)
    if parts is None or memory is None:
        return None
    return IndexedDocument(
        nsh=parts[0],
        uuid=parts[1],
        kind=memory.kind,
        status=memory.status,
        authority=memory.authority,
        target=memory.target,
        pin=memory.pin,
        created=memory.created_at,
        expires=memory.expires_at,
        text=searched_text(memory),
        links=[(rel, other) for rel, _, other in (name.partition(":") for name in memory.links)],
    )


READERS: Final[Mapping[str, Callable[[str, object], IndexedDocument | None]]] = {ids.MEMORIES: _memory_document}
"""By the prefix of the entity id."""
