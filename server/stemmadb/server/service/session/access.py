"""Access: what each principal may do in one open space, by its access list and its revocations (ACL-2, ACL-4).

Rights are those at the head, whatever version is read. It is loaded once, and then follows every durable commit.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stemmadb.protocol.model.access import access_roles, delegation
from stemmadb.protocol.model.access.access_roles import Rights
from stemmadb.protocol.model.access.delegation import DelegatedRights
from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS, Commit, Revoke
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, MAIN, Did, EntityId, Hash, TimeMs, Version
from stemmadb.server.engine.base import moments, states
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.service.base.durable_batches import Batch
from stemmadb.server.storage.port import LogReader


class _Loaded(msgspec.Struct, frozen=True):
    version: Version
    roles: object
    listed: Version
    revoked: dict[Hash, Version]


class _Then(msgspec.Struct, frozen=True):
    """What an older version goes by."""

    version: Version
    roles: object
    time: TimeMs


class Access:
    """Of one space, as of `version`. Used from one event loop."""

    def __init__(self, space: Did) -> None:
        self._space = space
        self._list_id = EntityId(space)
        self._roles: object = None
        self._revoked: dict[Hash, Version] = {}
        """Each with the version from which on it is."""
        self._listed = EMPTY_SPACE
        """The version of the last write of the access list."""
        self.version = EMPTY_SPACE

    @property
    def roles(self) -> object:
        """The value of the access list; an object with a role for each principal, unless there is none yet."""
        return self._roles

    async def load(self, space: SpaceApi) -> None:
        """Begins with what is in the store; what was taken meanwhile is in it, or has to be taken again."""
        found = await space.read(self._look)
        self.version, self._revoked = found.version, found.revoked
        self._roles, self._listed = found.roles, found.listed

    def take_all(self, batch: Batch) -> bool:
        """Follows a batch; True if rights may have changed."""
        if batch.after == self.version and batch.is_ordinary and self._list_id not in batch.changes(MAIN):
            self.version = batch.to
            return False
        changed = [self.take(event.commit, event.facts) for event in batch.commits]
        return any(changed)

    def take(self, commit: Commit, facts: Sequence[Fact]) -> bool:
        """Follows the next durable commit, or ignores one it knows; True if rights may have changed."""
        if commit.version <= self.version:
            return False
        assert commit.version == self.version + 1, "commits are taken in order, none left out"
        self.version = commit.version
        return self._take_list(facts) or self._take_revocation(commit)

    def rights(self, principal: Did, delegated: Sequence[DelegatedRights], now: TimeMs) -> Rights:
        """What the principal may do now: under the delegations it shows alone, or by the access list."""
        if not delegated:
            return access_roles.by_list(self._roles, principal, self._space)
        return delegation.delegated_rights(
            delegated, roles=self._roles, is_revoked=self._revoked.__contains__, now=now
        )

    def is_revoked(self, name: Hash) -> bool:
        """Whether a delegation or an access token of this name was revoked."""
        return name in self._revoked

    async def rights_at(
        self, space: SpaceApi, version: Version, principal: Did, delegated: Sequence[DelegatedRights]
    ) -> Rights:
        """What it could do right after a version with these delegations, at the time of that commit.

        `Compacted` or `FutureVersion` if that version is gone, or not written yet.
        """
        then = await space.read(lambda reader: self._look_back(reader, version))
        return self._rights_then(then, principal, delegated)

    async def is_unchanged(
        self, space: SpaceApi, *, since: Version, principal: Did, delegated: Sequence[DelegatedRights], now: TimeMs
    ) -> bool:
        """Whether a client that resumes from a version has the same rights as it had then (RESUME-1).

        The store is asked only if a write or the time may have changed it. Until when that state was held is not
        known: a delegation that began or ended after the commit was made counts as a change. Raises as `rights_at`.
        """
        if not delegated and self._listed <= since <= self.version:
            return True
        then = await space.read(lambda reader: self._look_back(reader, since))
        ends = delegation.next_change(delegated, then.time)
        if ends is not None and ends <= now:
            return False
        return self._rights_then(then, principal, delegated) == self.rights(principal, delegated, now)

    # ------------------------------------------------------------ following the log

    def _take_list(self, facts: Sequence[Fact]) -> bool:
        """The access list is only ever set whole (ACL-1); where its body is gone, a later one has replaced it."""
        for fact in facts:
            if fact.id == self._list_id and fact.branch == MAIN and fact.body is not None:
                self._roles, self._listed = body.read_stored(fact.body), fact.version
                return True
        return False

    def _take_revocation(self, commit: Commit) -> bool:
        if commit.arguments == NO_ARGUMENTS:
            return False
        details = commit.details
        if not isinstance(details, Revoke):
            return False
        self._revoked.setdefault(details.delegation, commit.version)
        return True

    # ------------------------------------------------------------ in a worker, on one read view

    def _look(self, reader: LogReader) -> _Loaded:
        spans = moments.resolve(reader, ReadMoment(MAIN)).spans
        found = states.load(reader, spans, [self._list_id]).get(self._list_id)
        roles, listed = (None, EMPTY_SPACE) if found is None else (found.value, found.version)
        return _Loaded(reader.tip().version, roles, listed, reader.revoked())

    def _look_back(self, reader: LogReader, version: Version) -> _Then:
        spans = moments.resolve(reader, ReadMoment(MAIN, version)).spans
        found = states.load(reader, spans, [self._list_id]).get(self._list_id)
        return _Then(version, found and found.value, reader.times([version]).get(version, TimeMs(0)))

    def _rights_then(self, then: _Then, principal: Did, delegated: Sequence[DelegatedRights]) -> Rights:
        if not delegated:
            return access_roles.by_list(then.roles, principal, self._space)
        return delegation.delegated_rights(
            delegated,
            roles=then.roles,
            is_revoked=lambda name: name in self._revoked and self._revoked[name] <= then.version,
            now=then.time,
        )
