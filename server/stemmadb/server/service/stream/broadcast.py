"""Broadcast groups: a frame is built and encoded once for all sessions for which it is equal (WATCH-2).

A session that is current (`watcher_states`) is a subscriber of the broadcast group of its watches, alone or with
thousands: for each of them an event costs one write to a socket. The writes of a large frame, and those to thousands,
take several turns of the event loop, so that other spaces go on meanwhile. What came in those turns follows in one
frame, or batch by batch if that is too much for one. A subscriber leaves as soon as it has anything of its own to
send. While it is in the group, the group holds its version; the session's own copy is brought up to date when it
leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, Protocol

from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.values.ids import Hash, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.codec.msgpack_codec import Codec, Data
from stemmadb.protocol.wire.codec.subprotocols import codec_for
from stemmadb.protocol.wire.messages.sync import Entered
from stemmadb.protocol.wire.version import SUBPROTOCOLS, Subprotocol
from stemmadb.server.counters import SpaceCounts
from stemmadb.server.engine.read.entities import EntityValue
from stemmadb.server.service.base.transport import Socket, Write
from stemmadb.server.service.stream import frame_changes
from stemmadb.server.service.stream.frames import Frame
from stemmadb.server.service.stream.session_watch import entered_item, left_items
from stemmadb.server.service.watch.feed import Feed
from stemmadb.server.service.watch.watch_groups import Delta, WatchGroup

TURN_BYTES: Final = 256 * 1024
"""Bytes of one frame, sent to many, after which the rest of them is left to the next turn of the loop."""

TURN_WRITES: Final = 256
"""Subscribers that a frame is sent to in a turn, however small it is: a few milliseconds."""


PARTS_MAX: Final = 4
"""Parts of a frame that a group still sends: they are written one after the other, in one turn."""

CLOSE_FAILED: Final = 1011


class BroadcastKey(NamedTuple):
    """What all subscribers of a broadcast group share: from the same version on, their frames are the same bytes."""

    subprotocol: Subprotocol
    watches: tuple[tuple[int, WatchGroup], ...]
    """The watches of each subscriber, by their numbers."""
    sockets: type[Socket]
    """Of one class: others write a message in another way (`Socket.framed`)."""


class SharedWatch:
    """A watch of all subscribers, in place of one of each of them: a `frame_changes.FrameWatch`."""

    def __init__(self, number: int, group: WatchGroup) -> None:
        self.group = group
        self.branch = group.prepared.branch
        self._number = number

    def publish(self, frame: Frame, delta: Delta) -> Delta:
        if delta.left:
            frame.left += left_items(self._number, self.branch, delta.left)
        return delta

    def entered(self, entity: EntityValue, *, with_body: bool) -> Entered:
        return entered_item(self._number, self.branch, entity, with_body=with_body)


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

    def touch(self) -> None:
        """Asks to be flushed individually."""
        ...


class BroadcastGroup:
    """A member of its watch groups, in place of the watches of its subscribers."""

    def __init__(self, broadcasts: BroadcastGroups, key: BroadcastKey, to: Version, hash_: Hash) -> None:
        self.key = key
        self.to = to
        self.hash = hash_
        self._broadcasts = broadcasts
        self._members: dict[Subscriber, Write] = {}
        """Each with the raw writer of its socket."""
        self._frame: list[bytes] = []
        """The parts of the frame that is being sent; it takes all from `_before` to `to`."""
        self._sizes: list[int] = []
        """Those of its messages."""
        self._before = to, hash_
        self._unsent: dict[Subscriber, None] = {}
        """The subscribers that are still to be sent the frame."""
        self._is_touched = False
        self._is_writing = False
        self._leaving: list[Subscriber] = []
        """Subscribers whose raw writer ended while a frame was being written."""
        self._watches = [SharedWatch(number, group) for number, group in key.watches]
        for watch in self._watches:
            watch.group.join(self)

    def add(self, subscriber: Subscriber) -> bool:
        """False if its socket gives no raw writer now."""
        write = subscriber.socket.raw_writer(partial(self._writer_ended, subscriber))
        if write is not None:
            self._members[subscriber] = write
        return write is not None

    def standing(self, subscriber: Subscriber) -> tuple[Version, Hash]:
        """The version that the subscriber was sent last, and the hash of its commit."""
        return self._before if subscriber in self._unsent else (self.to, self.hash)

    def _writer_ended(self, subscriber: Subscriber) -> None:
        if self._is_writing:
            self._leaving.append(subscriber)
        else:
            _detach(subscriber)

    def remove(self, subscriber: Subscriber) -> None:
        del self._members[subscriber]
        self._unsent.pop(subscriber, None)
        subscriber.socket.release_raw_writer()
        self.end_if_deserted()

    def end_if_deserted(self) -> None:
        if not self._members:
            self._broadcasts.ended(self)
            for watch in self._watches:
                watch.group.leave(self)

    def withdraw(self) -> None:
        """Something was erased: the frame that is being sent may hold it, and goes to nobody else (ERASE-1).

        The others are flushed individually, and then only what is still there is looked up.
        """
        self._frame = []
        for subscriber in tuple(self._unsent):
            _detach(subscriber)

    @property
    def is_due(self) -> bool:
        """Whether a frame is being sent, or is to be built as soon as all is read that it takes."""
        return self._is_touched or any(watch.group.is_behind for watch in self._watches)

    def stepped(self, group: WatchGroup) -> None:  # noqa: ARG002  what a group calls of its members
        self._touch()

    def _touch(self) -> None:
        self._is_touched = True
        self._broadcasts.touch(self)

    def failed(self, error: Exception) -> None:  # noqa: ARG002  each subscriber meets it again when it is flushed alone
        self._disband()

    def flush(self) -> None:
        """Sends what is new to all subscribers; what is too much for a frame, each sends by itself."""
        self._is_touched = False
        if self._unsent:
            self._send()
        if self._unsent:
            return  # the next turn goes on
        feed, is_over = self._broadcasts.feed, any(watch.group.error is not None for watch in self._watches)
        to = min([feed.version, *(watch.group.at for watch in self._watches)])
        if not is_over and to <= self.to:
            return  # a watch waits for a read, and publishes when that is done
        if is_over or not (self._publish(to) or self._publish_first(to)):
            self._disband()

    def _publish_first(self, to: Version) -> bool:
        """The first of several batches, since all of them are too much for a frame; the others follow it."""
        for batch in self._broadcasts.feed.batches(self.to) or ():
            if batch.to >= to or not self._publish(batch.to):
                return False
            if self.to == batch.to:  # else there was nothing in it
                self._touch()
                return True
        return False

    def _publish(self, to: Version) -> bool:
        """Sends what is new up to a version; False if that is not known, or too much for a frame."""
        feed, limits = self._broadcasts.feed, self._broadcasts.limits
        hash_ = feed.hash if to == feed.version else feed.hash_at(to)
        deltas = [(watch, watch.group.journal.between(self.to, to)) for watch in self._watches]
        changes = [(watch, delta) for watch, delta in deltas if delta is not None]
        if hash_ is None or len(changes) < len(deltas):
            return False
        if all(delta.is_empty() for _, delta in changes):
            return True
        frame = Frame(self.to, to, hash_)
        frame_changes.add_changes(frame, changes, feed.batches(self.to), _has_no_bytes)
        parts = list(islice(frame.parts(limits.part_bytes_max), PARTS_MAX + 1))
        if len(parts) > PARTS_MAX:
            return False
        if self._members:
            messages = list(map(self._broadcasts.codecs[self.key.subprotocol].encode, parts))
            if len(messages) > 1 and sum(map(len, messages)) > self._broadcasts.unsent_bytes_max:
                return False
            self._begin(messages, frame.to, frame.hash)
        return True

    def _begin(self, messages: Sequence[Data], to: Version, hash_: Hash) -> None:
        socket = next(iter(self._members)).socket
        self._frame, self._sizes = [socket.framed(data) for data in messages], [len(data) for data in messages]
        self._before = self.to, self.hash
        self.to, self.hash = to, hash_
        self._unsent = dict.fromkeys(self._members)
        self._send()

    def _send(self) -> None:
        """Sends the frame to as many subscribers as one turn of the loop may take."""
        now = list(islice(self._unsent, max(1, min(TURN_WRITES, TURN_BYTES // sum(self._sizes)))))
        missed = self._write(now)
        counts, sent = self._broadcasts.counts, len(now) - len(missed)
        for size in self._sizes:
            counts.messages_out += sent
            counts.bytes_out += sent * size
            now[0].socket.repeated(sent, size)
        leaving, self._leaving = self._leaving, []
        for subscriber in (*missed, *leaving):
            if subscriber in self._members:
                _detach(subscriber)
        if self._unsent:
            self._touch()
        else:
            self._frame = []  # there may be a group for each session, and nothing new for long

    def _write(self, subscribers: Sequence[Subscriber]) -> list[Subscriber]:
        """Writes to them; returns those that failed. Each meets its error again when it is flushed alone."""
        missed: list[Subscriber] = []
        self._is_writing = True
        for subscriber in subscribers:
            begun = False
            try:
                for part in self._frame:
                    self._members[subscriber](part)
                    begun = True
            except Exception:
                missed.append(subscriber)
                if begun:  # its client waits for the other parts, which it cannot get from here any more
                    subscriber.socket.close(CLOSE_FAILED)
            else:
                del self._unsent[subscriber]
        self._is_writing = False
        return missed

    def _disband(self) -> None:
        for subscriber in tuple(self._members):
            _detach(subscriber)


def _has_no_bytes(_: LocalIdentity) -> bool:
    """What is a subscriber's own commit comes with its verdict, and it has left the group then."""
    return False


