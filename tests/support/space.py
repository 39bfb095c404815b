"""A space in memory for tests: keeps what admission accepts and serves it back as a view, by obvious code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stemmadb.protocol.model.access.access_roles import OWNER, Rights
from stemmadb.protocol.model.commit import admission
from stemmadb.protocol.model.commit.admission import Accepted, Outcome
from stemmadb.protocol.model.commit.proposal import Proposal, prepare
from stemmadb.protocol.model.commit.request import Content, Operation, Read, digest_request
from stemmadb.protocol.model.log import commit_record, facts
from stemmadb.protocol.model.log.commit_record import (
    Arguments,
    BranchCreate,
    BranchDelete,
    Commit,
    Compact,
    Erase,
    Identity,
    LocalIdentity,
    Merge,
    OperationIdentity,
    Revoke,
    TagCreate,
    TagDelete,
)
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import BranchState, EntityState, KnownCommit, Missing, empty_state
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Hash, Local, TimeMs, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits

SPACE = Did("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")
ALICE = Did("did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp")
BOB = Did("did:key:z6MkjchhfUsD6mmvni8mCdXHw216Xrm9bQe2mBH1P5RDjVJG")


def session_of(name: str) -> bytes:
    return name.encode().ljust(16, b".")


def counting_salts() -> Iterator[bytes]:
    number = 0
    while True:
        number += 1
        yield number.to_bytes(16, "big")


def set_(id_: str, value: Any, *, blind: bool = False) -> Operation:
    return Operation(op="set", id=EntityId(id_), body=encode(value), blind=blind)


def patch_(id_: str, *operations: dict[str, Any], blind: bool = False) -> Operation:
    return Operation(op="patch", id=EntityId(id_), body=encode(list(operations)), blind=blind)


def delete_(id_: str, *, blind: bool = False) -> Operation:
    return Operation(op="delete", id=EntityId(id_), blind=blind)


def read_(id_: str, version: int, path: str = "", *, branch: str | None = None, through: Sequence[Any] = ()) -> Read:
    return Read(
        id=EntityId(id_),
        version=Version(version),
        path=path,
        branch=None if branch is None else BranchName(branch),
        locals=tuple(through),
    )


def prefix_(prefix: str, version: int, *, through: Sequence[Any] = ()) -> Read:
    return Read(prefix=prefix, version=Version(version), locals=tuple(through))


class MemorySpace:
    """Implements the `View` protocol on plain lists and dicts."""

    def __init__(self, limits: Limits = DEFAULTS) -> None:
        self.space = SPACE
        self.version = Version(0)
        self.hash: Hash = commit_record.genesis(SPACE)
        self.time = TimeMs(0)
        self.destroyed = Version(0)
        self.restructured = Version(0)
        self.limits = limits
        self.history: list[tuple[Commit, tuple[Fact, ...]]] = []
        self.states: dict[tuple[BranchName, EntityId], list[EntityState]] = {}
        self.branches: dict[str, BranchState] = {MAIN: BranchState(name=MAIN)}
        self.tags: dict[str, Version] = {}
        self.known: dict[Identity, KnownCommit] = {}
        self.grants: dict[Did, Rights] = {}
        self.salts = counting_salts()
        self._locals: dict[bytes, int] = {}

    # ------------------------------------------------------------ the view

    def branch(self, name: str) -> BranchState | None:
        return self.branches.get(name)

    def tag(self, name: str) -> Version | None:
        return self.tags.get(name)

    def rights(self, principal: Did) -> Rights:
        return self.grants.get(principal, OWNER)

    def revoked(self, name: Hash) -> bool:
        return any(record.details == Revoke(delegation=name) for record, _ in self.history)

    def entity(self, branch: BranchName, id_: EntityId) -> EntityState:
        return self.entity_at(branch, id_, self.version)

    def entity_at(self, branch: BranchName, id_: EntityId, upto: int) -> EntityState:
        for state in reversed(self.states.get((branch, id_), [])):
            if state.hashed <= upto:
                return state
        fork = self.branches[branch]
        if fork.parent is None:
            return empty_state(id_)
        return self.entity_at(fork.parent, id_, min(upto, fork.fork))

    def at_hand(self) -> dict[tuple[BranchName, EntityId], EntityState]:
        return {}

    def changed_under(self, branch: BranchName, prefix: str, after: Version) -> Iterable[EntityState]:
        ids = sorted({id_ for _, id_ in self.states if id_.startswith(prefix)})
        return [state for id_ in ids if (state := self.entity(branch, id_)).version > after]

    def accepted(self, identity: Identity) -> KnownCommit | None:
        return self.known.get(identity)

    def highest_local(self, principal: Did, session: bytes) -> Local:
        locals_ = [
            one.local
            for one in self.known
            if isinstance(one, LocalIdentity) and (one.principal, one.session) == (principal, session)
        ]
        return max(locals_, default=Local(0))

    # ------------------------------------------------------------ writing

    def decide(self, batch: Sequence[Proposal], *, now: int = 1_000) -> list[Outcome]:
        """Decides a batch and keeps what was accepted, as a writer does once it is durable."""
        outcomes = admission.decide(batch, self, now=TimeMs(now), salts=self.salts, limits=self.limits)
        for outcome in outcomes:
            if isinstance(outcome, Accepted):
                self._keep(outcome)
        return outcomes

    def _keep(self, accepted: Accepted) -> None:
        record = accepted.commit
        self.history.append((record, accepted.facts))
        self.version, self.hash, self.time = record.version, record.hash, record.time
        self.known[record.identity] = KnownCommit(record.version, record.request)
        for place, state in accepted.written.items():
            self.states.setdefault(place, []).append(state)
        self._restructure(record)

    def _restructure(self, record: Commit) -> None:
        if isinstance(record.details, Erase | Compact):
            self.destroyed = record.version
        elif isinstance(record.details, BranchCreate | TagCreate | Merge):
            self.restructured = record.version
        match record.details:
            case BranchCreate(name=name, parent=parent, fork=fork):
                depth = self.branches[parent].depth + 1
                self.branches[name] = BranchState(name=name, parent=parent, fork=fork, depth=depth)
            case BranchDelete(name=name):
                self._mark(name, deleted=record.version)
            case Merge():
                assert record.branch is not None
                self._mark(record.branch, merged=record.version)
            case TagCreate(name=name, version=version):
                self.tags[name] = version
            case TagDelete(name=name):
                del self.tags[name]
            case _:
                pass

    def _mark(self, name: str, *, deleted: Version | None = None, merged: Version | None = None) -> None:
        old = self.branches[name]
        self.branches[name] = BranchState(
            name=old.name,
            parent=old.parent,
            fork=old.fork,
            depth=old.depth,
            deleted=deleted or old.deleted,
            merged=merged or old.merged,
        )

    def propose(
        self,
        *operations: Operation,
        reads: Sequence[Read] = (),
        branch: str = MAIN,
        author: Did = ALICE,
        session: str = "s",
        local: int | None = None,
        note: bytes | None = None,
        nonce: bytes = b"n" * 16,
    ) -> Proposal:
        """A proposal made as a client's commit is: content encoded, digested and prepared."""
        key = session_of(session)
        if local is None:
            local = self._locals.get(key, 0) + 1
        self._locals[key] = max(local, self._locals.get(key, 0))
        content = Content(operations=operations, reads=tuple(reads), branch=BranchName(branch), note=note)
        identity = LocalIdentity(author, key, Local(local))
        return prepare(identity, digest_request(nonce, encode(content)), content, self.limits)

    def commit(self, *operations: Operation, **how: Any) -> Outcome:
        return self.decide([self.propose(*operations, **how)])[0]

    def must(self, *operations: Operation, **how: Any) -> Version:
        outcome = self.commit(*operations, **how)
        assert isinstance(outcome, Accepted), outcome
        return outcome.commit.version

    def structure(self, details: Arguments, *, author: Did = ALICE, branch: str | None = None) -> Outcome:
        return self.decide([structural(details, f"op{self.version}", author=author, branch=branch)])[0]

    def value(self, id_: str, branch: str = MAIN) -> Any:
        value = self.entity(BranchName(branch), EntityId(id_)).value
        return None if isinstance(value, Missing) else value


def structural(details: Arguments, operation: str, *, author: Did = ALICE, branch: str | None = None) -> Proposal:
    """A proposal for a branch, a tag, or another write that carries an operation id (COMMIT-11)."""
    return Proposal(
        identity=OperationIdentity(author, session_of(operation)),
        request=facts.digest_of(b"", encode(details)),
        branch=None if branch is None else BranchName(branch),
        details=details,
    )
