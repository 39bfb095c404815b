"""A room: one open space with its feed, its access list and the sessions that are in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Protocol

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit import LocalIdentity
from stemmadb.protocol.model.ids import Did, TimeMs, Version
from stemmadb.server.counting import SpaceCounts
from stemmadb.server.engine.blobs import Blobs
from stemmadb.server.engine.lanes import Workers
from stemmadb.server.engine.merges import KnownMerges
from stemmadb.server.engine.space import Space
from stemmadb.server.service.access import Access
from stemmadb.server.service.asking import Desk
from stemmadb.server.service.batches import Batch
from stemmadb.server.service.choruses import Choruses
from stemmadb.server.service.feed import Feed
from stemmadb.server.service.settings import ServiceSettings
from stemmadb.server.service.shared_frames import SharedFrames
from stemmadb.server.service.told import Told


class Teller(Protocol):
    """One who may have something to tell: a session, or a chorus of them."""

    def flush(self) -> None: ...

    def failed(self, mistake: Exception) -> None:
        """A mistake of ours was made with it."""
        ...


class Guest(Teller, Protocol):
    """A session, as its room sees it."""

    @property
    def to(self) -> Version: ...

    def accepted(self, told: Told) -> None:
        """An own commit is durable: it touches the room if there is something to tell."""
        ...

    def rights_changed(self) -> None:
        """Somebody's rights have changed, perhaps its own."""
        ...

    def owe_frame(self) -> None:
        """It was quiet for long."""
        ...

    def has_room(self) -> None:
        """It waited for room in the queue of the space, and there is."""
        ...


class Room:
    """All of it is used from one event loop."""

    def __init__(self, space: Space, settings: ServiceSettings, counts: SpaceCounts) -> None:
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
        self.shared = SharedFrames()
        self.choruses = Choruses(self.feed, self.shared, counts, self.touch)
        self.authors: dict[tuple[Did, bytes], Guest] = {}
        """Who is told the verdicts of which session."""
        self.guests: dict[Guest, None] = {}
        self._quiet_versions = max(1, space.limits.quiet_versions_max // 2)
        self._quiet_checked = space.version
        self._quiet_seconds = settings.quiet_ms / 1_000
        self._quiet_timer: asyncio.TimerHandle | None = None
        self._dirty: dict[Teller, None] = {}
        self._waiting: dict[Guest, None] = {}
        self._expecting: dict[Guest, None] = {}
        self._early: list[Batch] | None = []
        """What was told before the access list was known; None from then on."""
        self._sweep_seconds = settings.sweep_ms / 1_000
        self._sweeping: asyncio.Task[None] | None = None
        self._stay = ExitStack()

    async def open(self, *, now: Callable[[], TimeMs], workers: Workers) -> None:
        """Learns the access list and begins to follow the log; the space stays open meanwhile."""
        self._stay.enter_context(self.space.lease())
        try:
            directory = await self.space.in_turn(lambda log: log.directory)
            blobs = Blobs(self.space, directory=directory, workers=workers, now=now)
            self.desk = Desk(self.space, blobs, KnownMerges(), now)
            self.feed.on_batch = self._take
            await self.feed.start()
            await self.access.load(self.space)
            early, self._early = self._early or [], None
            for batch in early:
                self._take(batch)
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep())
        except BaseException:
            self.close()
            raise

    async def _sweep(self) -> None:
        """Removes uploads that nobody goes on with, once in a while (BLOB-2)."""
        while True:
            await asyncio.sleep(self._sweep_seconds)
            with suppress(StemmaError):  # the next one does it
                await self.desk.blobs.sweep()

    def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._quiet_timer is not None:
            self._quiet_timer.cancel()
        self.feed.stop()
        self._stay.close()

    # ------------------------------------------------------------ who is in it

    def enter(self, guest: Guest, author: tuple[Did, bytes]) -> None:
        self.guests[guest] = None
        self.authors[author] = guest

    def leave(self, guest: Guest) -> None:
        self.guests.pop(guest, None)
        self._dirty.pop(guest, None)
        self._waiting.pop(guest, None)
        self._expecting.pop(guest, None)
        for author in [author for author, one in self.authors.items() if one is guest]:
            del self.authors[author]

    # ------------------------------------------------------------ following the log

    def _take(self, batch: Batch) -> None:
        """Each author is told at once, so that the next frame has the verdicts of all it covers (SYNC-2)."""
        if self._early is not None:
            self._early.append(batch)
            return
        self.shared.clear()
        self.counts.commits += len(batch.commits)
        self.counts.batch_commits.observe(len(batch.commits))
        self.counts.groups = self.feed.groups.count
        authors = self.authors
        for told in batch.commits:
            identity = told.commit.identity
            if isinstance(identity, LocalIdentity):
                guest = authors.get((identity.principal, identity.session))
                if guest is not None:
                    try:
                        guest.accepted(told)
                    except Exception as mistake:
                        guest.failed(mistake)
        if self.access.take_all(batch):
            for guest in tuple(self.guests):
                self._safely(guest, guest.rights_changed)
        expecting, self._expecting = self._expecting, {}
        for guest in expecting:
            self.touch(guest)
        if batch.to - self._quiet_checked >= self._quiet_versions:
            self._wake_quiet(batch.to, self._quiet_versions)
        if self._quiet_timer is None:
            self._quiet_timer = asyncio.get_running_loop().call_later(self._quiet_seconds, self._end_silence)

    def _end_silence(self) -> None:
        """A while after the first commit that a session has not heard of: what it reads and writes next is fresh."""
        self._quiet_timer = None
        self._wake_quiet(self.feed.version, behind=1)

    def _wake_quiet(self, version: Version, behind: int) -> None:
        """Those that are so far behind get a frame, though it be empty (SYNC-1)."""
        self._quiet_checked = version
        for guest in self.guests:
            if version - guest.to >= behind:
                guest.owe_frame()
                self.touch(guest)

    def touch(self, teller: Teller) -> None:
        """It has something to tell: all that are touched in one turn of the loop are flushed in the next.

        Not before: verdicts on commits that were sent again under an older session come after the feed (SYNC-2).
        """
        dirty = self._dirty
        if not dirty:
            asyncio.get_running_loop().call_soon(self._flush)
        dirty[teller] = None

    def expect(self, guest: Guest) -> None:
        """It has something to tell once the next batch is told: a read may be ahead of the feed."""
        self._expecting[guest] = None

    def wait(self, guest: Guest) -> None:
        """It has commits in a queue that is full: it is told when there is room, at the latest with its verdicts."""
        self._waiting[guest] = None

    def _flush(self) -> None:
        if self._waiting and self.space.has_room:
            waiting, self._waiting = self._waiting, {}
            for guest in waiting:
                guest.has_room()
        dirty, self._dirty = self._dirty, {}
        for teller in dirty:
            try:
                teller.flush()
            except Exception as mistake:
                teller.failed(mistake)
        self.choruses.gather()

    def _safely(self, guest: Guest, act: Callable[[], None]) -> None:
        """What goes wrong with one session ends that one and harms no other."""
        try:
            act()
        except Exception as mistake:
            guest.failed(mistake)
