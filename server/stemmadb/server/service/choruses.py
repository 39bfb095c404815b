"""Choruses: sessions that watch the same and stand at one version are told by one loop over their sockets (WATCH-2).

An event costs its hundredth watcher a write to a socket and little else. A session joins after it was told by a frame
that others got as well, and leaves as soon as there is anything that concerns it alone. Meanwhile it stands where its
chorus stands: what it keeps of that itself is brought up to date when it leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from stemmadb.protocol.model.ids import Hash, Version
from stemmadb.protocol.wire.version import Subprotocol
from stemmadb.server.counting import SpaceCounts
from stemmadb.server.service.feed import Feed
from stemmadb.server.service.groups import Group
from stemmadb.server.service.shared_frames import Encoded, SharedFrames
from stemmadb.server.service.sockets import Socket, Write

SINGERS_MIN: Final = 3
"""So many that are told the same are worth a chorus."""


class Part(NamedTuple):
    """What the members of a chorus have alike: their frames are the same bytes from the same version on."""

    subprotocol: Subprotocol
    group: Group
    watch: int


class Singer(Protocol):
    """An outbox, as its chorus uses it."""

    @property
    def to(self) -> Version: ...

    @property
    def socket(self) -> Socket: ...

    @property
    def part(self) -> Part | None:
        """The part it could sing now; None if it has anything to tell, or to wait for, that is its own."""
        ...

    def join(self, chorus: Chorus) -> None: ...

    def leave_chorus(self) -> None: ...

    def flush(self) -> None: ...

    def failed(self, mistake: Exception) -> None:
        """A mistake of ours was made with it, which ends its session."""
        ...

    def touch(self) -> None:
        """It is to be flushed by itself."""
        ...


class Chorus:
    """A member of its group, in the place of the watches of its members."""

    def __init__(self, choruses: Choruses, part: Part, to: Version, hash_: Hash) -> None:
        self.part = part
        self.to = to
        self.hash = hash_
        self._choruses = choruses
        self._members: dict[Singer, Write] = {}
        """Each with what its socket has lent."""
        self._is_writing = False
        self._leaving: list[Singer] = []
        """Those that could be written to for the last time."""
        part.group.join(self)

    def add(self, singer: Singer) -> bool:
        """Whether it could be."""
        write = singer.socket.lend(partial(self._cannot_go_on, singer))
        if write is not None:
            self._members[singer] = write
        return write is not None

    def _cannot_go_on(self, singer: Singer) -> None:
        if self._is_writing:
            self._leaving.append(singer)
        else:
            _tell_apart(singer)

    def remove(self, singer: Singer) -> None:
        del self._members[singer]
        singer.socket.give_back()
        if not self._members:
            self._choruses.ended(self)
            self.part.group.leave(self)

    def stepped(self, group: Group) -> None:  # noqa: ARG002  what a group calls of its members
        self._choruses.touch(self)

    def failed(self, mistake: Exception) -> None:  # noqa: ARG002  each of them meets it again, and is told by itself
        self._disband()

    def flush(self) -> None:
        """Tells its members what is new: the first of them the long way, all others with the same bytes."""
        group, to = self.part.group, self._choruses.feed.version
        if group.error is None and group.at < to:
            return  # it waits for a read, and tells when it has caught up
        delta = None if group.error is not None else group.delta(self.to, to)
        if delta is None:
            self._disband()
        elif self._members and not delta.is_empty():
            self._tell(to)

    def _tell(self, to: Version) -> None:
        leader = next(iter(self._members))
        leader.leave_chorus()
        try:
            leader.flush()
        except Exception as mistake:
            leader.failed(mistake)
            self._disband()
            return
        if not self._members:
            return
        part = self.part
        found = self._choruses.shared.find((part.subprotocol, self.to, to, part.group), part.watch)
        if found is None or leader.to != to:
            leader.touch()
            self._disband()
            return
        self._repeat(leader, found)

    def _repeat(self, leader: Singer, found: Encoded) -> None:
        untold = self._write(leader.socket.framed(found.data))
        counts, told, size = self._choruses.counts, len(self._members) - len(untold), len(found.data)
        counts.messages_out += told
        counts.bytes_out += told * size
        leader.socket.repeated(told, size)
        for singer in untold:  # they still stand where the chorus stood
            _tell_apart(singer)
        self.to, self.hash = found.frame.to, found.frame.hash
        leaving, self._leaving = self._leaving, []
        for singer in leaving:
            if singer in self._members:
                _tell_apart(singer)

    def _write(self, frame: bytes) -> list[Singer]:
        """To all of them; gives those that were not told. A mistake with one is met again when it is flushed."""
        untold: list[Singer] = []
        self._is_writing = True
        for singer, write in self._members.items():
            try:
                write(frame)
            except Exception:
                untold.append(singer)
        self._is_writing = False
        return untold

    def _disband(self) -> None:
        for singer in tuple(self._members):
            _tell_apart(singer)


def _tell_apart(singer: Singer) -> None:
    """From now on it is told by itself."""
    singer.leave_chorus()
    singer.touch()


class Choruses:
    """Of one space."""

    def __init__(
        self, feed: Feed, shared: SharedFrames, counts: SpaceCounts, touch: Callable[[Chorus], None]
    ) -> None:
        """`touch` has a chorus flushed with the sessions."""
        self.feed = feed
        self.shared = shared
        self.counts = counts
        self.touch = touch
        self._choruses: dict[Part, Chorus] = {}
        self._offered: list[Singer] = []

    def offer(self, singer: Singer) -> None:
        """It was just told by a frame that others get as well."""
        self._offered.append(singer)

    def gather(self) -> None:
        """After all were flushed: those that were told the same sing together from now on."""
        offered, self._offered = dict.fromkeys(self._offered), []
        if len(offered) < SINGERS_MIN and not self._choruses:
            return
        alike: dict[Part, list[Singer]] = {}
        for singer in offered:
            if singer.to == self.feed.version and (part := singer.part) is not None:
                alike.setdefault(part, []).append(singer)
        for part, singers in alike.items():
            chorus = self._choruses.get(part)
            if chorus is None and len(singers) >= SINGERS_MIN:
                chorus = self._choruses[part] = Chorus(self, part, self.feed.version, self.feed.hash)
            if chorus is not None and chorus.to == self.feed.version:
                for singer in singers:
                    singer.join(chorus)

    def ended(self, chorus: Chorus) -> None:
        del self._choruses[chorus.part]
