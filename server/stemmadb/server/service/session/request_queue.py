"""The requests of a session: a bounded number at a time, each answered once, watches in order (WIRE-4, SYNC-7)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from stemmadb.protocol.errors import Internal, LimitExceeded, StemmaError, Unavailable
from stemmadb.protocol.model.query import query
from stemmadb.protocol.model.query.query import Prepared
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.model.values.limits import MEBIBYTE
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.connection.server_side import ServerConnection
from stemmadb.protocol.wire.messages.base import Done, Part, Request, WriteRequest
from stemmadb.protocol.wire.messages.blobs import BlobPart
from stemmadb.protocol.wire.messages.reading import (
    DiffAnswer,
    HistoryAnswer,
    LogAnswer,
    QueryAnswer,
    UnwatchRequest,
    WatchAnswer,
    WatchRequest,
)
from stemmadb.protocol.wire.messages.session import Ping, Pong, SessionOpen
from stemmadb.server.service.base.request_context import Caller, check_reads
from stemmadb.server.service.requests import dispatch, past_read
from stemmadb.server.service.session.space_hub import HubSession, SpaceHub
from stemmadb.server.service.stream import past_watch
from stemmadb.server.service.stream.outbox import Outbox
from stemmadb.server.service.stream.session_watch import SessionWatch
from stemmadb.server.service.watch.watch_groups import WatchGroup

WAITING_BYTES_MAX: Final = 32 * MEBIBYTE
"""Requests of one connection that wait; beyond it no more are read."""

ANSWER_TOO_LATE: Final = "The server has not sent the changes before this answer in time. Try again in a moment."
LARGE_BYTES: Final = 1 * MEBIBYTE
"""An answer that is not made for a client that has not taken the one before."""


class RequestingSession(HubSession, Protocol):
    """The session, as far as its requests need it."""

    connection: ServerConnection
    outbox: Outbox

    def caller(self) -> Caller: ...

    def changed(self) -> None:
        """There may be something to send."""
        ...

    def send(self, data: Data | None) -> None: ...

    def queue_shortened(self) -> None:
        """Fewer requests wait than before."""
        ...

    def internal_error(self, error: BaseException, what: str) -> Internal: ...


class RequestQueue:
    """The requests of one connection."""

    def __init__(self, session: RequestingSession, hub: SpaceHub, *, at_once_max: int) -> None:
        self._session = session
        self._hub = hub
        self._at_once_max = at_once_max
        self._waiting: deque[tuple[Request, int]] = deque()
        self._waiting_bytes = 0
        self._has_large = False
        """Whether something large waits for the client to take what it was sent."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching = asyncio.Lock()
        """Watches begin and end one after the other, in the order of the requests."""

    def put(self, request: Request, size: int) -> None:
        if isinstance(request, Ping):
            if request.follow:
                self._hub.follow(self._session)
            may_read = self._session.caller().rights.has("read")
            self._answer(request, Pong(version=self._hub.space.version if may_read else self._session.outbox.to))
        elif not self._answered(request):
            self._waiting.append((request, size))
            self._waiting_bytes += size
            self.go_on()

    def _answered(self, request: Request) -> bool:
        """Whether memory had the answer and the client could take it at once."""
        if self._waiting or not self._session.outbox.has_drained:
            return False
        answer = past_read.remembered(request, self._session.caller(), self._hub.context)
        if answer is None:
            return False
        self._reply(request, answer)
        return True

    @property
    def is_full(self) -> bool:
        """Whether more waits than is to be kept in memory."""
        return self._waiting_bytes > WAITING_BYTES_MAX

    def go_on(self) -> None:
        """Starts requests that wait, one at a time while the client has not taken its earlier answers."""
        while self._waiting and len(self._tasks) < self._tasks_max():
            request, size = self._waiting.popleft()
            self._waiting_bytes -= size
            task = asyncio.get_running_loop().create_task(self._serve(request))
            self._tasks.add(task)
            task.add_done_callback(self._done)

    def _tasks_max(self) -> int:
        outbox = self._session.outbox
        if outbox.has_drained:
            self._has_large = False
            return self._at_once_max
        return 0 if outbox.is_stalled or self._has_large else 1

    def close(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0
        for task in self._tasks:
            task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.go_on()
        self._session.queue_shortened()

    # ------------------------------------------------------------ answering

    async def _serve(self, request: Request) -> None:
        try:
            result = await self._result(request)
        except StemmaError as error:
            self._fail(request, error)
        except Exception as error:
            self._fail(request, self._session.internal_error(error, f"a request failed: {type(request).__name__}"))
        else:
            if result is not None:
                self._reply(request, result)

    async def _result(self, request: Request) -> Part | None:
        """None if it was answered on the way."""
        if isinstance(request, WatchRequest):
            return await self._watch(request)
        if isinstance(request, UnwatchRequest):
            return await self._unwatch(request)
        caller = self._session.caller()
        result = await dispatch.answer(request, caller, self._hub.context)
        if not isinstance(request, WriteRequest):
            check_reads(self._session.caller())  # its rights may have ended meanwhile (ACL-2)
        return result

    def _reply(self, request: Request, result: Part) -> None:
        """State follows the frame that reaches its version (SYNC-7).

        A large answer is dropped, and computed again later, while the client has not taken what was sent before.
        """
        if _weight(result) > LARGE_BYTES and not self._session.outbox.has_drained:
            self._waiting.appendleft((request, 0))
            self._has_large = True
            return
        if isinstance(result, QueryAnswer):
            outbox = self._session.outbox
            if result.version <= outbox.to:
                self._answer(request, result)
            else:
                late = partial(self._fail, request, Unavailable(ANSWER_TOO_LATE))
                outbox.answer(result.version, lambda: self._answer(request, result), late)
                self._session.changed()
        else:
            self._answer(request, result)

    def _answer(self, request: Request, result: Part) -> None:
        try:
            self._session.send(self._session.connection.answer(request.id, result))
        except StemmaError as error:  # it is larger than a message may be
            self._fail(request, error)

    def _fail(self, request: Request, error: StemmaError) -> None:
        self._hub.counts.failures[error.code] += 1
        self._session.send(self._session.connection.fail(request.id, error))

    # ------------------------------------------------------------ watches

    async def _watch(self, request: WatchRequest) -> WatchAnswer | None:
        """Answered when it joins the stream, or with facts from `since` on (WATCH-3)."""
        async with self._watching:
            outbox, space = self._session.outbox, self._hub.space
            if not outbox.holds(request.watch) and outbox.count >= space.limits.watches_max:
                raise LimitExceeded(bound="watches_max", maximum=space.limits.watches_max, actual=outbox.count + 1)
            group = await self._group(request.query)
            join = partial(self._join, request, group)
            if request.since is not None:
                return await past_watch.answer(request, group, space, self._hub.feed, join)
            await join(lambda version: WatchAnswer(version=version))
            return None

    async def _group(self, asked: query.Query) -> WatchGroup:
        caller = self._session.caller()
        check_reads(caller)
        group = await self._hub.feed.groups.get(await self._prepared(asked), caller.rights.prefixes)
        check_reads(self._session.caller())  # its rights may have ended meanwhile (ACL-2)
        return group

    async def _prepared(self, asked: query.Query) -> Prepared:
        """Compiled in a worker if it has a schema, which may be large."""
        space = self._hub.space
        if all(root.schema is None for root in asked.roots):
            return query.prepare(asked, limits=space.limits, space=space.did)
        return await space.read(lambda _: query.prepare(asked, limits=space.limits, space=space.did))

    async def _join(self, request: WatchRequest, group: WatchGroup, answer: Callable[[Version], WatchAnswer]) -> None:
        """Answers when the watch joins, before the first frame that has changes of it."""
        check_reads(self._session.caller())
        watch = self._made(request.watch, group)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def joined(outcome: Version | StemmaError) -> None:
            if isinstance(outcome, StemmaError):
                ended.set_exception(outcome)
            else:
                self._answer(request, answer(outcome))
                ended.set_result(None)

        watch.joined = joined
        self._session.outbox.add(watch, goes_on=False)
        self._session.changed()
        await ended

    def _made(self, number: int, group: WatchGroup, *, notified_to: Version | None = None) -> SessionWatch:
        space = self._hub.space
        changed = partial(self._hub.touch, self._session)
        return SessionWatch(number, group, space, space.limits, changed=changed, notified_to=notified_to)

    async def _unwatch(self, request: UnwatchRequest) -> Done:
        async with self._watching:
            self._session.outbox.remove(request.watch)
        return Done()

    async def go_on_watching(self, message: SessionOpen, *, whole: bool) -> None:
        """The watches of a client that resumes: they go on from its version if they were filled there (RESUME-1)."""
        for held in message.watches:
            goes_on = held.filled and not whole
            try:
                group = await self._group(held.query)
            except StemmaError as error:
                self._session.outbox.refuse(held.watch, error)
            else:
                watch = self._made(held.watch, group, notified_to=message.to if goes_on else None)
                self._session.outbox.add(watch, goes_on=goes_on)


def _weight(result: Part) -> int:
    """The bytes of the bodies in it, of those answers that can be large."""
    if isinstance(result, QueryAnswer):
        return sum(len(entity.body or b"") for entity in result.entities)
    if isinstance(result, BlobPart):
        return len(result.data)
    if isinstance(result, HistoryAnswer):
        return sum(len(entry.body or b"") for entry in result.entries)
    if isinstance(result, LogAnswer):
        return sum(len(item.body or b"") for entry in result.entries for item in entry.items)
    if isinstance(result, DiffAnswer):
        return sum(len(one.patch or one.body or b"") for one in result.changes)
    return 0
