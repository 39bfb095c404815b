"""Redaction: the error of a failed write says nothing about what the caller may not read (ACL-2).

Whether the caller may write is decided with the write (ACL-1). Before that the write is planned on the whole space,
and a plan fails with whatever it found. Here that error is reduced to what the caller may know. A repeated request
gets its earlier result in any case.
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
from stemmadb.protocol.model.access.access_roles import Role
from stemmadb.protocol.model.log.commit_record import Contested
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.paging import ITEM_BYTES, Budget, fill
from stemmadb.server.service.base.request_context import Caller

_OWN: Final = (IdentityClash, Unready)
"""About the operation id, or about no data at all."""
_OPEN: Final = (UnknownBranch, BranchDeleted, FutureVersion, Compacted, InvalidName, InvalidValue)
"""About branches and versions, which every reader knows, or about what was sent."""


@contextmanager
def structural(caller: Caller, needs: Role) -> Iterator[None]:
    """For writes that concern every id: a caller that may not make them learns that and nothing else."""
    try:
        yield
    except StemmaError as error:
        if isinstance(error, (*_OWN, Forbidden)):
            raise
        if not caller.rights.has(needs):
            raise Forbidden(action="write", needs=needs) from None
        if caller.is_narrow:
            raise Forbidden(action="change branches and tags", needs=f"{needs}, for every id") from None
        raise


@contextmanager
def planned(
    caller: Caller, limits: Limits, named: Sequence[EntityId] = (), *, needs: Role = "write"
) -> Iterator[None]:
    """For writes whose plan finds what they write; `named` are the entities that the request names itself."""
    try:
        yield
    except StemmaError as error:
        raise _redacted(error, caller, limits, named, needs) from None


def forbidden() -> Forbidden:
    """A plan would write what the caller may not; the error does not say which ids."""
    return Forbidden(action="write all that this would change", needs="write")


def page_of_conflicts(conflicts: Sequence[Contested], limits: Limits) -> tuple[Contested, ...]:
    """As many as one page takes."""
    page, _ = fill(enumerate(conflicts), _size, Budget(None, limits))
    return tuple(page)


def readable(conflicts: Sequence[Contested], caller: Caller) -> tuple[Contested, ...]:
    """The conflicts in what the caller may read."""
    return tuple(one for one in conflicts if caller.may_read(one.id))


def _redacted(
    error: StemmaError, caller: Caller, limits: Limits, named: Sequence[EntityId], needs: Role
) -> StemmaError:
    if isinstance(error, _OWN):
        return error
    if not caller.rights.has(needs):
        return Forbidden(action=needs, needs=needs)
    if isinstance(error, MergeConflict):
        return _merge_conflict(error, caller, limits)
    return _redacted_for_narrow(error, caller, named) if caller.is_narrow else error


def _merge_conflict(error: MergeConflict, caller: Caller, limits: Limits) -> StemmaError:
    found = readable(error.facts["conflicts"], caller)
    return MergeConflict(count=len(found), conflicts=page_of_conflicts(found, limits)) if found else forbidden()


def _redacted_for_narrow(error: StemmaError, caller: Caller, named: Sequence[EntityId]) -> StemmaError:
    if isinstance(error, _OPEN):
        return error
    if isinstance(error, Conflict):
        stale = tuple(one for one in error.facts["stale"] if caller.may_read(one.id))
        return Conflict(count=len(stale), stale=stale) if stale else forbidden()
    if isinstance(error, Erased) and caller.may_read(error.facts["id"]):
        return error
    if isinstance(error, InvalidMerge) and all(map(caller.may_read, named)):
        return error
    return forbidden()


def _size(conflict: Contested) -> int:
    return len(conflict.id.encode()) + len(conflict.path.encode()) + ITEM_BYTES
