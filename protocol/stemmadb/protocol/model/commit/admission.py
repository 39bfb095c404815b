"""Admission: decides a batch of proposals in order, on a view and nothing else (COMMIT-2..6, COMMIT-10, COMMIT-11).

A decision has no effect. The caller appends what was accepted, tells every verdict only once that is durable, and
throws the whole decision away if the append fails (COMMIT-10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Final, Protocol, TypeAlias

import msgspec

from stemmadb.protocol.errors import Conflict, IdentityClash, Overtaken, StemmaError
from stemmadb.protocol.model.commit import declared_reads, permission, restructure, write
from stemmadb.protocol.model.commit.draft import BatchDraft
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.commit.write import WrittenHeads
from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS, Commit, Identity, LocalIdentity, sealed
from stemmadb.protocol.model.log.facts import NO_BODY, Fact, digest_of
from stemmadb.protocol.model.log.state import DecisionView, KnownCommit, NotGathered
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Did, Hash, TimeMs, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits


class ChainTip(Protocol):
    """What a record goes on from."""

    @property
    def space(self) -> Did: ...
    @property
    def hash(self) -> Hash: ...
    @property
    def time(self) -> TimeMs: ...


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The record to append, its facts, and the heads as they are after it."""

    commit: Commit
    facts: tuple[Fact, ...]
    written: WrittenHeads


class Repeated(msgspec.Struct, frozen=True):
    """It was accepted before at this version: the same answer, and nothing is written (COMMIT-5)."""

    version: Version


class RefusedCommit(msgspec.Struct, frozen=True):
    """A verdict against it. `at` is the version it was decided at; the frame that tells it reaches that far."""

    error: StemmaError
    at: Version


Outcome: TypeAlias = Accepted | Repeated | RefusedCommit
_hash_of: Final[Callable[[Fact], Hash]] = attrgetter("hash")


def decide(
    batch: Sequence[Proposal], view: DecisionView, *, now: TimeMs, salts: Iterator[bytes], limits: Limits = DEFAULTS
) -> list[Outcome]:
    """An outcome for each proposal in order, each seeing those accepted before it.

    Shorter than the batch where the view lacks something the next one needs, and after a write that changes rights,
    which hold from the next one on: the caller gathers and decides the rest again. Raises `NotGathered`, with what is
    missing, if not even the first can be decided. `salts` gives 16 random bytes at a time (FACT-2).
    """
    draft = BatchDraft(view)
    outcomes: list[Outcome] = []
    for proposal in batch:
        try:
            outcome = _decide_one(proposal, draft, now, salts, limits)
        except NotGathered:
            if not outcomes:
                raise
            break
        outcomes.append(outcome)
        if isinstance(outcome, Accepted) and permission.changes_rights(proposal, view.space):
            break
    return outcomes


def _decide_one(
    proposal: Proposal, draft: BatchDraft, now: TimeMs, salts: Iterator[bytes], limits: Limits
) -> Outcome:
    identity = proposal.identity
    try:
        if not draft.is_newest(identity):
            known = draft.accepted(identity)
            if known is not None:
                return _same_again(proposal, known)
            _check_order(identity, draft)
        if proposal.refusal is not None:
            raise proposal.refusal
        delegated = proposal.delegated
        rights = draft.delegated_rights(delegated, now) if delegated else draft.rights(identity.principal)
        permission.check(proposal, rights, draft.space)
        _check_branch(proposal, draft)
        if proposal.planned is not None:
            restructure.check_planned(proposal.planned, proposal.details, draft)
        declared_reads.check(proposal, draft, rights, limits)
        return _accept(proposal, draft, now, salts, limits)
    except StemmaError as error:
        return RefusedCommit(error.without_trace(), draft.version)


def _same_again(proposal: Proposal, known: KnownCommit) -> Repeated:
    if known.request != proposal.request:
        raise IdentityClash(local=_number(proposal.identity), version=known.version)
    return Repeated(known.version)


def _check_order(identity: Identity, draft: BatchDraft) -> None:
    """A local below the highest accepted one of its session, and not itself accepted, came too late (COMMIT-5)."""
    if isinstance(identity, LocalIdentity):
        highest = draft.highest_local(identity.principal, identity.session)
        if identity.local < highest:
            raise Overtaken(local=identity.local, highest=highest)


def _check_branch(proposal: Proposal, draft: BatchDraft) -> None:
    if proposal.branch is not None:
        branch = draft.writable_branch(proposal.branch)
        if proposal.merged is not None and branch.merged > proposal.merged:
            raise Conflict(count=1, stale=(), merged=branch.merged)
    else:
        for name in {step.branch for step in proposal.steps}:
            draft.writable_branch(name)


def _accept(proposal: Proposal, draft: BatchDraft, now: TimeMs, salts: Iterator[bytes], limits: Limits) -> Accepted:
    """Writes the facts, seals the record, and lets the rest of the batch see both."""
    details = proposal.details
    if details is not None:
        restructure.check(details, draft, limits)
    version = Version(draft.version + 1)
    facts, written = write.write(proposal.steps, draft.heads, version, proposal.identity.principal, salts, limits)
    commit = record(proposal, draft, version, now, facts, salts)
    draft.take(commit, written)
    if details is not None:
        restructure.take(details, draft, version, proposal.branch)
    return Accepted(commit, facts, written)


def record(
    proposal: Proposal,
    draft: ChainTip,
    version: Version,
    now: TimeMs,
    facts: tuple[Fact, ...],
    salts: Iterator[bytes],
) -> Commit:
    """The record with its hash. Time never goes back: a clock that does repeats the last time (COMMIT-7)."""
    note, branch, details, last = proposal.note, proposal.branch, proposal.details, draft.time
    note_salt = None if note is None else next(salts)
    # In the order of the fields: passing twelve names costs as much as a hash.
    commit = Commit(
        version,
        draft.hash,
        proposal.identity,
        now if now > last else last,
        proposal.request,
        branch,
        tuple(map(_hash_of, facts)),
        NO_BODY if note is None or note_salt is None else digest_of(note_salt, note),
        () if branch is not None else tuple(fact.branch for fact in facts),
        NO_ARGUMENTS if details is None else encode(details),
        note,
        note_salt,
    )
    return sealed(draft.space, commit)


def _number(identity: Identity) -> int | str:
    return identity.local if isinstance(identity, LocalIdentity) else identity.operation.hex()
