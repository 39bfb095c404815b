"""Broadcast groups: one loop writes the same frame to all sessions with an equal watch at the same version (WATCH-2).

For the hundredth subscriber an event costs one write to a socket and little else. A session joins after it received a
frame that other sessions received too, and leaves as soon as it has anything of its own to send. While it is in the
group, the group holds its version; the session's own copy is brought up to date when it leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from stemmadb.protocol.model.values.ids import Hash, Version
from stemmadb.protocol.wire.version import Subprotocol
from stemmadb.server.counters import SpaceCounts
from stemmadb.server.service.base.transport import Socket, Write
from stemmadb.server.service.stream.shared_frames import EncodedFrame, SharedFrames
from stemmadb.server.service.watch.feed import Feed
from stemmadb.server.service.watch.watch_groups import WatchGroup

SUBSCRIBERS_MIN: Final = 3
"""The number of sessions with equal frames from which a broadcast group pays off."""


class BroadcastKey(NamedTuple):
    """What all subscribers of a broadcast group share: from the same version on, their frames are the same bytes."""

    subprotocol: Subprotocol
    group: WatchGroup
    watch: int


class Subscriber(Protocol):
    """An outbox, as its broadcast group uses it."""

    @property
    def to(self) -> Version: ...

    @property
    def socket(self) -> Socket: ...

    @property
    def broadcast_key(self) -> BroadcastKey | None:
        """The group it could join now; None if it has anything of its own to send or to wait for."""
        ...

    def join(self, broadcast: BroadcastGroup) -> None: ...

    def leave_broadcast(self) -> None: ...

    def flush(self) -> None: ...

    def failed(self, error: Exception) -> None:
        """Ends its session after an internal error."""
        ...

    def touch(self) -> None:
        """Asks to be flushed individually."""
        ...


class BroadcastGroup:
    """A member of its watch group, in place of the watches of its subscribers."""

    def __init__(self, broadcasts: BroadcastGroups, key: BroadcastKey, to: Version, hash_: Hash) -> None:
        self.key = key
        self.to = to
        self.hash = hash_
        self._broadcasts = broadcasts
        self._members: dict[Subscriber, Write] = {}
        """Each with the raw writer of its socket."""
        self._is_writing = False
        self._leaving: list[Subscriber] = []
        """Subscribers whose raw writer ended while a frame was being written."""
        key.group.join(self)

    def add(self, subscriber: Subscriber) -> bool:
        """False if its socket gives no raw writer now."""
        write = subscriber.socket.raw_writer(partial(self._writer_ended, subscriber))
        if write is not None:
            self._members[subscriber] = write
        return write is not None

    def _writer_ended(self, subscriber: Subscriber) -> None:
        if self._is_writing:
            self._leaving.append(subscriber)
        else:
            _detach(subscriber)

    def remove(self, subscriber: Subscriber) -> None:
        del self._members[subscriber]
        subscriber.socket.release_raw_writer()
        if not self._members:
            self._broadcasts.ended(self)
            self.key.group.leave(self)

    def stepped(self, group: WatchGroup) -> None:  # noqa: ARG002  what a group calls of its members
        self._broadcasts.touch(self)

    def failed(self, error: Exception) -> None:  # noqa: ARG002  each subscriber meets it again when it is flushed alone
        self._disband()

    def flush(self) -> None:
        """Sends what is new: the first subscriber builds the frame, all others get the same bytes."""
        group, to = self.key.group, self._broadcasts.feed.version
        if group.error is None and group.at < to:
            return  # it waits for a read, and publishes when it has caught up
        delta = None if group.error is not None else group.delta(self.to, to)
        if delta is None:
            self._disband()
        elif self._members and not delta.is_empty():
            self._publish(to)

    def _publish(self, to: Version) -> None:
        leader = next(iter(self._members))
        leader.leave_broadcast()
        try:
            leader.flush()
        except Exception as error:
            leader.failed(error)
            self._disband()
            return
        if not self._members:
            return
        key = self.key
        found = self._broadcasts.shared.find((key.subprotocol, self.to, to, key.group), key.watch)
        if found is None or leader.to != to:
            leader.touch()
            self._disband()
            return
        self._repeat(leader, found)

    def _repeat(self, leader: Subscriber, found: EncodedFrame) -> None:
        missed = self._write(leader.socket.framed(found.data))
        counts, sent, size = self._broadcasts.counts, len(self._members) - len(missed), len(found.data)
        counts.messages_out += sent
        counts.bytes_out += sent * size
        leader.socket.repeated(sent, size)
        for subscriber in missed:  # they are still at the version before this frame
            _detach(subscriber)
        self.to, self.hash = found.frame.to, found.frame.hash
        leaving, self._leaving = self._leaving, []
        for subscriber in leaving:
            if subscriber in self._members:
                _detach(subscriber)

    def _write(self, frame: bytes) -> list[Subscriber]:
        """Writes to all; returns the subscribers that failed. Each meets its error again when it is flushed alone."""
        missed: list[Subscriber] = []
        self._is_writing = True
        for subscriber, write in self._members.items():
            try:
                write(frame)
            except Exception:
                missed.append(subscriber)
        self._is_writing = False
        return missed

    def _disband(self) -> None:
        for subscriber in tuple(self._members):
            _detach(subscriber)


def _detach(subscriber: Subscriber) -> None:
    """From now on the subscriber is flushed individually."""
    subscriber.leave_broadcast()
    subscriber.touch()


class BroadcastGroups:
    """The broadcast groups of one space."""

    def __init__(
        self, feed: Feed, shared: SharedFrames, counts: SpaceCounts, touch: Callable[[BroadcastGroup], None]
    ) -> None:
        """`touch` schedules a group to be flushed together with the sessions."""
        self.feed = feed
        self.shared = shared
        self.counts = counts
        self.touch = touch
        self._broadcasts: dict[BroadcastKey, BroadcastGroup] = {}
        self._offered: list[Subscriber] = []

    def offer(self, subscriber: Subscriber) -> None:
        """The subscriber has just received a frame that others receive too."""
        self._offered.append(subscriber)

    def gather(self) -> None:
        """Called after all were flushed: groups the subscribers that received the same frame."""
        offered, self._offered = dict.fromkeys(self._offered), []
        if len(offered) < SUBSCRIBERS_MIN and not self._broadcasts:
            return
        alike: dict[BroadcastKey, list[Subscriber]] = {}
        for subscriber in offered:
            if subscriber.to == self.feed.version and (key := subscriber.broadcast_key) is not None:
                alike.setdefault(key, []).append(subscriber)
        for key, subscribers in alike.items():
            broadcast = self._broadcasts.get(key)
            if broadcast is None and len(subscribers) >= SUBSCRIBERS_MIN:
                broadcast = self._broadcasts[key] = BroadcastGroup(self, key, self.feed.version, self.feed.hash)
            if broadcast is not None and broadcast.to == self.feed.version:
                for subscriber in subscribers:
                    subscriber.join(broadcast)

    def ended(self, broadcast: BroadcastGroup) -> None:
        del self._broadcasts[broadcast.key]
