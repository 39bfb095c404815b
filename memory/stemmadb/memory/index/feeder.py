"""From the commits of the log to what the index keeps of them. Reads the store where a commit does not say it all.

A patch says only what changed, so its result is read from the store at that version: there is one implementation of
patches, the server's. An erasure names versions; states that were patched from an erased one are asked for as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec

from stemmadb.client import Space
from stemmadb.client.reading.entries import FactChange, LogEntry
from stemmadb.memory.index.documents import document_of, is_searched
from stemmadb.memory.index.rows import (
    DocumentState,
    ErasedVersions,
    IndexedCommit,
    NamespaceState,
    Position,
    VectorState,
)
from stemmadb.memory.rules import ids
from stemmadb.memory.rules.ids import MemoryId, NamespaceHash
from stemmadb.memory.rules.namespaces import Namespace
from stemmadb.memory.rules.records import Vector
from stemmadb.protocol.errors import Compacted, FutureVersion

T = TypeVar("T")
MAIN: Final = "main"
BATCH_COMMITS: Final = 500
READ_AT_ONCE: Final = 200

VersionsOf = Callable[[str], Awaitable[Sequence[int]]]
"""The versions at which the index has a state of an entity."""


class OtherHistory(Exception):
    """The server was restored: the log has another commit than the one that the index ends with."""


async def commits_after(
    space: Space, position: Position, versions_of: VersionsOf
) -> AsyncIterator[list[IndexedCommit]]:
    """All commits of the log after a position, in batches. A batch must be added before the next is asked for.

    `OtherHistory` if the log does not have the commit at the position.
    """
    batch: list[IndexedCommit] = []
    since, has_position = position.time or None, position.version == 0
    async for entry in space.log(branch=None, order="oldest", with_facts=True, since=since):
        if entry.version <= position.version:
            has_position = has_position or (entry.version, entry.hash) == (position.version, position.hash)
            continue
        if not has_position:
            raise OtherHistory
        if entry.kind == "erase" and batch:
            yield batch  # what it erases may be in this batch
            batch = []
        batch.append(await _indexed(space, entry, versions_of))
        if len(batch) >= BATCH_COMMITS:
            yield batch
            batch = []
    if batch:
        yield batch


async def is_of_this_log(space: Space, position: Position) -> bool:
    """Whether the log still has the commit that the index ends with; a restored server may have another there."""
    if position.version == 0:
        return True
    try:
        found = await space.log(branch=None, version=position.version).first()
    except FutureVersion:
        return False
    return found is not None and (found.version, found.hash) == (position.version, position.hash)


async def _indexed(space: Space, entry: LogEntry, versions_of: VersionsOf) -> IndexedCommit:
    changes = [change for change in entry.changes if change.branch == MAIN and _is_kept(change.id)]
    values = await _values(space, entry.version, changes)
    return IndexedCommit(
        entry.version,
        entry.time_ms,
        entry.hash,
        states=[DocumentState(id_, document_of(id_, value)) for id_, value in values.items() if is_searched(id_)],
        namespaces=[_namespace(id_, value) for id_, value in values.items() if id_.startswith(ids.NAMESPACES)],
        vectors=[one for id_, value in values.items() if (one := _vector(id_, value)) is not None],
        erased=[await _erased(space, id_, at, versions_of) for id_, at in _erasures(entry) if _is_kept(id_)],
    )


def _is_kept(entity: str) -> bool:
    return is_searched(entity) or entity.startswith((ids.NAMESPACES, ids.VECTORS))


async def _values(space: Space, version: int, changes: Sequence[FactChange]) -> dict[str, object]:
    """What each entity is after the commit; the last fact of an entity counts."""
    values: dict[str, object] = {}
    patched: set[str] = set()
    for change in changes:
        if change.kind == "patch":
            patched.add(change.id)
        else:
            patched.discard(change.id)
        values[change.id] = None if change.gone else change.value
    if patched:
        values |= dict.fromkeys(patched) | await _values_at(space, version, sorted(patched))
    return values


async def _values_at(space: Space, version: int, entities: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for start in range(0, len(entities), READ_AT_ONCE):
        some = entities[start : start + READ_AT_ONCE]
        try:
            found |= await space.at(version=version).query(some)
        except Compacted as gone:  # nobody can read that version; the oldest one that can be read has what it led to
            found |= await space.at(version=gone.facts["oldest"]).query(some)
    return found


class _ErasedEntity(msgspec.Struct):
    id: str
    versions: list[int]


class _Erasure(_ErasedEntity):
    """What the record of an erasure says (ERASE-2)."""

    entities: list[_ErasedEntity] = []


def _erasures(entry: LogEntry) -> Sequence[tuple[str, Sequence[int]]]:
    if entry.kind != "erase":
        return ()
    erasure = msgspec.convert(entry.details, _Erasure)
    return [(one.id, one.versions) for one in (erasure, *erasure.entities)]


async def _erased(space: Space, entity: str, named: Sequence[int], versions_of: VersionsOf) -> ErasedVersions:
    others = [version for version in await versions_of(entity) if version not in set(named)]
    tainted = [version for version in others if entity not in await _values_at(space, version, [entity])]
    return ErasedVersions(entity, [*named, *tainted])


def _namespace(entity: str, value: object) -> NamespaceState:
    nsh = NamespaceHash(entity.removeprefix(ids.NAMESPACES))
    return NamespaceState(nsh, None if value is None else _converted(value, Namespace))


def _vector(entity: str, value: object) -> VectorState | None:
    if not entity.startswith(ids.VECTORS):
        return None
    parts = ids.parts_of(ids.MEMORIES + entity.removeprefix(ids.VECTORS))
    if parts is None:
        return None
    return VectorState(parts[0], MemoryId(parts[1]), None if value is None else _converted(value, Vector))


def _converted(value: object, kind: type[T]) -> T | None:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None
