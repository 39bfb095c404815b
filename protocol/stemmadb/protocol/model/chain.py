"""Verifying history: walks every commit and fact and names the first broken link (FACT-2, FACT-3)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn, Protocol

import msgspec

from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model import commit as commits
from stemmadb.protocol.model import facts
from stemmadb.protocol.model.commit import BranchCreate, Commit
from stemmadb.protocol.model.facts import NO_BODY, Fact, digest_of
from stemmadb.protocol.model.ids import MAIN, BranchName, Did, EntityId, Hash, TimeMs, Version


class Heads(Protocol):
    """The last fact of each entity on each branch, seen through fork points, as the walk goes on."""

    def parent(self, branch: BranchName, id_: EntityId) -> Hash | None:
        """The hash a new fact must name; None if there is no such branch."""
        ...

    def advance(self, fact: Fact) -> None: ...

    def fork(self, name: BranchName, parent: BranchName, at: Version) -> bool:
        """Whether the branch can be made: its name is new and its parent is there."""
        ...


class Progress(msgspec.Struct, frozen=True):
    """How far the walk has come; the last one says what was verified in all."""

    version: Version
    hash: Hash
    facts: int


def verify(
    space: Did, history: Iterable[tuple[Commit, Sequence[Fact]]], heads: Heads | None = None
) -> Iterator[Progress]:
    """Yields after each commit that holds; raises `BrokenChain` at the first that does not.

    `history` is every commit of the space from version 1, each with its facts. Bodies that are gone are verified by
    their digests.
    """
    walk = _Walk(space, heads or MemoryHeads())
    for commit, its_facts in history:
        yield walk.take(commit, its_facts)


class _Walk:
    def __init__(self, space: Did, heads: Heads) -> None:
        self._space = space
        self._heads = heads
        self._version = Version(0)
        self._hash = commits.genesis(space)
        self._time = TimeMs(0)
        self._facts = 0

    def take(self, commit: Commit, its_facts: Sequence[Fact]) -> Progress:
        self._check_order(commit)
        self._check_record(commit)
        if tuple(fact.hash for fact in its_facts) != commit.facts:
            _broken(commit.version, "facts", "the facts are not the ones the commit names")
        for index, fact in enumerate(its_facts):
            self._check_fact(commit, index, fact)
        self._check_branching(commit)
        self._version, self._hash, self._time = commit.version, commit.hash, commit.time
        self._facts += len(its_facts)
        return Progress(self._version, self._hash, self._facts)

    def _check_order(self, commit: Commit) -> None:
        if commit.version != self._version + 1:
            _broken(Version(self._version + 1), "commit", f"it is missing; version {commit.version} comes instead")
        if commit.previous != self._hash:
            _broken(commit.version, "commit", "it does not follow the commit before it")
        if commit.time < self._time:
            _broken(commit.version, "commit", "its time is before the time of the commit before it")

    def _check_record(self, commit: Commit) -> None:
        if not _digest_holds(commit.note, commit.note_salt, commit.note_digest):
            _broken(commit.version, "commit", "its message and metadata do not give their digest")
        if commits.hash_commit(self._space, commit) != commit.hash:
            _broken(commit.version, "commit", "the record does not give its hash")
        if len(commit.fact_branches) != (0 if commit.branch is not None else len(commit.facts)):
            _broken(commit.version, "commit", "it does not say on which branch each fact is")

    def _check_fact(self, commit: Commit, index: int, fact: Fact) -> None:
        place = f"fact {index} ({fact.id})"
        branch = commit.fact_branches[index] if commit.branch is None else commit.branch
        if (fact.version, fact.index, fact.branch) != (commit.version, index, branch):
            _broken(commit.version, place, "it is filed under another version, index or branch")
        if fact.kind == "delete" and fact.digest != NO_BODY:
            _broken(commit.version, place, "a delete has no body")
        if not _digest_holds(fact.body, fact.salt, fact.digest):
            _broken(commit.version, place, "its body does not give its digest")
        if facts.hash_fact(fact.kind, fact.id, fact.parent, fact.digest) != fact.hash:
            _broken(commit.version, place, "it does not give its hash")
        if self._heads.parent(fact.branch, fact.id) != fact.parent:
            _broken(commit.version, place, "its parent is not the entity's fact before it on that branch")
        self._heads.advance(fact)

    def _check_branching(self, commit: Commit) -> None:
        try:
            details = commit.details
        except msgspec.DecodeError:
            _broken(commit.version, "commit", "its arguments cannot be read")
        if isinstance(details, BranchCreate) and not self._heads.fork(details.name, details.parent, details.fork):
            _broken(commit.version, "commit", f"branch {details.name!r} exists, or forks from one that does not")


def _digest_holds(body: bytes | None, salt: bytes | None, digest: Hash) -> bool:
    """A body and its salt are there or gone together; the digest of what is gone is taken on the chain's word."""
    if body is None or salt is None:
        return body is None and salt is None
    return digest_of(salt, body) == digest


def _broken(version: Version, place: str, why: str) -> NoReturn:
    raise BrokenChain(version=version, place=place, why=why)


class MemoryHeads:
    """Heads kept in memory: every fact's hash, since a branch may fork at any past version."""

    def __init__(self) -> None:
        self._hashes: dict[tuple[BranchName, EntityId], list[tuple[Version, Hash]]] = {}
        self._forks: dict[BranchName, tuple[BranchName, Version] | None] = {MAIN: None}

    def parent(self, branch: BranchName, id_: EntityId) -> Hash | None:
        name, upto = branch, None
        while name in self._forks:
            known = self._hashes.get((name, id_), [])
            at = len(known) if upto is None else bisect_right(known, upto, key=lambda pair: pair[0])
            if at:
                return known[at - 1][1]
            fork = self._forks[name]
            if fork is None:
                return facts.empty(id_)
            name, upto = fork[0], fork[1] if upto is None else min(upto, fork[1])
        return None

    def advance(self, fact: Fact) -> None:
        self._hashes.setdefault((fact.branch, fact.id), []).append((fact.version, fact.hash))

    def fork(self, name: BranchName, parent: BranchName, at: Version) -> bool:
        if name in self._forks or parent not in self._forks:
            return False
        self._forks[name] = (parent, at)
        return True
