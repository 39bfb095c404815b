"""What of an entity is searched. An interface that adds a searchable kind of entity adds a reader to `READERS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from stemmadb.memory.rules import ids, proposals, records
from stemmadb.memory.rules.ids import MemoryId, NamespaceHash
from stemmadb.memory.rules.records import Memory

PROPOSAL: Final = "proposal"
"""The kind of a proposal in the index; memories have kinds of their own."""


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
    parts = (memory.title, memory.target, memory.text, memory.rationale, *memory.consequences)
    return "\n".join(part for part in parts if part)


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


def _proposal_document(entity: str, value: object) -> IndexedDocument | None:
    parts, proposal = ids.proposal_parts_of(entity), proposals.proposal_of(value)
    if parts is None or proposal is None:
        return None
    said = (proposal.title, proposal.target, proposal.rationale, *proposal.consequences)
    return IndexedDocument(
        nsh=parts[0],
        uuid=parts[1],
        kind=PROPOSAL,
        status=proposal.status,
        authority=proposal.author_kind,
        target=None,  # only memories hold a target
        pin=False,
        created=proposal.created_at,
        expires=None,
        text="\n".join(said),
    )


READERS: Final[Mapping[str, Callable[[str, object], IndexedDocument | None]]] = {
    ids.MEMORIES: _memory_document,
    ids.PROPOSALS: _proposal_document,
}
"""By the prefix of the entity id."""
