"""The requests of a session: a bounded number at a time, each answered once, watches in order (WIRE-4, SYNC-7)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from stemmadb.protocol.errors import Forbidden, Internal, LimitExceeded, StemmaError
from stemmadb.protocol.model import query
from stemmadb.protocol.model.ids import Version
from stemmadb.protocol.wire.codec import Data
from stemmadb.protocol.wire.messages.base import Done, Part, Request, WriteRequest
from stemmadb.protocol.wire.messages.reading import QueryAnswer, UnwatchRequest, WatchAnswer, WatchRequest
from stemmadb.protocol.wire.messages.session import Ping, Pong, SessionOpen
from stemmadb.protocol.wire.server_side import ServerConnection
from stemmadb.server.service import past_watches, requests
from stemmadb.server.service.asking import Asker, check_reads
from stemmadb.server.service.groups import Group
from stemmadb.server.service.outbox import Outbox
from stemmadb.server.service.room import Guest, Room
from stemmadb.server.service.watches import Watch


class Client(Guest, Protocol):
    """The session, as far as its requests need it."""

    connection: ServerConnection
    outbox: Outbox

    def asker(self) -> Asker: ...

    def changed(self) -> None:
        """There may be something to tell."""
        ...

    def send(self, data: Data | None) -> None: ...

    def mistaken(self, mistake: BaseException, what: str) -> Internal: ...


class Questions:
    """Of one connection."""

    def __init__(self, client: Client, room: Room, *, at_once_max: int) -> None:
        self._client = client
        self._room = room
        self._at_once_max = at_once_max
        self._waiting: deque[Request] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching = asyncio.Lock()
        """Watches begin and end one after the other, in the order of the requests."""

    def put(self, request: Request) -> None:
        if isinstance(request, Ping):
            self._answer(request, Pong(version=self._room.space.version))
        else:
            self._waiting.append(request)
            self.go_on()

    def go_on(self) -> None:
        """Begins what waits, unless the client does not take what it asked for."""
        while self._waiting and len(self._tasks) < self._at_once_max and not self._client.outbox.is_slow:
            request = self._waiting.popleft()
            task = asyncio.get_running_loop().create_task(self._serve(request))
            self._tasks.add(task)
            task.add_done_callback(self._done)

    def close(self) -> None:
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.go_on()

    # ------------------------------------------------------------ answering

    async def _serve(self, request: Request) -> None:
        try:
            result = await self._result(request)
        except StemmaError as error:
            self._fail(request, error)
        except Exception as mistake:
            self._fail(request, self._client.mistaken(mistake, f"a request failed: {type(request).__name__}"))
        else:
            if result is not None:
                self._reply(request, result)

    async def _result(self, request: Request) -> Part | None:
        """None if it was answered on the way."""
        if isinstance(request, WatchRequest):
            return await self._watch(request)
        if isinstance(request, UnwatchRequest):
            return await self._unwatch(request)
        asker = self._client.asker()
        result = await requests.answer(request, asker, self._room.desk)
        if not isinstance(request, WriteRequest) and asker.rights != self._client.asker().rights:
            raise Forbidden(action="read", needs="read")  # it lost its rights while it was asking (ACL-2)
        return result

    def _reply(self, request: Request, result: Part) -> None:
        """State follows the frame that reaches its version (SYNC-7)."""
        if isinstance(result, QueryAnswer):
            self._client.outbox.answer(result.version, lambda: self._answer(request, result))
            self._client.changed()
        else:
            self._answer(request, result)

    def _answer(self, request: Request, result: Part) -> None:
        try:
            self._client.send(self._client.connection.answer(request.id, result))
        except StemmaError as error:  # it is larger than a message may be
            self._fail(request, error)

    def _fail(self, request: Request, error: StemmaError) -> None:
        self._room.counts.failures[error.code] += 1
        self._client.send(self._client.connection.fail(request.id, error))

    # ------------------------------------------------------------ watches

    async def _watch(self, request: WatchRequest) -> WatchAnswer | None:
        """Answered when it joins the stream, or with facts from `since` on (WATCH-3)."""
        async with self._watching:
            outbox, space = self._client.outbox, self._room.space
            if not outbox.holds(request.watch) and outbox.count >= space.limits.watches_max:
                raise LimitExceeded(bound="watches_max", maximum=space.limits.watches_max, actual=outbox.count + 1)
            group = await self._group(request.query)
            join = partial(self._join, request, group)
            if request.since is not None:
                return await past_watches.answer(request, group, space, self._room.feed, join)
            await join(lambda version: WatchAnswer(version=version))
            return None

    async def _group(self, asked: query.Query) -> Group:
        asker, space = self._client.asker(), self._room.space
        check_reads(asker)
        prepared = query.prepare(asked, limits=space.limits, space=space.did)
        return await self._room.feed.groups.get(prepared, asker.rights.prefixes)

    async def _join(self, request: WatchRequest, group: Group, answer: Callable[[Version], WatchAnswer]) -> None:
        """Answers as it joins: before the first frame that tells of it."""
        watch = self._made(request.watch, group)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def joined(outcome: Version | StemmaError) -> None:
            if isinstance(outcome, StemmaError):
                ended.set_exception(outcome)
            else:
                self._answer(request, answer(outcome))
                ended.set_result(None)

        watch.joined = joined
        self._client.outbox.add(watch, goes_on=False)
        self._client.changed()
        await ended

    def _made(self, number: int, group: Group, *, told_to: Version | None = None) -> Watch:
        space = self._room.space
        changed = partial(self._room.touch, self._client)
        return Watch(number, group, space, space.limits, changed=changed, told_to=told_to)

    async def _unwatch(self, request: UnwatchRequest) -> Done:
        async with self._watching:
            self._client.outbox.remove(request.watch)
        return Done()

    async def go_on_watching(self, message: SessionOpen, *, whole: bool) -> None:
        """The watches of a client that comes back: from where it stands if they were filled there (RESUME-1)."""
        for held in message.watches:
            goes_on = held.filled and not whole
            try:
                group = await self._group(held.query)
            except StemmaError as error:
                self._client.outbox.refuse(held.watch, error)
            else:
                watch = self._made(held.watch, group, told_to=message.to if goes_on else None)
                self._client.outbox.add(watch, goes_on=goes_on)
