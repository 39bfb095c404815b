"""What became of one memory: every change with its author, its time and its note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.rules import roles
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
        entries = await memory.space.history(known.entity, order="oldest").all()
        first = entries[0].value if entries else None
        if not isinstance(first, Mapping) or roles.may_use(caller, str(first.get("ns"))):
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
