"""The hub of an open space: its feed, its access list, and the sessions that are connected to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import islice
from typing import Final, Protocol

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.access import access_roles
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.values.ids import Did, TimeMs, Version
from stemmadb.server.counters import SpaceCounts
from stemmadb.server.engine.base.executors import Workers
from stemmadb.server.engine.blobs.blobs import BlobStore
from stemmadb.server.engine.plan.known_merges import KnownMerges
from stemmadb.server.engine.space import OpenSpace
from stemmadb.server.service.base.commit_event import CommitEvent
from stemmadb.server.service.base.durable_batches import Batch
from stemmadb.server.service.base.request_context import RequestContext
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.service.session.access import Access
from stemmadb.server.service.stream.broadcast import BroadcastGroups
from stemmadb.server.service.watch.feed import Feed

TURN_BYTES: Final = 64 * 1024
"""Bytes of frames after which the rest of the sessions is left to the next turn of the loop: a few milliseconds."""

TURN_PUBLISHERS: Final = 64
"""Sessions that are looked at in a turn, whether or not they have anything to send."""


class Publisher(Protocol):
    """Sends frames when it is flushed: a session, or a broadcast group of them."""

    def flush(self) -> None: ...

    def failed(self, error: Exception) -> None:
        """An internal error happened while it was flushed."""
        ...


class HubSession(Publisher, Protocol):
    """A session, as its hub sees it."""

    @property
    def to(self) -> Version: ...

    @property
    def is_shared_due(self) -> bool:
        """Whether a frame is coming that it shares with others."""
        ...

    def accepted(self, event: CommitEvent) -> None:
        """A commit of its own is durable; it calls `touch` if there is something to send."""
        ...

    def rights_changed(self) -> None:
        """Somebody's rights have changed, perhaps its own."""
        ...

    def erased(self) -> None:
        """Bodies were destroyed: what was read before and is not sent yet must not be sent any more (ERASE-1)."""
        ...

    def owe_frame(self) -> None:
        """It has had no frame for a while: the next one is due even if it is empty."""
        ...

    def queue_has_capacity(self) -> None:
        """The queue of the space, which was full, takes commits again."""
        ...


