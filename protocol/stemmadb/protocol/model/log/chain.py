"""Verifying history: walks every commit and fact and names the first broken link (FACT-2, FACT-3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

import msgspec

from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.log import commit_record as commits
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.log.chain_heads import ChainHeads, MemoryHeads
from stemmadb.protocol.model.log.commit_record import (
    BranchCreate,
    BranchDelete,
    Commit,
    Compact,
    Erase,
    Identity,
    LocalIdentity,
)
from stemmadb.protocol.model.log.erased_bodies import ErasedBodies
from stemmadb.protocol.model.log.facts import NO_BODY, SALT_BYTES, Fact, digest_of
from stemmadb.protocol.model.values.ids import Did, Hash, Local, TimeMs, Version


class ChainProgress(msgspec.Struct, frozen=True):
    """How far the walk has come; the last one says what was verified in all."""

    version: Version
    hash: Hash
    facts: int


def verify(
    space: Did, history: Iterable[tuple[Commit, Sequence[Fact]]], heads: ChainHeads | None = None
) -> Iterator[ChainProgress]:
    """Yields after each commit that holds; raises `BrokenChain` at the first that does not.

    `history` is every commit of the space from version 1, each with its facts. A body that is gone is verified by its
    digest, and must be explained by a later erasure or compaction; one that is not is named at the end.
    """
    walk = _Walk(space, heads or MemoryHeads())
    for commit, its_facts in history:
        yield walk.take(commit, its_facts)
    walk.finish()


class _Walk:
    def __init__(self, space: Did, heads: ChainHeads) -> None:
        self._space = space
        self._heads = heads
        self._version = Version(0)
        self._hash = commits.genesis(space)
        self._time = TimeMs(0)
        self._facts = 0
        self._erased = ErasedBodies()
        self._highest: dict[tuple[Did, bytes], Local] = {}
        self._operations: set[Identity] = set()

    def take(self, commit: Commit, its_facts: Sequence[Fact]) -> ChainProgress:
        self._check_order(commit)
        self._check_record(commit)
        self._check_identity(commit)
        if tuple(fact.hash for fact in its_facts) != commit.facts:
            _broken(commit.version, "facts", "the facts are not the ones the commit names")
        for index, fact in enumerate(its_facts):
            self._check_fact(commit, index, fact)
        self._take_details(commit)
        self._version, self._hash, self._time = commit.version, commit.hash, commit.time
        self._facts += len(its_facts)
        return ChainProgress(self._version, self._hash, self._facts)

    def finish(self) -> None:
        if lost := self._erased.first():
            _broken(*lost, "its body is gone, and no erasure or compaction explains it")

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
        if commit.note is None and commit.note_digest != NO_BODY:
            self._erased.add(commit.version, "commit", None)

    def _check_identity(self, commit: Commit) -> None:
        """Locals rise within a session and operation ids are used once (COMMIT-5, COMMIT-11)."""
        identity = commit.identity
        if isinstance(identity, LocalIdentity):
            session = (identity.principal, identity.session)
            if identity.local <= self._highest.get(session, 0):
                _broken(commit.version, "commit", "its local does not rise within its session")
            self._highest[session] = identity.local
        elif identity in self._operations:
            _broken(commit.version, "commit", "its operation id was used before")
        else:
            self._operations.add(identity)

    def _check_fact(self, commit: Commit, index: int, fact: Fact) -> None:
        place = f"fact {index} ({fact.id})"
        branch = commit.fact_branches[index] if commit.branch is None else commit.branch
        if (fact.version, fact.index, fact.branch) != (commit.version, index, branch):
            _broken(commit.version, place, "it is filed under another version, index or branch")
        if fact.kind == "delete" and (fact.digest != NO_BODY or fact.body is not None):
            _broken(commit.version, place, "a delete has no body")
        if not _digest_holds(fact.body, fact.salt, fact.digest):
            _broken(commit.version, place, "its body does not give its digest")
        if facts.hash_fact(fact.kind, fact.id, fact.parent, fact.digest) != fact.hash:
            _broken(commit.version, place, "it does not give its hash")
        self._check_parent(commit, place, fact)
        if fact.is_gone:
            self._erased.add(commit.version, place, fact.id)
        self._heads.advance(fact)

    def _check_parent(self, commit: Commit, place: str, fact: Fact) -> None:
        head = self._heads.head(fact.branch, fact.id)
        if head is None or head.hash != fact.parent:
            _broken(commit.version, place, "its parent is not the entity's fact before it on that branch")
        if fact.kind != "set" and not head.alive:
            _broken(commit.version, place, f"a {fact.kind} needs a value, and there is none")

    def _take_details(self, commit: Commit) -> None:
        try:
            details = commit.details
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            _broken(commit.version, "commit", "its arguments cannot be read")
        if isinstance(details, BranchCreate):
            possible = 0 <= details.fork < commit.version
            if not possible or not self._heads.fork(details.name, details.parent, details.fork):
                _broken(commit.version, "commit", f"branch {details.name!r} cannot be made there")
        elif isinstance(details, BranchDelete):
            if not self._heads.close(details.name):
                _broken(commit.version, "commit", f"branch {details.name!r} cannot be deleted")
        elif isinstance(details, Erase):
            self._erased.erased(details)
        elif isinstance(details, Compact):
            self._erased.compacted(details)


def _digest_holds(body: bytes | None, salt: bytes | None, digest: Hash) -> bool:
    """A body and its salt are there or gone together; the digest of what is gone is taken on the chain's word.

    The salt has its exact length: otherwise the first bytes of a body could be moved into it unseen.
    """
    if body is None or salt is None:
        return body is None and salt is None
    return len(salt) == SALT_BYTES and digest_of(salt, body) == digest


def _broken(version: Version, place: str, why: str) -> NoReturn:
    raise BrokenChain(version=version, place=place, why=why)
