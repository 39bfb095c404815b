"""The structure of a space folded from its commits: branches, tags, the floor, erasures, last writes.

It is what a backend keeps beside the log, so that the two can be compared, and it refuses records that admission
would never have made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import msgspec

from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.log.commit_record import (
    Arguments,
    BranchCreate,
    BranchDelete,
    Commit,
    Compact,
    Erase,
    LocalIdentity,
    Merge,
    Revert,
    TagCreate,
    TagDelete,
)
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from stemmadb.server.storage.port import LogReader, StoredTag

ON_A_BRANCH = (Merge, Revert)
WITH_FACTS = (Merge, Revert, Erase, Compact)


class FoldedStructure:
    """Takes commits that the chain has passed, in order."""

    def __init__(self) -> None:
        self.branches: dict[BranchName, BranchState] = {MAIN: BranchState(name=MAIN)}
        self.tags: dict[str, StoredTag] = {}
        self.floor = Version(0)
        self.written: dict[BranchName, Version] = {}
        self.erased: dict[EntityId, set[Version]] = {}
        """The versions at which erasures took the bodies of an entity, copies included (ERASE-1)."""

    def take(self, commit: Commit, facts: Sequence[Fact]) -> None:
        details = commit.details
        _check_shape(commit, details, facts)
        if commit.branch is not None and self._is_closed(commit.branch):
            _broken(commit, f"branch {commit.branch!r} is not there, or was deleted before")
        if details is not None:
            self._check_names(commit, details)
            self._take_details(commit, details)
        for name in written_by(commit, facts):
            self.written[name] = commit.version

    def _check_names(self, commit: Commit, details: Arguments) -> None:
        """What a write names is there, and was written before it."""
        if any(not 0 <= version < commit.version for version in _versions(details)):
            _broken(commit, "it names a version that is not before it")
        for name in _branches(details):
            if name not in self.branches:
                _broken(commit, f"it names the branch {name!r}, which is not there")
        if isinstance(details, TagCreate) and details.name in self.tags:
            _broken(commit, f"tag {details.name!r} exists already")
        if isinstance(details, TagDelete) and details.name not in self.tags:
            _broken(commit, f"tag {details.name!r} is not there")

    def _take_details(self, commit: Commit, details: Arguments) -> None:
        match details:
            case BranchCreate(name=name, parent=parent, fork=fork):
                depth = self.branches[parent].depth + 1
                self.branches[name] = BranchState(name=name, parent=parent, fork=fork, depth=depth)
            case BranchDelete(name=name):
                self._mark(name, deleted=commit.version)
            case Merge():
                assert commit.branch is not None, "its shape was checked"
                self._mark(commit.branch, merged=commit.version)
            case TagCreate(name=name, branch=branch, version=version):
                self.tags[name] = StoredTag(name, branch, version)
            case TagDelete(name=name):
                del self.tags[name]
            case Compact(floor=floor):
                self.floor = max(self.floor, floor)
            case Erase():
                for entity in details.every_entity():
                    self.erased.setdefault(entity.id, set()).update(entity.versions)
            case _:
                pass

    def _is_closed(self, name: BranchName) -> bool:
        return name not in self.branches or self.branches[name].deleted is not None

    def _mark(self, name: BranchName, **marks: Version) -> None:
        self.branches[name] = msgspec.structs.replace(self.branches[name], **marks)


def written_by(commit: Commit, facts: Sequence[Fact]) -> set[BranchName]:
    """The branches that a commit was made on or wrote facts on."""
    return {fact.branch for fact in facts} | ({commit.branch} if commit.branch is not None else set())


def compare(structure: FoldedStructure, reader: LogReader) -> None:
    """`BrokenChain` unless what the log keeps beside its commits is what they lead to."""
    tip = reader.tip().version
    _same(tip, "branch", {state.name: state for state in reader.branches()}, structure.branches)
    _same(tip, "tag", {tag.name: tag for tag in reader.tags()}, structure.tags)
    if reader.floor() != structure.floor:
        raise BrokenChain(version=tip, place="floor", why="it is not the one that the compactions lead to")
    for name in structure.branches:
        if reader.branch(name) != structure.branches[name]:
            raise BrokenChain(version=tip, place=f"branch {name}", why="it is not found as the commits made it")
        if reader.last_write(name, tip) != structure.written.get(name, 0):
            raise BrokenChain(version=tip, place=f"branch {name}", why="its last write is not the one in the log")


def _same(tip: Version, what: str, stored: object, computed: object) -> None:
    assert isinstance(stored, dict)
    assert isinstance(computed, dict)
    for name in sorted(stored.keys() | computed.keys()):
        if stored.get(name) != computed.get(name):
            raise BrokenChain(version=tip, place=f"{what} {name}", why="it is not what the commits lead to")


def _check_shape(commit: Commit, details: Arguments | None, facts: Sequence[Fact]) -> None:
    """An ordinary commit has a local and a branch; others an operation id, and a branch if they write just one."""
    if isinstance(commit.identity, LocalIdentity) != (details is None):
        _broken(commit, "a commit carries a local, and every other write an operation id")
    if (commit.branch is not None) != (details is None or isinstance(details, ON_A_BRANCH)):
        _broken(commit, f"a {commit.kind} is not made on {'no branch' if commit.branch is None else 'a branch'}")
    if facts and details is not None and not isinstance(details, WITH_FACTS):
        _broken(commit, f"a {commit.kind} writes no facts")


def _versions(details: Arguments) -> tuple[Version, ...]:
    match details:
        case BranchCreate(fork=version) | TagCreate(version=version) | Compact(floor=version):
            return (version,)
        case Merge(source_version=source, target_version=target):
            return (source, target)
        case Revert(versions=versions):
            return versions
        case Erase():
            return tuple(version for entity in details.every_entity() for version in entity.versions)
        case _:
            return ()


def _branches(details: Arguments) -> tuple[BranchName, ...]:
    match details:
        case TagCreate(branch=name) | Merge(source=name):
            return (name,)
        case _:
            return ()


def _broken(commit: Commit, why: str) -> NoReturn:
    raise BrokenChain(version=commit.version, place="commit", why=why)
