"""The view a batch is decided on: all that was gathered for it, as of the batch decided before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from stemmadb.protocol.model.access import access_roles
from stemmadb.protocol.model.access.access_roles import Rights
from stemmadb.protocol.model.log.commit_record import Identity, LocalIdentity
from stemmadb.protocol.model.log.state import BranchState, EntityState, KnownCommit, NotGathered
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Hash, Local, TimeMs, Version
from stemmadb.server.engine.base.head_cache import Key
from stemmadb.server.engine.write.gather import ChangedIds, Session
from stemmadb.server.engine.write.heads_by_prefix import Prefixed
from stemmadb.server.engine.write.needs import UNREAD, Prefix
from stemmadb.server.storage.port import Tip

_NEVER = Local(UNREAD)


class BatchView:
    """Implements `state.View`. Holds what its batch needs by itself, so that no eviction can take it away."""

    def __init__(self, space: Did, fresh: Mapping[Key, EntityState], scan_facts_max: int) -> None:
        self.space = space
        self.version = Version(0)
        self.hash = Hash(b"")
        self.time = TimeMs(0)
        self.destroyed = Version(0)
        self.restructured = Version(0)
        self.heads: dict[Key, EntityState] = {}
        self.listed: dict[Prefix, ChangedIds] = {}
        self.branches: dict[str, BranchState | None] = {}
        self.tags: dict[str, Version | None] = {}
        self.delegations: dict[Hash, bool] = {}
        """Those that are shown, each with whether it was revoked."""
        self.highest: dict[Session, Local] = {}
        self.known: dict[Identity, KnownCommit | None] = {}
        self.fresh = Prefixed(fresh)
        self._scan_facts_max = scan_facts_max
        self._rights: dict[Did, Rights] = {}

    def stand_on(self, tip: Tip) -> None:
        self.version, self.hash, self.time = tip.version, tip.hash, tip.time

    def branch(self, name: str) -> BranchState | None:
        if name not in self.branches:
            raise NotGathered(name)
        return self.branches[name]

    def tag(self, name: str) -> Version | None:
        if name not in self.tags:
            raise NotGathered(name)
        return self.tags[name]

    def revoked(self, name: Hash) -> bool:
        if name not in self.delegations:
            raise NotGathered(name)
        return self.delegations[name]

    def rights(self, principal: Did) -> Rights:
        """By the access list, the entity of the space itself on main (ACL-1)."""
        rights = self._rights.get(principal)
        if rights is None:
            roles = self.entity(MAIN, EntityId(self.space)).value
            rights = self._rights[principal] = access_roles.by_list(roles, principal, self.space)
        return rights

    def entity(self, branch: BranchName, id_: EntityId) -> EntityState:
        head = self.heads.get((branch, id_))
        if head is None:
            raise NotGathered((branch, id_))
        return head

    def at_hand(self) -> dict[Key, EntityState]:
        """Of main alone: another branch may be made by the batch, which the view knows nothing of."""
        return {key: head for key, head in self.heads.items() if key[0] == MAIN}

    def changed_under(self, branch: BranchName, prefix: str, after: Version) -> Iterator[EntityState]:
        """What is not durable yet first, then what the log named; `NotGathered` if that was not all there is."""
        wanted = Prefix(branch, prefix, after)
        if wanted not in self.listed:
            raise NotGathered(wanted)
        listed = self.listed[wanted]
        for head in self.fresh.under(branch, prefix):
            if head.version > after:
                yield head
        for id_ in listed.ids:
            state = self.heads[branch, id_]
            if (branch, id_) not in self.fresh and state.version > after:
                yield state
        if not listed.is_whole:
            if len(listed.ids) < self._scan_facts_max:
                raise NotGathered(wanted)
            yield _out_of_sight(self.heads[branch, listed.ids[-1]], after)

    def accepted(self, identity: Identity) -> KnownCommit | None:
        """A local above the highest of its session is new; all others were looked up (COMMIT-5)."""
        if identity in self.known:
            return self.known[identity]
        if isinstance(identity, LocalIdentity):
            highest = self.highest.get((identity.principal, identity.session), _NEVER)
            if identity.local > highest:
                return None
        raise NotGathered(identity)

    def highest_local(self, principal: Did, session: bytes) -> Local:
        highest = self.highest.get((principal, session))
        if highest is None:
            raise NotGathered((principal, session))
        return highest


def _out_of_sight(state: EntityState, after: Version) -> EntityState:
    """A state whose changes are not known: more has changed than is scanned, which counts as overlap (COMMIT-2)."""
    unknown = Version(after + 1)
    return msgspec.structs.replace(state, version=max(state.version, unknown), changes=None, seen_after=unknown)
