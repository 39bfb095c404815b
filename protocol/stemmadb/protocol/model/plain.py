"""Plain commits, decided in one go: the way of nearly every write (COMMIT-2..6).

A plain commit is the next of its session, on main, by one who may write every id; it sets, patches or deletes, and
its declared reads are of single ids, through no other commit, and hold. Looking at the heads is then all it takes.
Its facts and its record are made as `admission.decide` makes them; what is anything else, or is not accepted, is
left to that, so that it may say why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model import admission, writing
from stemmadb.protocol.model.admission import Accepted
from stemmadb.protocol.model.commit import LocalIdentity
from stemmadb.protocol.model.ids import MAIN, BranchName, Did, EntityId, Hash, Local, TimeMs, Version
from stemmadb.protocol.model.limits import DEFAULTS, Limits
from stemmadb.protocol.model.proposal import Proposal
from stemmadb.protocol.model.request import Read
from stemmadb.protocol.model.state import EntityState

Key: TypeAlias = tuple[BranchName, EntityId]
Session: TypeAlias = tuple[Did, bytes]
_WRITERS: Final = ("write", "own")


class Ground(msgspec.Struct, gc=False):
    """The state that plain commits are decided on, which goes on with each that is accepted. It belongs to one batch.

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
        """The access list, as it was before: no plain commit changes it."""
        return self.heads[MAIN, EntityId(self.space)].value


def decide(
    batch: Sequence[Proposal], ground: Ground, *, now: TimeMs, salts: Iterator[bytes], limits: Limits = DEFAULTS
) -> list[Accepted] | None:
    """All of them accepted, in order; None, and the ground is of no use any more, if one of them is not plain."""
    accepted: list[Accepted] = []
    roles = ground.roles
    if not isinstance(roles, dict):
        return None
    for proposal in batch:
        if not _is_plain(proposal, ground) or not _may_be_made(proposal, ground, roles):
            return None
        if not _holds(proposal.reads, ground):
            return None
        try:
            accepted.append(_accept(proposal, ground, now, salts, limits))
        except StemmaError:  # a patch that does not fit
            return None
    return accepted


def _is_plain(proposal: Proposal, ground: Ground) -> bool:
    if proposal.branch != MAIN or proposal.details is not None or proposal.refusal is not None:
        return False
    if proposal.lent or proposal.planned is not None or proposal.merged is not None:
        return False
    space: str = ground.space
    for step in proposal.steps:  # noqa: SIM110  # asked of every write, and `all` takes several times as long
        if step.id == space:
            return False
    return True


def _may_be_made(proposal: Proposal, ground: Ground, roles: Mapping[str, object]) -> bool:
    """Whether it comes after all of its session, from one who may write (COMMIT-5, ACL-1)."""
    identity = proposal.identity
    if type(identity) is not LocalIdentity:
        return False
    principal = identity.principal
    return identity.local > ground.highest[principal, identity.session] and roles.get(principal) in _WRITERS


def _holds(reads: Sequence[Read], ground: Ground) -> bool:
    """Whether nothing that was read has changed since, as the heads alone show (COMMIT-2)."""
    heads, latest = ground.heads, ground.version
    for read in reads:
        id_, version = read.id, read.version
        if id_ is None or read.branch is not None or read.locals or version > latest:
            return False
        if heads[MAIN, id_].version > version:
            return False
    return True


def _accept(proposal: Proposal, ground: Ground, now: TimeMs, salts: Iterator[bytes], limits: Limits) -> Accepted:
    identity = proposal.identity
    version = Version(ground.version + 1)
    facts, written = writing.write(proposal.steps, ground.heads, version, identity.principal, salts, limits)
    commit = admission.record(proposal, ground, version, now, facts, salts)
    ground.version, ground.hash, ground.time = version, commit.hash, commit.time
    ground.heads.update(written)
    ground.highest[identity.principal, identity.session] = identity.local  # type: ignore[union-attr]  # seen above
    return Accepted(commit, facts, written)
