"""What became of one memory: every change with its author, its time and its note."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.rules import ids, roles
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.refusals import NoSuchMemory
from stemmadb.memory.rules.roles import MemoryCaller


class MemoryChange(NamedTuple):
    """One change. `value` is what it set, `patch` what it changed; neither where it was erased or deleted."""

    version: int
    time: Millis
    author: str
    session: str | None
    kind: str
    value: object
    patch: object
    note: object
    is_gone: bool
    hash: str


async def history(memory: MemorySpace, caller: MemoryCaller, uuid: MemoryId) -> Sequence[MemoryChange]:
    """Oldest first; also of a memory that was deleted. `NoSuchMemory` if the index never saw it, or it was erased."""
    await memory.index.reach()
    for known in await memory.index.find(uuid):
        parts = ids.parts_of(known.entity) or ids.proposal_parts_of(known.entity)
        if parts is not None and roles.may_use_hash(caller, parts[0]):  # by the id: values may be gone
            entries = await memory.space.history(known.entity, order="oldest").all()
            return [
                MemoryChange(
                    version=entry.version,
                    time=Millis(entry.time_ms),
                    author=entry.author,
                    session=None if entry.session is None else entry.session.hex(),
                    kind=entry.kind,
                    value=entry.value,
                    patch=entry.patch,
                    note=entry.note,
                    is_gone=entry.gone,
                    hash=entry.hash,
                )
                for entry in entries
            ]
    raise NoSuchMemory(uuid)