def _detach(subscriber: Subscriber) -> None:
    """From now on the subscriber is flushed individually."""
    subscriber.leave_broadcast()
    subscriber.touch()


class BroadcastGroups:
    """The broadcast groups of one space."""

    def __init__(
        self,
        feed: Feed,
        counts: SpaceCounts,
        limits: Limits,
        touch: Callable[[BroadcastGroup], None],
        *,
        unsent_bytes_max: int,
    ) -> None:
        """`touch` schedules a group to be flushed together with the sessions."""
        self.feed = feed
        self.counts = counts
        self.limits = limits
        self.unsent_bytes_max = unsent_bytes_max
        self.codecs: Final[Mapping[Subprotocol, Codec]] = {one: codec_for(one, limits) for one in SUBPROTOCOLS}
        self.touch = touch
        self._broadcasts: dict[BroadcastKey, BroadcastGroup] = {}
        self._offered: dict[Subscriber, None] = {}

    def offer(self, subscriber: Subscriber) -> None:
        """The subscriber was sent a frame that others could have been sent too: it may be current now."""
        self._offered[subscriber] = None

    def gather(self) -> None:
        """Called after all were flushed: those that are current join the group of their watches."""
        if not self._offered:
            return
        offered, self._offered = self._offered, {}
        for subscriber in offered:
            if subscriber.to == self.feed.version and (key := subscriber.broadcast_key) is not None:
                broadcast = self._broadcasts.get(key)
                if broadcast is None:
                    broadcast = BroadcastGroup(self, key, self.feed.version, self.feed.hash)
                    self._broadcasts[key] = broadcast
                if broadcast.to == self.feed.version:  # else after its next frame
                    subscriber.join(broadcast)
                broadcast.end_if_deserted()

    def withdraw(self) -> None:
        """Something was erased: no frame that was built before is sent any further."""
        for broadcast in tuple(self._broadcasts.values()):
            broadcast.withdraw()

    def ended(self, broadcast: BroadcastGroup) -> None:
        del self._broadcasts[broadcast.key]