class SpaceHub:
    """All of it is used from one event loop."""

    def __init__(self, space: OpenSpace, settings: ServiceSettings, counts: SpaceCounts) -> None:
        self.space = space
        self.counts = counts
        self.access = Access(space.did)
        self.feed = Feed(
            space,
            bytes_max=settings.feed_bytes_max,
            batches_max=settings.feed_batches_max,
            groups_max=settings.watch_groups_max,
            entities_max=settings.watched_entities_max,
        )
        self.broadcasts = BroadcastGroups(
            self.feed, counts, space.limits, self.touch, unsent_bytes_max=settings.unsent_bytes_max
        )
        self.authors: dict[tuple[Did, bytes], HubSession] = {}
        """The session that gets the verdicts of a principal and a session id."""
        self.sessions: dict[HubSession, None] = {}
        self._followers: dict[HubSession, None] = {}
        """Sessions that want a frame after every commit, even an empty one."""
        self._quiet_versions = max(1, space.limits.quiet_versions_max // 2)
        self._quiet_checked = space.version
        self._quiet_seconds = settings.quiet_ms / 1_000
        self._quiet_timer: asyncio.TimerHandle | None = None
        self._dirty: dict[Publisher, None] = {}
        self._waiting: dict[HubSession, None] = {}
        self._expecting: dict[HubSession, None] = {}
        self._early: list[Batch] | None = []
        """Batches published before the access list was loaded; None from then on."""
        self._sweep_seconds = settings.sweep_ms / 1_000
        self._sweeping: asyncio.Task[None] | None = None
        self._dropping: set[asyncio.Task[None]] = set()
        self._stay = ExitStack()
        self.on_access: Callable[[Did, object], None] = lambda _did, _roles: None
        """Called with the access list when it is loaded and whenever it may have changed."""

    async def open(self, *, now: Callable[[], TimeMs], workers: Workers) -> None:
        """Learns the access list and begins to follow the log; the space stays open meanwhile."""
        self._stay.enter_context(self.space.lease())
        try:
            directory, large = await self.space.in_turn(lambda log: (log.directory, log.large_blobs))
            blobs = BlobStore(self.space, directory=directory, large=large, workers=workers, now=now)
            self.context = RequestContext(self.space, blobs, KnownMerges(), now)
            self.feed.on_batch = self._take
            await self.feed.start()
            await self.access.load(self.space)
            early, self._early = self._early or [], None
            for batch in early:
                self._take(batch)
            self.on_access(self.space.did, self.access.roles)
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep())
        except BaseException:
            self.close()
            raise

    async def _sweep(self) -> None:
        """Removes abandoned uploads, once in a while (BLOB-2)."""
        while True:
            await asyncio.sleep(self._sweep_seconds)
            with suppress(StemmaError):  # the next one does it
                await self.context.blobs.sweep()

    def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._quiet_timer is not None:
            self._quiet_timer.cancel()
        self.feed.stop()
        self._stay.close()

    @property
    def is_founded(self) -> bool:
        """Whether the space has an access list (ACL-3)."""
        return self.access.roles is not None

    # ------------------------------------------------------------ sessions

    def enter(self, session: HubSession, author: tuple[Did, bytes]) -> None:
        self.sessions[session] = None
        self.authors[author] = session

    def leave(self, session: HubSession) -> None:
        self.sessions.pop(session, None)
        self._followers.pop(session, None)
        self._dirty.pop(session, None)
        self._waiting.pop(session, None)
        self._expecting.pop(session, None)
        for author in [author for author, one in self.authors.items() if one is session]:
            del self.authors[author]

    # ------------------------------------------------------------ following the log

    def _take(self, batch: Batch) -> None:
        """Each author is notified at once, so that its next frame has all the verdicts it covers (SYNC-2)."""
        if self._early is not None:
            self._early.append(batch)
            return
        self.counts.commits += len(batch.commits)
        self.counts.batch_commits.observe(len(batch.commits))
        self.counts.groups = self.feed.groups.count
        self._notify_authors(batch)
        before = self.access.roles
        if self.access.take_all(batch):
            self.on_access(self.space.did, self.access.roles)
            self._drop_uploads(access_roles.writers(before) - access_roles.writers(self.access.roles))
            for session in tuple(self.sessions):
                self._safely(session, session.rights_changed)
        if batch.erases:
            self.broadcasts.withdraw()
            for session in tuple(self.sessions):
                self._safely(session, session.erased)
        expecting, self._expecting = self._expecting, {}
        for session in expecting:
            self.touch(session)
        for session in self._followers:
            session.owe_frame()
            self.touch(session)
        if batch.to - self._quiet_checked >= self._quiet_versions:
            self._wake_quiet(batch.to, self._quiet_versions)
        self._await_silence()

    def _notify_authors(self, batch: Batch) -> None:
        authors = self.authors
        for event in batch.commits:
            identity = event.commit.identity
            if isinstance(identity, LocalIdentity):
                session = authors.get((identity.principal, identity.session))
                if session is not None:
                    try:
                        session.accepted(event)
                    except Exception as error:
                        session.failed(error)

    def _drop_uploads(self, revoked: frozenset[str]) -> None:
        """A principal that may not write any more keeps no place and no disk (BLOB-1)."""
        if revoked:
            task = asyncio.get_running_loop().create_task(self.context.blobs.drop_uploads(revoked))
            self._dropping.add(task)
            task.add_done_callback(self._dropped)

    def _dropped(self, task: asyncio.Task[None]) -> None:
        self._dropping.discard(task)
        _ = task.cancelled() or task.exception()  # what is left is swept

    def _end_silence(self) -> None:
        """Called a while after the first commit that a session has not seen: no session falls far behind."""
        self._quiet_timer = None
        if self._wake_quiet(self.feed.version, behind=1):
            self._await_silence()

    def _await_silence(self) -> None:
        if self._quiet_timer is None:
            self._quiet_timer = asyncio.get_running_loop().call_later(self._quiet_seconds, self._end_silence)

    def _wake_quiet(self, version: Version, behind: int) -> bool:
        """Sessions that are so far behind get a frame, even an empty one (SYNC-1).

        Those that are about to share one are not quiet: a frame of its own for each would cost all that sharing
        saves. Returns whether there were any, which have to be looked at again.
        """
        self._quiet_checked = version
        is_more = False
        for session in self.sessions:
            if version - session.to >= behind:
                if session.is_shared_due:
                    is_more = True
                else:
                    session.owe_frame()
                    self.touch(session)
        return is_more

    def touch(self, publisher: Publisher) -> None:
        """Schedules a flush: all publishers that are touched in one turn of the loop are flushed in the next.

        Not before: verdicts on commits that were sent again under an older session come after the feed (SYNC-2).
        """
        dirty = self._dirty
        if not dirty:
            asyncio.get_running_loop().call_soon(self._flush)
        dirty[publisher] = None

    def follow(self, session: HubSession) -> None:
        """From now on the session gets a frame for every batch, as soon as the batch is published (SYNC-8)."""
        self._followers[session] = None
        session.owe_frame()
        self.touch(session)

    def expect(self, session: HubSession) -> None:
        """Schedules a flush after the next batch: a read may be ahead of the feed."""
        self._expecting[session] = None

    def wait(self, session: HubSession) -> None:
        """The queue is full: the session is notified when it takes commits again, at the latest with its verdicts."""
        self._waiting[session] = None

    def _flush(self) -> None:
        if self._waiting and self.space.has_room:
            waiting, self._waiting = self._waiting, {}
            for session in waiting:
                session.queue_has_capacity()
        dirty, self._dirty = self._dirty, {}
        publishers, sent = iter(dirty), self.counts.bytes_out
        for publisher in islice(publishers, TURN_PUBLISHERS):
            try:
                publisher.flush()
            except Exception as error:
                publisher.failed(error)
            if self.counts.bytes_out - sent > TURN_BYTES:
                break
        self.broadcasts.gather()
        self._flush_later(dict.fromkeys(publishers))

    def _flush_later(self, rest: dict[Publisher, None]) -> None:
        """Large frames for many sessions take several turns of the loop: other spaces go on between them."""
        if rest:
            if not self._dirty:
                asyncio.get_running_loop().call_soon(self._flush)
            self._dirty = rest | self._dirty

    def _safely(self, session: HubSession, act: Callable[[], None]) -> None:
        """An internal error ends that session and no other."""
        try:
            act()
        except Exception as error:
            session.failed(error)
