"""Branches as spans of the log: which facts a point (branch, version) sees (BRANCH-1, BRANCH-2).

A branch and a past version are the same question. `draft`, forked from `main` at 10 and read at 25, sees
(draft, after 10, up to 25) and then (main, after 0, up to 10); read at 7 it sees (main, after 0, up to 7) alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from stemmadb.protocol.errors import (
    BranchDeleted,
    BranchExists,
    BranchProtected,
    FutureVersion,
    LimitExceeded,
    UnknownBranch,
)
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values import ids
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits

Branches: TypeAlias = Mapping[BranchName, BranchState]
Find: TypeAlias = Callable[[BranchName], BranchState | None]


class Span(msgspec.Struct, frozen=True):
    """The facts of one branch with `after` < version <= `upto`."""

    branch: BranchName
    after: Version
    upto: Version


def found(branches: Branches, name: BranchName) -> BranchState:
    """The branch, deleted or not; `UnknownBranch` if there never was one of that name."""
    state = branches.get(name)
    if state is None:
        raise UnknownBranch(branch=name)
    return state


def lineage(branches: Branches, name: BranchName, version: Version, head: Version | None = None) -> tuple[Span, ...]:
    """The spans of the log that the branch sees at that version, newest first; none where nothing is written yet.

    A deleted branch reads up to its deletion (BRANCH-1). Given the head of the space, a version beyond it is
    `FutureVersion`.
    """
    state = found(branches, name)
    if head is not None and version > head:
        raise FutureVersion(version=version, head=head)
    return tuple(_spans(branches, state, version))


def _spans(branches: Branches, state: BranchState, version: Version) -> Iterator[Span]:
    upto = version
    while True:
        if state.deleted is not None:
            upto = min(upto, state.deleted)
        if upto > state.fork:
            yield Span(state.name, state.fork, upto)
            upto = state.fork
        if state.parent is None:
            return
        state = found(branches, state.parent)


def visible(spans: Iterable[Span], branch: BranchName, version: Version) -> bool:
    """Whether a fact written on that branch at that version is seen (BRANCH-2)."""
    return any(span.branch == branch and span.after < version <= span.upto for span in spans)


def only_in(spans: Iterable[Span], others: Iterable[Span]) -> tuple[Span, ...]:
    """The spans that one lineage has and the other has not, newest first."""
    left = tuple(spans)
    for other in others:
        left = tuple(piece for span in left for piece in _without(span, other))
    return left


def apart(one: Iterable[Span], other: Iterable[Span]) -> tuple[Span, ...]:
    """Where one of two lineages goes its own way.

    Only entities with facts there can differ between the two states, so comparing costs what was changed and not
    what there is. Both directions count: a change that was taken back is a difference as well.
    """
    one, other = tuple(one), tuple(other)
    return only_in(one, other) + only_in(other, one)


def _without(span: Span, other: Span) -> tuple[Span, ...]:
    if span.branch != other.branch or other.upto <= span.after or span.upto <= other.after:
        return (span,)
    above = Span(span.branch, other.upto, span.upto)
    below = Span(span.branch, span.after, other.after)
    return tuple(piece for piece in (above, below) if piece.after < piece.upto)


def check_create(
    find: Find,
    name: BranchName,
    *,
    parent: BranchName,
    fork: Version,
    head: Version,
    limits: Limits = DEFAULTS,
) -> None:
    """Whether a branch can be made: a name never used, a parent that is or was there, a version that is written.

    A deleted branch can be a parent: forking only reads it (BRANCH-1).
    """
    ids.branch_name(name)
    if find(name) is not None:
        raise BranchExists(branch=name)
    above = find(parent)
    if above is None:
        raise UnknownBranch(branch=parent)
    if fork > head:
        raise FutureVersion(version=fork, head=head)
    if above.depth >= limits.branch_depth_max:
        raise LimitExceeded(bound="branch_depth_max", maximum=limits.branch_depth_max, actual=above.depth + 1)


def check_delete(find: Find, name: BranchName) -> None:
    """Whether a branch can be deleted: not `main`, and not twice (BRANCH-1)."""
    if name == MAIN:
        raise BranchProtected(branch=name)
    state = find(name)
    if state is None:
        raise UnknownBranch(branch=name)
    if state.deleted is not None:
        raise BranchDeleted(branch=name)
