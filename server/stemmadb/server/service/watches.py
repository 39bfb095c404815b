"""A watch of one session: what its client was told of the shared answer, and what is still to be told (SYNC-3).

A watch begins by *joining*: from the frame that reaches the version of its group on it is told what changes. What
the answer held then is *untold* and comes in pages, each in a frame of its own, so that verdicts never wait behind it
(SYNC-7); what changes meanwhile among the untold is not told but read later. When nothing is untold it is *filled*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from stemmadb.protocol.errors import Compacted, StemmaError, Unready
from stemmadb.protocol.model.ids import EMPTY_SPACE, EntityId, Version
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.wire.messages.sync import Entered, Left
from stemmadb.server.engine.api import SpaceApi
from stemmadb.server.engine.reading import Entity
from stemmadb.server.service import evaluating
from stemmadb.server.service.frames import ITEM_BYTES, Frame
from stemmadb.server.service.groups import Delta, Group
from stemmadb.server.service.journals import compose
from stemmadb.server.service.watch_reports import AGAIN_SECONDS, internal

PAGE_IDS_MAX: Final = 1_000
"""Entities that are read for one page."""
_TOLD: Final = object()


class Watch:
    """A member of its group for as long as it lives."""

    def __init__(
        self,
        number: int,
        group: Group,
        space: SpaceApi,
        limits: Limits,
        *,
        changed: Callable[[], None],
        told_to: Version | None = None,
    ) -> None:
        """`told_to` is given for a watch that goes on from there; `changed` is called when there may be news."""
        self.number = number
        self.group = group
        self.branch = group.prepared.branch
        self.joined: Callable[[Version | StemmaError], None] | None = None
        """Called once: with the version it starts at when it joins, or with the error if it never does."""
        self._space = space
        self._limits = limits
        self._changed = changed
        self._told_to = told_to
        self._base: Delta | None = None
        """What was found out by evaluating anew and is told with the next frame."""
        self._untold: dict[EntityId, Entity | None] | None = None
        """What is still to be told, with the value if that was read; None once filled."""
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
    def is_plain(self) -> bool:
        """Whether it is filled and was told all up to a frame: what is news to it is news to its whole group."""
        return self._untold is None and self._base is None and self._error is None and self.group.error is None

    @property
    def told_to(self) -> Version:
        """What a frame has to reach at least."""
        return EMPTY_SPACE if self._told_to is None else self._told_to

    def delta(self, to: Version) -> Delta | None:
        """What changed up to that version; None if it is not known yet, and is being found out."""
        assert self._told_to is not None, "it has joined"
        change = self.group.delta(self._told_to, to)
        if change is None:
            self._work(self._evaluate(self._told_to))
            return None
        return change if self._base is None else compose((self._base, change))

    def stepped(self, group: Group) -> None:  # noqa: ARG002  what a group calls of its members
        self._changed()

    def leave(self) -> None:
        """It is over, for whichever reason."""
        self.group.leave(self)
        if self._task is not None:
            self._task.cancel()

    # ------------------------------------------------------------ what it puts into a frame

    def join(self, frame: Frame, before: Watch | None) -> None:
        """Starts here; everything the answer holds is untold, but for what the watch that it replaces has told."""
        self._told_to = frame.to
        first = self.group.first()
        # By id, so that the same run gives the same frames.
        self._untold = dict.fromkeys(sorted(self.group.entities())) if first is None else dict(first)
        if before is not None:
            self._replace(before, frame, self._untold)
        if self.joined is not None:
            self.joined(frame.to)
            self.joined = None

    def _replace(self, before: Watch, frame: Frame, untold: dict[EntityId, Entity | None]) -> None:
        """The client holds what the other has told, true at this version: only the difference is told."""
        for id_ in sorted(before.group.entities() - (before._untold or {}).keys()):
            if before.branch != self.branch or untold.pop(id_, _TOLD) is _TOLD:
                frame.left.append(Left(watch=self.number, branch=before.branch, id=id_))

    def start_over(self) -> None:
        """Its client forgets everything: it will join anew."""
        self._told_to = self._base = self._untold = self._error = None
        self._in_flight.clear()

    def tell(self, frame: Frame, delta: Delta) -> Delta:
        """Puts what entered and left into the frame; gives what is to be told as facts or values."""
        self._told_to, self._base = frame.to, None
        if self._untold is not None:
            delta = self._sift(delta, self._untold)
        number, branch = self.number, self.branch
        frame.left += [Left(watch=number, branch=branch, id=id_) for id_ in sorted(delta.left)]
        return delta

    def was_told(self, to: Version) -> None:
        """By a frame that was made for another member of the group."""
        self._told_to = to

    def entered(self, entity: Entity, *, with_body: bool) -> Entered:
        return Entered(
            watch=self.number,
            branch=self.branch,
            id=entity.id,
            version=entity.version,
            hash=entity.hash,
            body=entity.body if with_body else None,
        )

    def fill(self, frame: Frame) -> None:
        """Puts a page into the frame, if one was read, and says when it was the last."""
        if self._untold is None:
            return
        room = self._limits.part_bytes_max
        for id_ in [id_ for id_, entity in self._untold.items() if entity is not None]:
            entity = self._untold[id_]
            assert entity is not None
            if room < self._limits.part_bytes_max and room < len(entity.body):
                return
            room -= len(entity.body) + ITEM_BYTES
            frame.entered.append(self.entered(entity, with_body=True))
            del self._untold[id_]
        if not self._untold:
            self._untold = None
            frame.filled.append(self.number)
        else:
            self._work(self._read_page())

    def fail(self, error: StemmaError) -> bool:
        """Tells who waits for it to join that it will not; whether somebody did."""
        if self.joined is None:
            return False
        self.joined(error)
        self.joined = None
        return True

    def _sift(self, delta: Delta, untold: dict[EntityId, Entity | None]) -> Delta:
        """Takes out what the client was not told of yet: it will be told as it is when its page comes."""
        left = frozenset(id_ for id_ in delta.left if untold.pop(id_, _TOLD) is _TOLD)
        for id_, entity in (*delta.entered.items(), *delta.updated.items()):
            if id_ in untold or id_ in delta.entered:
                # What a read is under way for is kept, else something that changes all the time would never be told.
                untold[id_] = entity if id_ in self._in_flight or untold.get(id_) is not None else None
                self._in_flight.discard(id_)
        updated = {id_: entity for id_, entity in delta.updated.items() if id_ not in untold}
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
            self._error = internal(failure, self.told_to)
        self._changed()

    async def _read_page(self) -> None:
        assert self._untold is not None
        assert self._told_to is not None
        ids = self._page_of(id_ for id_, entity in self._untold.items() if entity is None)
        self._in_flight = set(ids)
        try:
            found = await evaluating.values(self._space, self.branch, ids, self._told_to, self.group.scope)
        except Compacted:  # just now, and the stream goes on to where it can be read
            return
        self._take_page(found)
        if not found:
            await asyncio.sleep(AGAIN_SECONDS)

    def _page_of(self, waiting: Iterable[EntityId]) -> list[EntityId]:
        """As many as fill a part of a frame, at least one."""
        ids: list[EntityId] = []
        room = self._limits.part_bytes_max
        for id_ in waiting:
            room -= self.group.size_of(id_) + ITEM_BYTES
            if ids and (room < 0 or len(ids) == PAGE_IDS_MAX):
                break
            ids.append(id_)
        return ids

    def _take_page(self, found: dict[EntityId, Entity]) -> None:
        """What changed while it was read has its value already."""
        untold = self._untold or {}
        for id_ in self._in_flight & untold.keys():
            entity = found.get(id_)
            if entity is not None:  # else it was erased just now: what became of it is told in a moment
                untold[id_] = entity

    async def _evaluate(self, after: Version) -> None:
        """For a client that was away or slow for longer than the group remembers (RESUME-1, SYNC-6)."""
        version, change = await evaluating.difference(
            self._space, self.group.prepared, self.group.scope, after=after, to=None, limits=self._limits
        )
        if self._told_to == after:  # else its client has started over meanwhile
            self._base = change if self._base is None else compose((self._base, change))
            self._told_to = version
