"""What a write that failed may tell: nothing of what the asker may not read (ACL-2).

Who may make a write is decided with it (ACL-1). Before that it is planned, on all there is, and a plan fails with
what it found. Here that is cut to what the asker may know. What was done before is told again in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from stemmadb.protocol.errors import (
    BranchDeleted,
    Compacted,
    Conflict,
    Erased,
    Forbidden,
    FutureVersion,
    IdentityClash,
    InvalidMerge,
    InvalidName,
    InvalidValue,
    MergeConflict,
    StemmaError,
    UnknownBranch,
    Unready,
)
from stemmadb.protocol.model.access import Role
from stemmadb.protocol.model.commit import Contested
from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.limits import Limits
from stemmadb.server.engine.paging import ITEM_BYTES, Budget, fill
from stemmadb.server.service.asking import Asker

_OWN: Final = (IdentityClash, Unready)
"""About the operation id, or about no data at all."""
_OPEN: Final = (UnknownBranch, BranchDeleted, FutureVersion, Compacted, InvalidName, InvalidValue)
"""About branches and versions, which every reader knows, or about what was sent."""


@contextmanager
def structural(asker: Asker, needs: Role) -> Iterator[None]:
    """For writes that concern every id: one who may not make them is told that and nothing else."""
    try:
        yield
    except StemmaError as error:
        if isinstance(error, (*_OWN, Forbidden)):
            raise
        if not asker.rights.has(needs):
            raise Forbidden(action="write", needs=needs) from None
        if asker.is_narrow:
            raise Forbidden(action="change branches and tags", needs=f"{needs}, for every id") from None
        raise


@contextmanager
def planned(asker: Asker, limits: Limits, named: Sequence[EntityId] = ()) -> Iterator[None]:
    """For writes whose plan finds what they write; `named` are the entities that the request names itself."""
    try:
        yield
    except StemmaError as error:
        raise _told(error, asker, limits, named) from None


def forbidden() -> Forbidden:
    """A plan would write what the asker may not: which, it is not told."""
    return Forbidden(action="write all that this would change", needs="write")


def page_of_conflicts(conflicts: Sequence[Contested], limits: Limits) -> tuple[Contested, ...]:
    """As many as one page takes."""
    page, _ = fill(enumerate(conflicts), _size, Budget(None, limits))
    return tuple(page)


def readable(conflicts: Sequence[Contested], asker: Asker) -> tuple[Contested, ...]:
    """The conflicts in what the asker may read."""
    return tuple(one for one in conflicts if asker.may_read(one.id))


def _told(error: StemmaError, asker: Asker, limits: Limits, named: Sequence[EntityId]) -> StemmaError:
    if isinstance(error, _OWN):
        return error
    if not asker.rights.has("write"):
        return Forbidden(action="write", needs="write")
    if isinstance(error, MergeConflict):
        return _merge_conflict(error, asker, limits)
    return _cut(error, asker, named) if asker.is_narrow else error


def _merge_conflict(error: MergeConflict, asker: Asker, limits: Limits) -> StemmaError:
    found = readable(error.facts["conflicts"], asker)
    return MergeConflict(count=len(found), conflicts=page_of_conflicts(found, limits)) if found else forbidden()


def _cut(error: StemmaError, asker: Asker, named: Sequence[EntityId]) -> StemmaError:
    if isinstance(error, _OPEN):
        return error
    if isinstance(error, Conflict):
        stale = tuple(one for one in error.facts["stale"] if asker.may_read(one.id))
        return Conflict(count=len(stale), stale=stale) if stale else forbidden()
    if isinstance(error, Erased) and asker.may_read(error.facts["id"]):
        return error
    if isinstance(error, InvalidMerge) and all(map(asker.may_read, named)):
        return error
    return forbidden()


def _size(conflict: Contested) -> int:
    return len(conflict.id.encode()) + len(conflict.path.encode()) + ITEM_BYTES
