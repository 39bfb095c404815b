"""Fast-path commits, decided in one go: the way of nearly every write (COMMIT-2..6).

A fast-path commit is the next of its session, on main, by a principal that may write every id; it sets, patches or
deletes, and its declared reads are of single ids, through no other commit, and hold. Looking at the heads is then all
it takes. Its facts and its record are made as `admission.decide` makes them; what is anything else, or is not
accepted, is left to that, so that it may say why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit import admission, write
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.commit.request import Read
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.log.state import EntityState
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Hash, Local, TimeMs, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits

Key: TypeAlias = tuple[BranchName, EntityId]
Session: TypeAlias = tuple[Did, bytes]
_WRITERS: Final = ("write", "own")


class BatchBase(msgspec.Struct, gc=False):
    """The state that fast-path commits are decided on, which goes on with each that is accepted. It belongs to one
    batch.

    `heads` are of main and must have all that the batch names, and the access list; `highest` must have its sessions.
    """

    space: Did
    version: Version
    hash: Hash
    time: TimeMs
    heads: dict[Key, EntityState]
    highest: dict[Session, Local]

    @property
    def roles(self) -> object:
        """The access list, as it was before: no fast-path commit changes it."""
        return self.heads[MAIN, EntityId(self.space)].value


def decide(
    batch: Sequence[Proposal], base: BatchBase, *, now: TimeMs, salts: Iterator[bytes], limits: Limits = DEFAULTS
) -> list[Accepted] | None:
    """All of them accepted, in order; None if one of them is not a fast-path commit, and the base must then be
    dropped.
    """
    accepted: list[Accepted] = []
    roles = base.roles
    if not isinstance(roles, dict):
        return None
    for proposal in batch:
        if not _is_fast_path(proposal, base) or not _may_be_accepted(proposal, base, roles):
            return None
        if not _holds(proposal.reads, base):
            return None
        try:
            accepted.append(_accept(proposal, base, now, salts, limits))
        except StemmaError:  # a patch that does not fit
            return None
    return accepted


def _is_fast_path(proposal: Proposal, base: BatchBase) -> bool:
    if proposal.branch != MAIN or proposal.details is not None or proposal.refusal is not None:
        return False
    if proposal.delegated or proposal.planned is not None or proposal.merged is not None:
        return False
    space: str = base.space
    for step in proposal.steps:  # noqa: SIM110  # asked of every write, and `all` takes several times as long
        if step.id == space:
            return False
    return True


def _may_be_accepted(proposal: Proposal, base: BatchBase, roles: Mapping[str, object]) -> bool:
    """Whether it comes after all of its session, from one who may write (COMMIT-5, ACL-1)."""
    identity = proposal.identity
    if type(identity) is not LocalIdentity:
        return False
    principal = identity.principal
    return identity.local > base.highest[principal, identity.session] and roles.get(principal) in _WRITERS


def _holds(reads: Sequence[Read], base: BatchBase) -> bool:
    """Whether nothing that was read has changed since, as the heads alone show (COMMIT-2)."""
    heads, latest = base.heads, base.version
    for read in reads:
        id_, version = read.id, read.version
        if id_ is None or read.branch is not None or read.locals or version > latest:
            return False
        if heads[MAIN, id_].version > version:
            return False
    return True


def _accept(proposal: Proposal, base: BatchBase, now: TimeMs, salts: Iterator[bytes], limits: Limits) -> Accepted:
    identity = proposal.identity
    version = Version(base.version + 1)
    facts, written = write.write(proposal.steps, base.heads, version, identity.principal, salts, limits)
    commit = admission.record(proposal, base, version, now, facts, salts)
    base.version, base.hash, base.time = version, commit.hash, commit.time
    base.heads.update(written)
    base.highest[identity.principal, identity.session] = identity.local  # type: ignore[union-attr]  # seen above
    return Accepted(commit, facts, written)
