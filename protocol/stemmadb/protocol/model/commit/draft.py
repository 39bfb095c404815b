"""State as a batch is being decided: the view beneath and, on top, what this batch has accepted so far."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from stemmadb.protocol.errors import BranchDeleted, UnknownBranch
from stemmadb.protocol.model.access import delegation
from stemmadb.protocol.model.access.access_roles import Rights
from stemmadb.protocol.model.access.delegation import DelegatedRights
from stemmadb.protocol.model.commit.request import PendingName
from stemmadb.protocol.model.log.commit_record import Commit, Identity, LocalIdentity
from stemmadb.protocol.model.log.state import BranchState, DecisionView, EntityState, KnownCommit, NotGathered
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Local, TimeMs, Version


class _Heads(dict[tuple[BranchName, EntityId], EntityState]):
    """The heads looked at so far, of the view or of this batch: the view is asked for each only once.

    It knows the branches of the draft and not the draft: a ring of the two would hold a batch until it is collected.
    """

    def __init__(self, view: DecisionView, branches: Mapping[str, BranchState]) -> None:
        super().__init__()
        self._view = view
        self._branches = branches

    def __missing__(self, key: tuple[BranchName, EntityId]) -> EntityState:
        if self._branches:
            self.must_be_older(key[0])
        state = self[key] = self._view.entity(*key)
        return state

    def must_be_older(self, branch: BranchName) -> None:
        """The entities of a branch made in this batch are not known to the view beneath."""
        created_here = self._branches.get(branch)
        if created_here is not None and created_here.parent is not None and self._view.branch(branch) is None:
            raise NotGathered(branch)


class BatchDraft:
    """Never changes the view; a batch that fails to be written leaves nothing behind (COMMIT-10)."""

    def __init__(self, view: DecisionView) -> None:
        self._view = view
        self._view_version = view.version
        self.space = view.space
        self.version = view.version
        self.hash = view.hash
        self.time = view.time
        self.destroyed = view.destroyed
        self.restructured = view.restructured
        self.branches: dict[str, BranchState] = {}
        self.heads = _Heads(view, self.branches)
        self.heads.update(view.at_hand())
        self.tags: dict[str, Version | None] = {}
        self._taken: list[Commit] = []
        self._accepted: dict[Identity, KnownCommit] = {}
        """Of those taken, as many as there were when it was last asked for."""
        self._read_through: dict[tuple[Did, bytes | None], dict[PendingName, KnownCommit]] = {}
        self._highest: dict[tuple[Did, bytes], Local] = {}
        self._listed: dict[BranchName, list[EntityId]] = {}
        self._listed_at = view.version

    def rights(self, principal: Did) -> Rights:
        return self._view.rights(principal)

    def delegated_rights(self, delegated: Sequence[DelegatedRights], now: TimeMs) -> Rights:
        """What is delegated at a time, which never goes back. What changes rights ends its batch (ACL-1, ACL-4)."""
        roles = self._view.entity(MAIN, EntityId(self.space)).value
        return delegation.delegated_rights(
            delegated, roles=roles, is_revoked=self._view.revoked, now=now if now > self.time else self.time
        )

    def branch(self, name: str) -> BranchState | None:
        return self.branches.get(name) or self._view.branch(name)

    def tag(self, name: str) -> Version | None:
        return self.tags[name] if name in self.tags else self._view.tag(name)

    def entity(self, branch: BranchName, id_: EntityId) -> EntityState:
        return self.heads[branch, id_]

    def changed_under(self, branch: BranchName, prefix: str, after: Version) -> Iterable[EntityState]:
        """As the view says, with what this batch wrote in the place of what it replaced."""
        self.heads.must_be_older(branch)
        written, own = self._written_on(branch), set()
        for at in range(bisect_left(written, prefix), len(written)):
            id_ = written[at]
            if not id_.startswith(prefix):
                break
            state = self.heads[branch, id_]
            if state.version > after:
                own.add(id_)
                yield state
        for state in self._view.changed_under(branch, prefix, after):
            if state.id not in own:
                yield state

    def _written_on(self, branch: BranchName) -> list[EntityId]:
        """What this batch has written on a branch, by id: sorted once, however many prefixes a commit reads."""
        if self._listed_at != self.version:
            listed: dict[BranchName, list[EntityId]] = {}
            for (name, id_), state in self.heads.items():
                if state.hashed > self._view_version:
                    listed.setdefault(name, []).append(id_)
            self._listed = {name: sorted(ids) for name, ids in listed.items()}
            self._listed_at = self.version
        return self._listed.get(branch, [])

    def accepted(self, identity: Identity) -> KnownCommit | None:
        known = self._accepted
        for commit in self._taken[len(known) :]:
            known[commit.identity] = KnownCommit(commit.version, commit.request)
        return known.get(identity) or self._view.accepted(identity)

    def read_through(self, identity: Identity) -> dict[PendingName, KnownCommit]:
        """The accepted commits that reads of one session named so far: many commits of a batch name the same ones.

        What was accepted stays so; the caller adds what it has looked up.
        """
        session = identity.session if isinstance(identity, LocalIdentity) else None
        return self._read_through.setdefault((identity.principal, session), {})

    def is_newest(self, identity: Identity) -> bool:
        """Whether it comes after all of its session, so that it cannot have been accepted before (COMMIT-5)."""
        if not isinstance(identity, LocalIdentity):
            return False
        principal, session = identity.principal, identity.session
        highest = self._highest.get((principal, session))
        return identity.local > (self._view.highest_local(principal, session) if highest is None else highest)

    def highest_local(self, principal: Did, session: bytes) -> Local:
        return self._highest.get((principal, session)) or self._view.highest_local(principal, session)

    def readable_branch(self, name: str) -> BranchState:
        """The branch, deleted or not; `UnknownBranch` otherwise."""
        found = self.branch(name)
        if found is None:
            raise UnknownBranch(branch=name)
        return found

    def writable_branch(self, name: str) -> BranchState:
        """The branch if it can be written (BRANCH-1)."""
        found = self.branches.get(name) or self._view.branch(name)
        if found is None:
            raise UnknownBranch(branch=name)
        if found.deleted is not None:
            raise BranchDeleted(branch=name)
        return found

    def take(self, commit: Commit, written: Mapping[tuple[BranchName, EntityId], EntityState]) -> None:
        """The commit is accepted: what follows in the batch sees it."""
        self.version = commit.version
        self.hash = commit.hash
        self.time = commit.time
        self.heads.update(written)
        self._taken.append(commit)
        identity = commit.identity
        if isinstance(identity, LocalIdentity):
            self._highest[identity.principal, identity.session] = identity.local
