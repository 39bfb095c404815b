"""Needs: what has to be known before a batch of proposals can be decided, found by looking at them alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from stemmadb.protocol.model.access import access_roles
from stemmadb.protocol.model.access.delegation import DelegatedRights
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.commit.request import PendingName, Read
from stemmadb.protocol.model.log.commit_record import (
    Arguments,
    BranchCreate,
    BranchDelete,
    Identity,
    LocalIdentity,
    TagCreate,
    TagDelete,
)
from stemmadb.protocol.model.log.state import NotGathered
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Hash, Local, Version
from stemmadb.protocol.model.values.json_values import INT_MAX
from stemmadb.server.engine.base.head_cache import Key

UNREAD: Final = Version(INT_MAX)
"""The version a head is looked at from if no read is declared on it: none of its changes matter."""
LISTED_MIN: Final = 16
LISTED_FACTOR: Final = 8


class Prefix(NamedTuple):
    """A declared read of "nothing else is there"."""

    branch: BranchName
    prefix: str
    after: Version


class Needs:
    """Grows by what a decision was found to lack."""

    def __init__(self, batch: Sequence[Proposal], space: Did) -> None:
        self.heads: dict[Key, Version] = {(MAIN, EntityId(space)): UNREAD}
        """Each with the lowest version at which a declared read looks at it."""
        self.prefixes: dict[Prefix, int] = {}
        """Each with how many changed entities to look for."""
        self.branches: set[str] = {MAIN}
        self.tags: set[str] = set()
        self.delegations: set[Hash] = set()
        """The delegations that callers act under: the batch needs to know whether they were revoked (ACL-4)."""
        self.identities: list[Identity] = []
        self.named: dict[tuple[Did, bytes], set[Local]] = {}
        """Commits that reads were made through (COMMIT-4), by principal and session."""
        for proposal in batch:
            self.identities.append(proposal.identity)
            if proposal.refusal is None:
                self._add(proposal)

    def widen(self, lacking: NotGathered) -> None:
        """Only the length of a listing can be guessed too low: everything else is seen in the proposals."""
        (prefix,) = lacking.args
        assert isinstance(prefix, Prefix), f"a decision lacked what was not foreseen: {prefix}"
        self.prefixes[prefix] *= LISTED_FACTOR

    def _add(self, proposal: Proposal) -> None:
        heads, branch = self.heads, proposal.branch
        for step in proposal.steps:
            heads.setdefault((step.branch, step.id), UNREAD)
        if branch is not None:
            self.branches.add(branch)
        else:
            self.branches.update(step.branch for step in proposal.steps)
        delegated = proposal.delegated
        if delegated:
            self.delegations.update(name for one in delegated for name in one.names)
        for read in proposal.reads:
            self._add_read(read, read.branch or branch, delegated)
            if read.locals:
                self._add_named(read.locals, proposal.identity)
        if proposal.details is not None:
            self._add_structure(proposal.details)

    def _add_named(self, names: Sequence[PendingName], identity: Identity) -> None:
        """Commits of a batch name much the same ones, thousands of them: each is looked up only once."""
        locals_ = [name for name in names if isinstance(name, int)]
        if locals_:
            assert isinstance(identity, LocalIdentity), "only a commit of a session reads through locals of its own"
            self.named.setdefault((identity.principal, identity.session), set()).update(locals_)
        if len(locals_) < len(names):
            for name in names:
                if isinstance(name, tuple):
                    self.named.setdefault((identity.principal, name[0]), set()).add(name[1])

    def _add_read(self, read: Read, branch: BranchName | None, delegated: tuple[DelegatedRights, ...]) -> None:
        assert branch is not None, "a write without a branch names the branch of each read"
        if read.branch is not None:
            self.branches.add(branch)
        if read.id is None:
            assert read.prefix is not None, "a read names an id or a prefix"
            # Which delegations hold is not known yet: what any of them narrows the read to is listed.
            lists = (
                access_roles.meeting(read.prefix, (one for each in delegated for one in each.prefixes))
                if delegated
                else None
            )
            for prefix in (read.prefix,) if lists is None else lists:
                self.prefixes.setdefault(Prefix(branch, prefix, read.version), LISTED_MIN)
        else:
            key, version = (branch, read.id), read.version
            if version < self.heads.get(key, UNREAD):
                self.heads[key] = version

    def _add_structure(self, details: Arguments) -> None:
        if isinstance(details, BranchCreate):
            self.branches.update((details.name, details.parent))
        elif isinstance(details, BranchDelete):
            self.branches.add(details.name)
        elif isinstance(details, TagCreate):
            self.branches.add(details.branch)
            self.tags.add(details.name)
        elif isinstance(details, TagDelete):
            self.tags.add(details.name)
