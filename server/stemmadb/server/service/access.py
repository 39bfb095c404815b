"""Access: what each principal may do in one open space, by its access list and its revocations (ACL-2, ACL-4).

Rights are those at the head, whatever version is read. It is loaded once, and then follows every durable commit.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stemmadb.protocol.model import access, body, delegation
from stemmadb.protocol.model.access import Rights
from stemmadb.protocol.model.commit import NO_ARGUMENTS, Commit, Revoke
from stemmadb.protocol.model.delegation import Lent
from stemmadb.protocol.model.facts import Fact
from stemmadb.protocol.model.ids import EMPTY_SPACE, MAIN, Did, EntityId, Hash, TimeMs, Version
from stemmadb.server.engine import moments, states
from stemmadb.server.engine.api import SpaceApi
from stemmadb.server.engine.moments import Moment
from stemmadb.server.service.batches import Batch
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
        """Follows a batch; tells whether rights may have changed."""
        if batch.after == self.version and batch.is_plain and self._list_id not in batch.changes(MAIN):
            self.version = batch.to
            return False
        changed = [self.take(told.commit, told.facts) for told in batch.commits]
        return any(changed)

    def take(self, commit: Commit, facts: Sequence[Fact]) -> bool:
        """Follows the next durable commit, or ignores one it knows; tells whether rights may have changed."""
        if commit.version <= self.version:
            return False
        assert commit.version == self.version + 1, "commits are taken in order, none left out"
        self.version = commit.version
        return self._take_list(facts) or self._take_revocation(commit)

    def rights(self, principal: Did, lent: Sequence[Lent], now: TimeMs) -> Rights:
        """What the principal may do now: under the delegations it shows alone, or by the access list."""
        if not lent:
            return access.by_list(self._roles, principal, self._space)
        return delegation.lent_rights(lent, roles=self._roles, is_revoked=self._revoked.__contains__, now=now)

    async def rights_at(self, space: SpaceApi, version: Version, principal: Did, lent: Sequence[Lent]) -> Rights:
        """What it could do right after a version with these delegations, at the time of that commit.

        `Compacted` or `FutureVersion` if that cannot be told any more, or not yet.
        """
        then = await space.read(lambda reader: self._look_back(reader, version))
        return self._rights_then(then, principal, lent)

    async def is_unchanged(
        self, space: SpaceApi, *, since: Version, principal: Did, lent: Sequence[Lent], now: TimeMs
    ) -> bool:
        """Whether one who held the state of a version, and comes back, may do the same as then (RESUME-1).

        The store is asked only if a write or the time may have changed it. Until when that state was held is not
        known: a delegation that began or ended after the commit was made counts as a change. Raises as `rights_at`.
        """
        if not lent and self._listed <= since <= self.version:
            return True
        then = await space.read(lambda reader: self._look_back(reader, since))
        ends = delegation.next_change(lent, then.time)
        if ends is not None and ends <= now:
            return False
        return self._rights_then(then, principal, lent) == self.rights(principal, lent, now)

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

    # ------------------------------------------------------------ in a worker, on one cut

    def _look(self, reader: LogReader) -> _Loaded:
        spans = moments.resolve(reader, Moment(MAIN)).spans
        found = states.load(reader, spans, [self._list_id]).get(self._list_id)
        roles, listed = (None, EMPTY_SPACE) if found is None else (found.value, found.version)
        return _Loaded(reader.tip().version, roles, listed, reader.revoked())

    def _look_back(self, reader: LogReader, version: Version) -> _Then:
        spans = moments.resolve(reader, Moment(MAIN, version)).spans
        found = states.load(reader, spans, [self._list_id]).get(self._list_id)
        commit = reader.commits([version]).get(version)
        return _Then(version, found and found.value, TimeMs(0) if commit is None else commit.time)

    def _rights_then(self, then: _Then, principal: Did, lent: Sequence[Lent]) -> Rights:
        if not lent:
            return access.by_list(then.roles, principal, self._space)
        return delegation.lent_rights(
            lent,
            roles=then.roles,
            is_revoked=lambda name: name in self._revoked and self._revoked[name] <= then.version,
            now=then.time,
        )
