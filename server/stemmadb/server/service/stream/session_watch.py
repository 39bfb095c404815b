"""A watch of one session: which part of the shared answer its client has, and which is still to be sent (SYNC-3).

A watch is in one of these states:

- *joining*: it is registered, and no frame has named it yet. It joins with the frame that reaches the version of
  its group, and gets every change from then on.
- *filling*: entities that were in the answer when it joined are still *unsent*. They come in pages, each in a frame
  of its own, so that verdicts never wait behind them (SYNC-7). A change of an unsent entity is not sent; the page
  that brings the entity has the newer value.
- *filled*: nothing is unsent; the client has the whole answer.
- *catching up*: the journal of the group does not reach back to the client's version, so the difference is being
  evaluated and comes with the next frame.
- *over*: `error` says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from stemmadb.protocol.errors import Compacted, StemmaError, Unready
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, EntityId, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.messages.sync import Entered, Left
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.engine.read.entities import EntityValue
from stemmadb.server.service.stream.frames import ITEM_BYTES, Frame
from stemmadb.server.service.watch import evaluation
from stemmadb.server.service.watch.watch_groups import Delta, WatchGroup
from stemmadb.server.service.watch.watch_journal import compose
from stemmadb.server.service.watch.watch_reports import AGAIN_SECONDS, internal

PAGE_IDS_MAX: Final = 1_000
"""Entities that are read for one page."""
_SENT: Final = object()


def entered_item(watch: int, branch: BranchName, entity: EntityValue, *, with_body: bool) -> Entered:
    body = entity.body if with_body else None
    return Entered(watch=watch, branch=branch, id=entity.id, version=entity.version, hash=entity.hash, body=body)


def left_items(watch: int, branch: BranchName, ids: Iterable[EntityId]) -> list[Left]:
    return [Left(watch=watch, branch=branch, id=id_) for id_ in sorted(ids)]


class SessionWatch:
    """A member of its group for as long as it lives."""

    def __init__(
        self,
        number: int,
        group: WatchGroup,
        space: SpaceApi,
        limits: Limits,
        *,
        changed: Callable[[], None],
        notified_to: Version | None = None,
    ) -> None:
        """`notified_to` is given for a watch that goes on from there; `changed` is called when there may be news."""
        self.number = number
        self.group = group
        self.branch = group.prepared.branch
        self.joined: Callable[[Version | StemmaError], None] | None = None
        """Called once: with the version it starts at when it joins, or with the error if it never does."""
        self._space = space
        self._limits = limits
        self._changed = changed
        self._notified_to = notified_to
        self._base: Delta | None = None
        """A difference that was evaluated because no journal reached back; it is sent with the next frame."""
        self._unsent: dict[EntityId, EntityValue | None] | None = None
        """Entities that are still to be sent, with their value if it was read; None once filled."""
        self._in_flight: set[EntityId] = set()
        self._error: StemmaError | None = None
        self._task: asyncio.Task[None] | None = None
        group.join(self)

    # ------------------------------------------------------------ what the outbox asks

    @property
    def error(self) -> StemmaError | None:
        """Why it is over, if it is."""
        return self._error or self.group.error

    @property
    def is_caught_up(self) -> bool:
        """True once it is filled and has no difference of its own: its changes are exactly those of its group."""
        return self._unsent is None and self._base is None and self._error is None and self.group.error is None

    @property
    def notified_to(self) -> Version:
        """The version up to which its client was notified; a frame reaches at least this."""
        return EMPTY_SPACE if self._notified_to is None else self._notified_to

    def delta(self, to: Version) -> Delta | None:
        """What changed up to that version; None if it is not known yet, and is being found out."""
        assert self._notified_to is not None, "it has joined"
        change = self.group.delta(self._notified_to, to)
        if change is None:
            self._work(self._evaluate(self._notified_to))
            return None
        return change if self._base is None else compose((self._base, change))

    def stepped(self, group: WatchGroup) -> None:  # noqa: ARG002  what a group calls of its members
        self._changed()

    def leave(self) -> None:
        """It is over, for whichever reason."""
        self.group.leave(self)
        if self._task is not None:
            self._task.cancel()

    # ------------------------------------------------------------ what it puts into a frame

    def join(self, frame: Frame, before: SessionWatch | None) -> None:
        """Joins in this frame; the whole answer is unsent, except for what the watch that it replaces has sent."""
        self._notified_to = frame.to
        first = self.group.first()
        # By id, so that the same run gives the same frames.
        self._unsent = dict.fromkeys(sorted(self.group.entities())) if first is None else dict(first)
        if before is not None:
            self._replace(before, frame, self._unsent)
        if self.joined is not None:
            self.joined(frame.to)
            self.joined = None

    def _replace(self, before: SessionWatch, frame: Frame, unsent: dict[EntityId, EntityValue | None]) -> None:
        """The client has what the other watch sent, true at this version: only the difference is sent."""
        for id_ in sorted(before.group.entities() - (before._unsent or {}).keys()):
            if before.branch != self.branch or unsent.pop(id_, _SENT) is _SENT:
                frame.left.append(Left(watch=self.number, branch=before.branch, id=id_))

    def start_over(self) -> None:
        """Its client forgets everything: it will join anew."""
        self._notified_to = self._base = self._unsent = self._error = None
        self._in_flight.clear()

    def publish(self, frame: Frame, delta: Delta) -> Delta:
        """Puts what left into the frame; returns what is to be sent as facts or values."""
        self._notified_to, self._base = frame.to, None
        if self._unsent is not None:
            delta = self._sift(delta, self._unsent)
        if delta.left:
            frame.left += left_items(self.number, self.branch, delta.left)
        return delta

    def mark_notified(self, to: Version) -> None:
        """Its client got the frames of a broadcast group up to there."""
        self._notified_to = to

    def entered(self, entity: EntityValue, *, with_body: bool) -> Entered:
        return entered_item(self.number, self.branch, entity, with_body=with_body)

    def fill(self, frame: Frame) -> None:
        """Puts a page into the frame, if one was read, and says when it was the last."""
        if self._unsent is None:
            return
        capacity = self._limits.part_bytes_max
        for id_ in [id_ for id_, entity in self._unsent.items() if entity is not None]:
            entity = self._unsent[id_]
            assert entity is not None
            if capacity < self._limits.part_bytes_max and capacity < len(entity.body):
                return
            capacity -= len(entity.body) + ITEM_BYTES
            frame.entered.append(self.entered(entity, with_body=True))
            del self._unsent[id_]
        if not self._unsent:
            self._unsent = None
            frame.filled.append(self.number)
        else:
            self._work(self._read_page())

    def fail(self, error: StemmaError) -> bool:
        """Fails the request that waits for it to join; False if none does."""
        if self.joined is None:
            return False
        self.joined(error)
        self.joined = None
        return True

    def _sift(self, delta: Delta, unsent: dict[EntityId, EntityValue | None]) -> Delta:
        """Leaves out what the client does not have yet: its page will bring the value as it is then."""
        left = frozenset(id_ for id_ in delta.left if unsent.pop(id_, _SENT) is _SENT)
        for id_, entity in (*delta.entered.items(), *delta.updated.items()):
            if id_ in unsent or id_ in delta.entered:
                # A value that is being read is kept, or an entity that changes all the time would never be sent.
                unsent[id_] = entity if id_ in self._in_flight or unsent.get(id_) is not None else None
                self._in_flight.discard(id_)
        updated = {id_: entity for id_, entity in delta.updated.items() if id_ not in unsent}
        return Delta(entered={}, updated=updated, left=left)

    # ------------------------------------------------------------ reading, while the stream goes on

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        """One thing at a time: a page, or what changed since."""
        if self._task is not None:
            work.close()
            return
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._in_flight.clear()
        if task.cancelled():
            return
        failure = task.exception()
        if isinstance(failure, Unready):
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._changed)
            return
        if isinstance(failure, StemmaError):
            self._error = failure
        elif isinstance(failure, Exception):
            self._error = internal(failure, self.notified_to)
        self._changed()

    async def _read_page(self) -> None:
        assert self._unsent is not None
        assert self._notified_to is not None
        ids = self._page_of(id_ for id_, entity in self._unsent.items() if entity is None)
        self._in_flight = set(ids)
        try:
            found = await evaluation.values(self._space, self.branch, ids, self._notified_to, self.group.scope)
        except Compacted:  # just now, and the stream goes on to where it can be read
            return
        self._take_page(found)
        if not found:
            await asyncio.sleep(AGAIN_SECONDS)

    def _page_of(self, waiting: Iterable[EntityId]) -> list[EntityId]:
        """As many as fill a part of a frame, at least one."""
        ids: list[EntityId] = []
        capacity = self._limits.part_bytes_max
        for id_ in waiting:
            capacity -= self.group.size_of(id_) + ITEM_BYTES
            if ids and (capacity < 0 or len(ids) == PAGE_IDS_MAX):
                break
            ids.append(id_)
        return ids

    def _take_page(self, found: dict[EntityId, EntityValue]) -> None:
        """What changed while it was read has its value already."""
        unsent = self._unsent or {}
        for id_ in self._in_flight & unsent.keys():
            entity = found.get(id_)
            if entity is not None:  # else it was erased just now, and the next change says so
                unsent[id_] = entity

    async def _evaluate(self, after: Version) -> None:
        """For a client that was away or slow for longer than the group remembers (RESUME-1, SYNC-6)."""
        version, change = await evaluation.difference(
            self._space, self.group.prepared, self.group.scope, after=after, to=None, limits=self._limits
        )
        if self._notified_to == after:  # else its client has started over meanwhile
            self._base = change if self._base is None else compose((self._base, change))
            self._notified_to = version
