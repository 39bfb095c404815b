"""Whether a merge can be asked for at all: its branches, its version and its strategy (MERGE-1, MERGE-3)."""

from __future__ import annotations

from stemmadb.protocol.errors import BranchDeleted, FutureVersion, InvalidMerge, UnknownBranch
from stemmadb.protocol.model.log.branch_spans import Find
from stemmadb.protocol.model.log.commit_record import Strategy
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.merge.decide import STRATEGIES
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import BranchName, Version


def check_merge(
    find: Find, *, source: BranchName, source_version: Version, target: BranchName, head: Version
) -> None:
    """The source may be deleted, the target may not, and they are two branches (BRANCH-1)."""
    _found(find, source)
    if _found(find, target).deleted is not None:
        raise BranchDeleted(branch=target)
    if source == target:
        raise InvalidMerge(why=f"{target!r} cannot be merged into itself")
    if source_version > head:
        raise FutureVersion(version=source_version, head=head)


def check_strategy(strategy: object) -> Strategy:
    """The strategy, known to be one."""
    for known in STRATEGIES:
        if strategy == known:
            return known
    shown = pointer.shown(strategy) if isinstance(strategy, str) else type(strategy).__name__
    raise InvalidMerge(why=f"there is no strategy {shown!r}; use one of {', '.join(STRATEGIES)}")


def _found(find: Find, name: BranchName) -> BranchState:
    state = find(name)
    if state is None:
        raise UnknownBranch(branch=name)
    return state
