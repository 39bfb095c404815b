"""Making the past smaller: erasing what must not be kept, compacting what need not be (ERASE-1, COMPACT-1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stemmadb.client.reading.entries import Receipt
from stemmadb.client.reading.plain import Given, encoded_given, encoded_note
from stemmadb.client.reading.times import checked_version
from stemmadb.client.requester import Requester
from stemmadb.protocol.model.values import ids, reference
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire.messages import structure
from stemmadb.protocol.wire.version import ERASE_ENTITIES, OWES_SCRUB


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure(Receipt):
    """How many bodies were destroyed."""

    erased: int
    owes_scrub: bool = False
    """Whether files of the server hold the bytes until its operator's scrub; no answer has them (ERASE-1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction(Receipt):
    """The oldest version that can be read from now on, and what was removed."""

    floor: Version
    bodies: int
    blobs: int
    bytes: int
    owes_scrub: bool = False
    """As of an erasure."""


async def erase(
    requester: Requester,
    id_: str,
    versions: Iterable[int],
    *,
    entities: Mapping[str, Iterable[int]] | None = None,
    survivors: Mapping[str, Given] | None = None,
    blobs: Iterable[str] = (),
    note: Value = None,
) -> Erasure:
    """Destroys what an entity was at these versions, for good; needs the role `own`.

    `survivors` say what it is from now on, a value or `DELETED`, on each branch whose head is erased. `entities` are
    further ones with their versions: one write and one scrub destroy them all (ERASE-2).
    """
    limits = requester.limits
    if entities:
        requester.check_feature(ERASE_ENTITIES)
    answer = await requester.write(
        structure.EraseRequest,
        structure.EraseAnswer,
        entity=ids.entity_id(id_, limits.id_bytes_max),
        versions=tuple(map(checked_version, versions)),
        entities=tuple(
            structure.EraseTarget(
                id=ids.entity_id(other, limits.id_bytes_max), versions=tuple(map(checked_version, at))
            )
            for other, at in (entities or {}).items()
        ),
        survivors=tuple(
            structure.Survivor(branch=ids.branch_name(branch), body=encoded_given(given, limits))
            for branch, given in (survivors or {}).items()
        ),
        blobs=tuple(map(reference.read, blobs)),
        note=encoded_note(note, limits),
    )
    return Erasure(
        version=answer.version,
        time_ms=answer.time,
        hash=reference.write(answer.hash),
        erased=answer.erased,
        owes_scrub=requester.has_feature(OWES_SCRUB),
    )


async def compact(requester: Requester, floor: int, *, note: Value = None) -> Compaction:
    """Removes what no state at or above the version `floor` needs; needs the role `own`."""
    answer = await requester.write(
        structure.CompactRequest,
        structure.CompactAnswer,
        floor=checked_version(floor),
        note=encoded_note(note, requester.limits),
    )
    return Compaction(
        version=answer.version,
        time_ms=answer.time,
        hash=reference.write(answer.hash),
        floor=answer.floor,
        bodies=answer.bodies,
        blobs=answer.blobs,
        bytes=answer.bytes,
        owes_scrub=requester.has_feature(OWES_SCRUB),
    )
