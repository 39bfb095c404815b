"""The writer's state: the fold of the log it keeps in memory. Tip, heads, names and sessions, all of it bounded.

What the last decided batch wrote is `fresh`: it may not be durable yet. A gathering that began while that batch was
in flight may have read the log without it, so fresh values win over values that were read, even if the cache has
dropped them meanwhile. Example, with `x` at version 7 on disk:

    take(batch 1: x at 8)     fresh: x at 8; batch 1 is in flight
    gather for batch 2        reads the log, which may still say x at 7
    view(batch 2)             x at 8: fresh wins; batch 2 is decided on it and waits
    batch 1 is durable        batch 2 is written; a gathering that begins now reads x at 8
    take(batch 2: y at 9)     fresh: y at 9; x at 8 is in the cache, or is read

Batch 2 is written only once batch 1 is durable, so a gathering never misses more than one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.batch_base import BatchBase
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log import replay
from stemmadb.protocol.model.log.commit_record import (
    NO_ARGUMENTS,
    BranchCreate,
    Commit,
    Compact,
    Erase,
    Identity,
    LocalIdentity,
    Merge,
    TagCreate,
)
from stemmadb.protocol.model.log.state import BranchState, EntityState, KnownCommit, Missing, empty_state
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, MAIN, Did, EntityId, Hash, Local, Version
from stemmadb.server.engine.base.head_cache import Key, Share
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.engine.write.batch_view import BatchView
from stemmadb.server.engine.write.due_snapshots import Due
from stemmadb.server.engine.write.gather import Gathered, ReadsNeeded, Session
from stemmadb.server.engine.write.lru import Recent
from stemmadb.server.engine.write.needs import UNREAD, Needs
from stemmadb.server.storage.port import FactPosition, Tip


class Fresh:
    """What the batch decided last has written."""

    def __init__(self, records: Sequence[Commit] = ()) -> None:
        self.heads: dict[Key, EntityState] = {}
        self.highest: dict[Session, Local] = {}
        self.is_structural = False
        self._records = records
        self._known: dict[Identity, KnownCommit] | None = None

    @property
    def known(self) -> Mapping[Identity, KnownCommit]:
        """Made when first asked for: only what is sent again, or read through, is looked up."""
        known = self._known
        if known is None:
            known = {record.identity: KnownCommit(record.version, record.request) for record in self._records}
            self._known = known
        return known


class WriterState:
    """Belongs to one writer, and to its event loop."""

    def __init__(
        self,
        space: Did,
        heads: Share,
        *,
        settings: Settings,
        scan_facts_max: int,
        is_unwritten: Callable[[EntityId], bool],
    ) -> None:
        """`is_unwritten` is the log's."""
        self._space = space
        self._is_unwritten = is_unwritten
        self._heads = heads
        self._scan_facts_max = scan_facts_max
        self._tip: Tip | None = None
        self._destroyed = self._restructured = EMPTY_SPACE
        """Of what was before the tip that was read nothing is known, so that it may have been either of them."""
        self._fresh = self._nothing = Fresh()
        self._highest: Recent[Session, Local] = Recent(settings.sessions_max)
        self._branches: Recent[str, BranchState | None] = Recent(settings.names_max)
        self._tags: Recent[str, Version | None] = Recent(settings.names_max)
        self._delegations: Recent[Hash, bool] = Recent(settings.names_max)
        """Each with whether it was revoked."""

    @property
    def version(self) -> Version:
        """The version of the last write that was decided."""
        assert self._tip is not None, "nothing was gathered yet"
        return self._tip.version

    def drop(self) -> None:
        """Forgets everything: the log is the only truth, and the next gathering begins with it."""
        self._tip = None
        self._fresh = self._nothing
        self._heads.drop()
        self._highest.clear()
        self._forget_names()

    def all_durable(self) -> None:
        """Nothing is in flight, and nobody is gathering: the log has all there is."""
        self._fresh = self._nothing

    # ------------------------------------------------------------ before a decision

    def batch_base(self, batch: Sequence[Proposal]) -> BatchBase | None:
        """The state a batch of fast-path commits is decided on, if memory has all of it."""
        tip, space = self._tip, self._space
        keys: dict[Key, None] = {(MAIN, EntityId(space)): None}
        highest: dict[Session, Local] = {}
        for proposal in batch:
            for step in proposal.steps:
                keys[MAIN, step.id] = None
            for read in proposal.reads:
                if read.id is None:
                    return None
                keys[MAIN, read.id] = None
            if not self._knows_session(proposal.identity, highest):
                return None
        heads = self._heads.find_all(keys)
        if heads is None and sum(self._find_unwritten(key) is not None for key in keys):
            heads = self._heads.find_all(keys)
        if tip is None or heads is None:
            return None
        return BatchBase(space, tip.version, tip.hash, tip.time, heads, highest)

    def _knows_session(self, identity: Identity, highest: dict[Session, Local]) -> bool:
        if type(identity) is not LocalIdentity:
            return False
        session = (identity.principal, identity.session)
        if session not in highest:
            local = self._highest.get(session)
            if local is None:
                return False
            highest[session] = local
        return True

    def view(self, needs: Needs) -> tuple[BatchView, ReadsNeeded]:
        """A view with what memory has of the needs, and what is to be read for the rest."""
        view = BatchView(self._space, self._fresh.heads, self._scan_facts_max)
        # Branches, tags and revocations change seldom: their changes are not folded but read again once durable.
        wanted = ReadsNeeded(tip=self._tip is None, needs_durable=self._fresh.is_structural)
        if self._tip is not None:
            view.stand_on(self._tip)
        view.destroyed, view.restructured = self._destroyed, self._restructured
        self._find_heads(needs, view, wanted)
        self._find_names(needs, view, wanted)
        self._find_identities(needs, view, wanted)
        return view, wanted

    def _find_heads(self, needs: Needs, view: BatchView, wanted: ReadsNeeded) -> None:
        fresh, heads = self._fresh.heads, view.heads
        for (key, since), cached in zip(needs.heads.items(), self._heads.find(needs.heads), strict=True):
            head = fresh.get(key) or cached or self._find_unwritten(key)
            if head is not None and (head.seen_after <= since or head.version <= since):
                heads[key] = head
            else:
                wanted.heads.setdefault(key[0], {})[key[1]] = since
                wanted.needs_durable |= key in fresh
        for prefix, limit in needs.prefixes.items():
            wanted.prefixes[prefix] = limit
            # Of what is fresh the older changes cannot be read beneath it.
            wanted.needs_durable |= view.fresh.seen_after(prefix.branch, prefix.prefix) > prefix.after

    def _find_unwritten(self, key: Key) -> EntityState | None:
        """The head of an entity that the log knows by heart not to be there, which need not be read.

        On `main` alone: another branch may see what is in flight on its parent.
        """
        branch, id_ = key
        if branch != MAIN or key in self._fresh.heads or not self._is_unwritten(id_):
            return None
        (cached,) = self._heads.find([key])
        if cached is None:
            cached = empty_state(id_)
            self._heads.put({key: cached})
        return cached

    def _find_names(self, needs: Needs, view: BatchView, wanted: ReadsNeeded) -> None:
        for name in needs.branches:
            if name in self._branches:
                view.branches[name] = self._branches.get(name)
            else:
                wanted.branches.append(name)
        for name in needs.tags:
            if name in self._tags:
                view.tags[name] = self._tags.get(name)
            else:
                wanted.tags.append(name)
        for delegation in needs.delegations:
            is_revoked = self._delegations.get(delegation)
            if is_revoked is None:
                wanted.delegations.append(delegation)
            else:
                view.delegations[delegation] = is_revoked

    def _find_identities(self, needs: Needs, view: BatchView, wanted: ReadsNeeded) -> None:
        highest = view.highest
        for identity in needs.identities:
            if isinstance(identity, LocalIdentity):
                session = (identity.principal, identity.session)
                if session not in highest:
                    self._find_session(session, highest, wanted)
                if identity.local > highest.get(session, UNREAD):
                    continue  # what comes after all of its session is new
            self._find_identity(identity, view, wanted)
        for session, locals_ in needs.named.items():
            newest = highest.get(session, UNREAD)
            for local in locals_:
                if local <= newest:
                    self._find_identity(LocalIdentity(*session, local), view, wanted)

    def _find_session(self, session: Session, found: dict[Session, Local], wanted: ReadsNeeded) -> None:
        highest = self._fresh.highest.get(session) or self._highest.get(session)
        if highest is not None:
            found[session] = highest
        else:
            wanted.sessions.add(session)

    def _find_identity(self, identity: Identity, view: BatchView, wanted: ReadsNeeded) -> None:
        known = self._fresh.known.get(identity)
        if known is not None:
            view.known[identity] = known
        else:
            wanted.identities.append(identity)

    # ------------------------------------------------------------ after a gathering

    def learn(self, view: BatchView, wanted: ReadsNeeded, gathered: Gathered) -> None:
        """Adds what was read to the view and to memory; what is fresh is newer than what was read."""
        if wanted.tip:
            self._tip = gathered.tip
            view.stand_on(gathered.tip)
            self._destroyed = self._restructured = gathered.tip.version
            view.destroyed, view.restructured = self._destroyed, self._restructured
        view.listed.update(gathered.listed)
        self._learn_heads(view, gathered)
        view.branches.update(gathered.branches)
        for name, state in gathered.branches.items():
            self._branches.put(name, state)
        view.tags.update(gathered.tags)
        for name, version in gathered.tags.items():
            self._tags.put(name, version)
        for delegation in wanted.delegations:
            view.delegations[delegation] = delegation in gathered.revoked
            self._delegations.put(delegation, view.delegations[delegation])
        for session, highest in gathered.highest.items():
            view.highest[session] = highest
            self._highest.put(session, highest)
        for identity in wanted.identities:
            view.known[identity] = gathered.accepted.get(identity)

    def _learn_heads(self, view: BatchView, gathered: Gathered) -> None:
        fresh = self._fresh.heads
        for key, head in gathered.heads.items():
            if key in fresh:
                view.heads[key] = fresh[key]
                continue
            cached = view.heads.get(key)
            if cached is None or cached.seen_after > head.seen_after:
                view.heads[key] = head
                self._heads.put({key: head})

    # ------------------------------------------------------------ after a decision

    def take(self, accepted: Sequence[Accepted]) -> list[Due]:
        """Goes on to the state after the batch, durable or not; says which snapshots are due once it is."""
        records = [one.commit for one in accepted]
        fresh = self._fresh = Fresh(records)
        due: list[Due] = []
        for one in accepted:
            _take_heads(one, fresh.heads, due)
            self._take_record(one.commit, fresh)
        self._heads.put(fresh.heads)
        if records:
            last = records[-1]
            self._tip = Tip(last.version, last.hash, last.time)
        if fresh.is_structural:
            self._forget_names()
        return due

    def _forget_names(self) -> None:
        self._branches.clear()
        self._tags.clear()
        self._delegations.clear()

    def _take_record(self, record: Commit, fresh: Fresh) -> None:
        identity = record.identity
        if isinstance(identity, LocalIdentity):
            session, local = (identity.principal, identity.session), identity.local
            fresh.highest[session] = local
            self._highest.put(session, local)
        if record.arguments != NO_ARGUMENTS:
            fresh.is_structural = True
            if isinstance(record.details, Erase | Compact):
                self._destroyed = record.version
            elif isinstance(record.details, BranchCreate | TagCreate | Merge):
                self._restructured = record.version


def _take_heads(one: Accepted, heads: dict[Key, EntityState], due: list[Due]) -> None:
    """The heads after one commit; one that has become dear to replay is due for a snapshot (SNAP-1)."""
    for key, state in one.written.items():
        patches, value = state.patches, state.value
        if patches and replay.snapshot_due(patches=patches, patch_bytes=state.patch_bytes, value_bytes=state.size):
            assert not isinstance(value, Missing), "a patch leaves a value"
            due.append(Due(key, _place(one, key), value, state.size))
            state = msgspec.structs.replace(state, patches=0, patch_bytes=0)  # noqa: PLW2901  # as it is from now on
        heads[key] = state


def _place(one: Accepted, key: Key) -> FactPosition:
    """Of the last fact that wrote the head."""
    index = max(fact.index for fact in one.facts if (fact.branch, fact.id) == key)
    return FactPosition(one.commit.version, index)
