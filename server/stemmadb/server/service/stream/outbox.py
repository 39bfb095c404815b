"""The one ordered stream of a session: verdicts, changes and answers, each frame a consistent cut (SYNC-1..7).

There are two ways to send. A session that watches nothing gets a frame with its verdicts alone. All else is a frame
of changes: built for the session alone while it has anything of its own to send (`flush`), or built once by its
broadcast group for all that are current (`broadcast`, `watcher_states`).

Nothing is built for a client that does not read: past `unsent_bytes_max` the outbox waits, and when the client has
drained, one frame takes it from its version to now (SYNC-6). Verdicts wait here; everything else is looked up in the
batches of the feed and the journals of the watch groups when the frame is built.

Example: a session stands at version 4 and watches `urn:a:*`.

    batch 5 changes urn:a:1      it is current: its broadcast group sends the frame 4 -> 5
    its own commit is at 6       it leaves the group and is behind: a frame of its own, 5 -> 6, has the verdict
    the client stops reading     batches 7 to 9 come; it is stalled: nothing is built, its own verdict at 8 waits
    the client has drained       one frame, 6 -> 9: the net change of the watch, and the verdict at 8
    the watch ends               its `ended` goes into the next frame, after everything before it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from stemmadb.protocol.errors import Compacted, StemmaError
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Hash, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.codec.fast_path import Own
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.connection import problems
from stemmadb.protocol.wire.connection.base import ConnectionState
from stemmadb.protocol.wire.connection.server_side import ServerConnection
from stemmadb.protocol.wire.messages.commit import Verdict
from stemmadb.protocol.wire.messages.sync import Ended, Kept, Reset, Sync
from stemmadb.server.counters import SpaceCounts
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.service.base.transport import DRAIN_BYTES, Socket
from stemmadb.server.service.stream import frame_changes
from stemmadb.server.service.stream.awaiting import PendingAnswer, PendingAnswers, PendingVerdicts
from stemmadb.server.service.stream.broadcast import BroadcastGroup, BroadcastGroups, BroadcastKey
from stemmadb.server.service.stream.frame_changes import HasBytes
from stemmadb.server.service.stream.frames import Frame
from stemmadb.server.service.stream.session_watch import SessionWatch
from stemmadb.server.service.stream.watcher_states import WatcherState
from stemmadb.server.service.watch.feed import Feed
from stemmadb.server.service.watch.watch_groups import Delta

FEW_VERDICTS: Final = 16
"""Verdicts that are sent in one message without looking at their size: those of accepted commits are small."""


class _Reach(NamedTuple):
    """How far a frame can go now, and what has changed for each watch on the way."""

    to: Version
    hash: Hash
    changes: list[tuple[SessionWatch, Delta]]


class Outbox:
    """Belongs to one connection of one session."""

    def __init__(
        self,
        connection: ServerConnection,
        socket: Socket,
        feed: Feed,
        broadcasts: BroadcastGroups,
        counts: SpaceCounts,
        *,
        limits: Limits,
        settings: ServiceSettings,
        has_bytes: HasBytes,
    ) -> None:
        self.socket: Final = socket
        self.watches: dict[int, SessionWatch] = {}
        self._joining: dict[int, SessionWatch] = {}
        self._connection = connection
        self._feed = feed
        self._broadcasts = broadcasts
        self._counts = counts
        self._limits = limits
        self._unsent_bytes_max = settings.unsent_bytes_max
        self._has_bytes = has_bytes
        self._verdicts = PendingVerdicts()
        self._answers = PendingAnswers(settings.answer_wait_ms)
        self._refused: list[Ended] = []
        self._parts: Iterator[Sync] | None = None
        self._reset: Reset | None = None
        self._kept: Sequence[Kept] = ()
        self._to = EMPTY_SPACE
        self._broadcast: BroadcastGroup | None = None
        """The group that sends the changes of its watches, as long as it is current."""
        self._may_be_current = False
        """Whether the frame that is being sent could have been sent to others too."""
        self._is_started = False
        self._is_due = False
        self._is_ahead = False
        """Whether what was read is ahead of the feed, which will follow."""

    @property
    def to(self) -> Version:
        """The version its client was sent last."""
        return self._to if self._broadcast is None else self._broadcast.standing(self)[0]

    @property
    def is_shared_due(self) -> bool:
        """Whether its broadcast group is about to send it a frame, or is sending one to its members now."""
        return self._broadcast is not None and self._broadcast.is_due

    # ------------------------------------------------------------ what is put in

    def start(self, to: Version, *, reset: Reset | None = None, kept: Sequence[Kept] = ()) -> None:
        """The first frame may be built: it goes on from what the client holds, or starts over."""
        self._to = EMPTY_SPACE if reset else to
        self._reset, self._kept = reset, kept
        self._is_started = self._is_due = True

    def decide(self, verdict: Verdict, at: Version) -> None:
        """On an own commit; a frame with it reaches this version at least."""
        if self._broadcast is not None:
            self.leave_broadcast()
        self._verdicts.add(verdict, at)

    def accept(self, own: Own) -> None:
        """As `decide`, on a commit of this session that was accepted."""
        if self._broadcast is not None:
            self.leave_broadcast()
        self._verdicts.add_own(own)

    def answer(self, version: Version, send: Callable[[], None], give_up: Callable[[], None]) -> None:
        """Sends a result with state once the stream has reached its version (SYNC-7).

        Gives up after `answer_wait_ms`: then the answer says `unavailable`, and the client asks again.
        """
        if version <= self.to:
            send()
        else:
            self.leave_broadcast()
            self._answers.add(PendingAnswer(version, send, give_up), lambda: self.is_stalled)

    def forget_values(self) -> None:
        """What waits was read before something was erased: clients ask again for answers (ERASE-1)."""
        self._verdicts.forget_values()
        self._answers.give_up()

    def owe(self) -> None:
        """A frame is due even if it is empty: the session has had none for a while."""
        self.leave_broadcast()
        self._is_due = True

    def add(self, watch: SessionWatch, *, goes_on: bool) -> None:
        """One that goes on was notified up to `to`; a new one joins, and then replaces one of the same number."""
        self.leave_broadcast()
        place = self.watches if goes_on else self._joining
        if (before := place.get(watch.number)) is not None:
            self._let_go(before)
        place[watch.number] = watch
        self._counts.watches += 1

    def remove(self, number: int) -> None:
        self.leave_broadcast()
        for place in (self.watches, self._joining):
            if (watch := place.pop(number, None)) is not None:
                self._let_go(watch)

    def _let_go(self, watch: SessionWatch) -> None:
        watch.leave()
        self._counts.watches -= 1

    def refuse(self, number: int, error: StemmaError) -> None:
        """A watch that the client wanted to resume cannot go on."""
        self.leave_broadcast()
        self._refused.append(problems.ended(number, error, limits=self._limits))

    def end_watches(self, error: StemmaError) -> None:
        """All of them are over."""
        for number in self.watches.keys() | self._joining.keys():
            joining = self._joining.get(number)
            if joining is None or not joining.fail(error) or number in self.watches:
                self.refuse(number, error)
            self.remove(number)

    @property
    def count(self) -> int:
        return len(self.watches.keys() | self._joining.keys())

    def holds(self, number: int) -> bool:
        return number in self.watches or number in self._joining

    def close(self) -> None:
        for number in [*self.watches, *self._joining]:
            self.remove(number)
        self._answers.close()
        self._is_started = False

    # ------------------------------------------------------------ what goes out

    @property
    def is_stalled(self) -> bool:
        return self.socket.unsent > self._unsent_bytes_max

    @property
    def is_in_parts(self) -> bool:
        """Whether a frame was begun whose last part is not sent yet."""
        return self._parts is not None

    @property
    def has_drained(self) -> bool:
        return self.socket.unsent <= DRAIN_BYTES

    @property
    def verdict_bytes(self) -> int:
        """What the verdicts that wait take in memory, about."""
        return self._verdicts.size

    @property
    def state(self) -> WatcherState:
        if self._broadcast is not None:
            return WatcherState.CURRENT
        return WatcherState.STALLED if self.is_stalled else WatcherState.BEHIND

    @property
    def expects_more(self) -> bool:
        """Whether something waits for a version that the feed has not published yet."""
        return bool(self._answers.waiting or self._verdicts.decided or self._is_ahead)

    def flush(self) -> None:
        """Builds and sends frames as long as there is something to send and the client reads."""
        if self._broadcast is not None:
            self.leave_broadcast()
        is_more = self._is_started
        while is_more and self._connection.state is ConnectionState.OPEN and not self.is_stalled:
            if self._parts is not None:
                self._send_part(self._parts)
            else:
                is_more = self._send_verdicts() if self._has_verdicts_only else self._begin_frame()

    @property
    def _has_verdicts_only(self) -> bool:
        """Whether the session watches nothing, so that a frame has at most a few verdicts, as for most writers."""
        if self.watches or self._joining or self._refused or self._reset:
            return False
        return len(self._verdicts.decided) <= FEW_VERDICTS and not self._verdicts.against

    @property
    def _has_extras(self) -> bool:
        """Whether the next frame has something in it that is this session's alone."""
        return bool(self._verdicts.decided or self._joining or self._refused or self._reset)

    def _owes(self, to: Version) -> bool:
        """Whether a frame to that version is due even if empty: an answer waits for it, or `owe` was called."""
        return self._is_due or (bool(self._answers.waiting) and self._answers.are_due(to))

    def send(self, data: Data) -> None:
        """At once: a frame, or what may stand between two of them."""
        self._counts.messages_out += 1
        self._counts.bytes_out += len(data)
        self.socket.send(data)

    def _reached(self, to: Version) -> None:
        self._to, self._is_due = to, False
        if self._answers.waiting:
            self._answers.release(to)

    # ------------------------------------------------------------ verdicts to their author

    def _send_verdicts(self) -> bool:
        """A frame with the verdicts that wait, or an empty one that is due; False if nothing more can be sent."""
        feed, connection = self._feed, self._connection
        to = feed.version
        if to < self._to:
            return False
        own = self._verdicts.take_own(to)
        if own is not None:
            data = connection.encode_accepted(self._to, to, feed.hash, own)
        else:
            verdicts = tuple(self._verdicts.take(to))
            if not (verdicts or self._owes(to)):
                return False
            data = connection.send(Sync(from_=self._to, to=to, hash=feed.hash, verdicts=verdicts))
        assert data is not None, "the session is open"
        self.send(data)
        self._reached(to)
        return bool(self._verdicts.decided)

    # ------------------------------------------------------------ a frame of its own

    def _send_part(self, parts: Iterator[Sync]) -> None:
        part = next(parts)
        data = self._connection.send(part)
        assert data is not None, "the session is open"
        self.send(data)
        if not part.more:
            self._parts = None
            self._reached(part.to)
            if self._may_be_current:
                self._broadcasts.offer(self)

    def _begin_frame(self) -> bool:
        """Begins the next frame; False if there is nothing to send, or not yet."""
        if self._is_up_to_date:
            return False
        self._restart_below_floor()
        reach = self._reach()
        if reach is None:
            return False
        frame, replacing = self._frame(reach)
        if frame.is_empty and not self._owes(frame.to):
            return replacing  # what replaced them has more than fits into the frame it began in
        frame.kept, self._kept, self._reset = list(self._kept), (), None
        self._may_be_current = not frame.verdicts
        self._parts = frame.parts(self._limits.part_bytes_max)
        return True

    @property
    def _is_up_to_date(self) -> bool:
        """Whether there is clearly nothing to send, as for most sessions right after a frame."""
        to = self._feed.version
        if self._to != to or self._has_extras or self._owes(to):
            return False
        return all(watch.is_caught_up and watch.group.at == to for watch in self.watches.values())

    def _frame(self, reach: _Reach) -> tuple[Frame, bool]:
        """The frame, and whether a watch has replaced another in it."""
        frame = Frame(self._to, reach.to, reach.hash, reset=self._reset)
        frame.verdicts = self._verdicts.take(frame.to)
        self._take_ended(frame)
        batches = None if self._reset else self._feed.batches(self._to)
        frame_changes.add_changes(frame, reach.changes, batches, self._has_bytes)
        replacing = self._take_joining(frame)
        for number, watch in self.watches.items():
            if number not in replacing:  # what the one before has lost may enter again, and comes in the next frame
                watch.fill(frame)
        return frame, bool(replacing)

    def _take_ended(self, frame: Frame) -> None:
        frame.ended += self._refused
        self._refused = []
        for place in (self.watches, self._joining):
            for number, watch in list(place.items()):
                if (error := watch.error) is not None:
                    if not watch.fail(error):
                        frame.ended.append(problems.ended(number, error, limits=self._limits))
                    del place[number]
                    self._let_go(watch)

    def _take_joining(self, frame: Frame) -> set[int]:
        """A watch joins where its group is; those that replace another are returned.

        One whose number ends in this frame joins in the next.
        """
        replacing: set[int] = set()
        ended = {one.watch for one in frame.ended}
        for number, watch in list(self._joining.items()):
            if number not in ended and watch.group.at == frame.to == self._feed.version:
                before = self.watches.get(number)
                watch.join(frame, before)
                if before is not None:
                    replacing.add(number)
                    self._let_go(before)
                self.watches[number] = self._joining.pop(number)
        return replacing

    # ------------------------------------------------------------ how far it goes

    def _reach(self) -> _Reach | None:
        going = [watch for watch in self.watches.values() if watch.error is None]
        to = min([self._feed.version, *(watch.group.at for watch in going)])
        self._is_ahead = to < self._to or any(to < watch.notified_to for watch in going)
        if self._is_ahead:
            return None
        hash_ = self._hash_at(to)
        deltas = [(watch, watch.delta(to)) for watch in going]
        known = [(watch, delta) for watch, delta in deltas if delta is not None]
        if hash_ is None or len(known) < len(deltas):
            return None
        return _Reach(to, hash_, known)

    def _hash_at(self, to: Version) -> Hash | None:
        if to == self._feed.version:
            return self._feed.hash
        return self._feed.hash_at(to)

    def _restart_below_floor(self) -> None:
        """A client so far behind that what it holds was compacted away starts over (RESUME-1)."""
        if any(isinstance(watch.error, Compacted) for watch in self.watches.values()):
            self.start(EMPTY_SPACE, reset="floor")
            going, self.watches = self.watches, {}
            for number, watch in going.items():
                watch.start_over()
                if self._joining.setdefault(number, watch) is not watch:
                    self._let_go(watch)

    # ------------------------------------------------------------ in a broadcast group

    @property
    def broadcast_key(self) -> BroadcastKey | None:
        """See `Subscriber`."""
        if self._broadcast is not None or not self.watches or not self._is_started or self._parts is not None:
            return None
        if self._has_extras or self._is_due or self._answers.waiting:
            return None
        if not all(watch.is_caught_up and watch.notified_to == self._to for watch in self.watches.values()):
            return None
        if not self.has_drained or self._unsent_bytes_max < DRAIN_BYTES:  # a group notices only the latter
            return None
        connection = self._connection
        if connection.state is not ConnectionState.OPEN:
            return None
        watches = tuple((number, self.watches[number].group) for number in sorted(self.watches))
        return BroadcastKey(connection.subprotocol, watches, type(self.socket))

    def join(self, broadcast: BroadcastGroup) -> None:
        """The broadcast group takes the place of the watches in their watch groups."""
        if not broadcast.add(self):
            return
        self._broadcast = broadcast
        for watch in self.watches.values():
            watch.group.leave(watch)

    def leave_broadcast(self) -> None:
        """From here on the session sends its own frames again."""
        broadcast = self._broadcast
        if broadcast is not None:
            self._to, hash_ = broadcast.standing(self)
            for watch in self.watches.values():
                watch.group.join(watch)
                watch.mark_notified(self._to)
            self._connection.told(self._to, hash_)
            self._broadcast = None
            broadcast.remove(self)

    def touch(self) -> None:
        for watch in self.watches.values():
            watch.stepped(watch.group)
