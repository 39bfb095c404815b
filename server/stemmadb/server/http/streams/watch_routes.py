"""A stream of events: a session inside the server that holds one watch, whose frames become events (HTTP-10)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Annotated, Any, Final

from msgspec import Meta

from stemmadb.protocol.errors import LimitExceeded, StemmaError, Unauthenticated
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import MAIN, RANDOM_ID_BYTES, Hash, Version
from stemmadb.protocol.wire.codec.json_codec import parse
from stemmadb.protocol.wire.codec.json_form import convert
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.codec.subprotocols import codec_for
from stemmadb.protocol.wire.connection import problems
from stemmadb.protocol.wire.messages.session import Goodbye, HeldWatch, SessionOpen
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.protocol.wire.version import MSGPACK
from stemmadb.server.http.base.conditions import EventId, StateMark, mark_of, question_of, read_event_id
from stemmadb.server.http.base.error_table import unauthenticated
from stemmadb.server.http.base.parameters import Params
from stemmadb.server.http.base.replies import EVENTS, NO_STORE, HttpReply, ReplyWriter, json_reply
from stemmadb.server.http.callers.calls import SpaceCall
from stemmadb.server.http.streams.stream_events import ChangeEvents, LastMessage, StreamEvent, is_empty
from stemmadb.server.service.base.request_context import check_reads
from stemmadb.server.service.base.transport import DRAIN_BYTES, Arrival, RawWriter, Write

WATCH: Final = 1
QUIET_SECONDS: Final = 15.0
"""After which a comment keeps proxies from closing a stream that has no news."""
FIRST: Final = b"retry: 1000\n: stream of events\n\n"
COMMENT: Final = b": quiet\n\n"
UNUSED_HASH: Final = bytes(32)
EVENTS_MAX: Final = 1_000
"""Events of a long poll; the next one continues."""
_changes: Final = ChangeEvents()
_last: Final = LastMessage()
WaitSeconds = Annotated[int, Meta(ge=0, le=60)]


class WatchParams(Params, frozen=True, kw_only=True):
    """What is watched: an id, or a prefix as `urn:todo:*`; `schema` is JSON. `since` is the id of an event."""

    select: str
    schema: str | None = None
    branch: str = MAIN
    since: str | None = None
    wait: WaitSeconds | None = None


class StreamSocket:
    """The socket of a session inside the server: what it is sent waits here for the response.

    Its raw writer only saves the session its part: streams of one watch get one frame, as WebSockets do.
    """

    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()
        self.unsent = 0
        self.is_over = False
        self.has_news = asyncio.Event()
        self._raw_writer = RawWriter()

    def send(self, data: Data) -> None:
        assert isinstance(data, bytes), "a stream speaks msgpack inside"
        self.waiting.append(data)
        self.unsent += len(data)
        self.has_news.set()

    def take(self) -> bytes:
        data = self.waiting.popleft()
        self.unsent -= len(data)
        if not self.waiting:
            self.has_news.clear()
        return data

    def close(self, code: int) -> None:  # noqa: ARG002
        self.is_over = True
        self.has_news.set()
        self._raw_writer.end()

    def framed(self, data: Data) -> bytes:
        assert isinstance(data, bytes), "a stream speaks msgpack inside"
        return data

    def raw_writer(self, end: Callable[[], None]) -> Write | None:
        if self.is_over or self.unsent > DRAIN_BYTES:
            return None
        self._raw_writer.begin(end)
        return self._write_raw

    def _write_raw(self, data: bytes) -> None:
        self.send(data)
        if self.unsent > DRAIN_BYTES:
            self._raw_writer.end()

    def release_raw_writer(self) -> None:
        self._raw_writer.release()

    def repeated(self, count: int, size: int) -> None: ...

    def trust(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class WatchStream:
    """The events of one watch, from its first frame to its end."""

    def __init__(
        self, call: SpaceCall[WatchParams], message: SessionOpen, *, begins: str | None, question: str
    ) -> None:
        self._call = call
        self._begins = begins
        self._question = question
        self._branch = call.params.branch
        self._codec = codec_for(MSGPACK, call.limits)
        self._is_ready = False
        self._is_resumed = begins is None
        self._has_begun = False
        self._is_in_parts = False
        """Whether the last message was a part of a frame, and not its end."""
        self.is_over = False
        self.socket = StreamSocket()
        context = call.context
        arrival = Arrival(space=call.hub.space.did, subprotocol=MSGPACK, address=call.head.address)
        self._session = context.service.welcome_inside(self.socket, arrival, message, call.bearer.delegated)
        context.streams.add(self)

    def end(self) -> None:
        """The client is gone, or the stream is over."""
        streams = self._call.context.streams
        if self in streams:
            streams.discard(self)
            self._session.lost()

    async def opened(self) -> None:
        """Returns when the first frame is there; raises why there is none."""
        await self.socket.has_news.wait()
        first = self._codec.read_server(self.socket.waiting[0])
        if isinstance(first, Goodbye):
            raise problems.restore(first)

    async def next(self) -> list[StreamEvent]:
        """The events of the next message."""
        socket = self.socket
        await socket.has_news.wait()
        if not socket.waiting:
            self.is_over = True
            return []
        before = socket.unsent
        data = socket.take()
        message = _last.read(self._codec, data)
        events: list[StreamEvent] = []
        if isinstance(message, Goodbye):
            self.is_over = True
            events = [self._ended(problems.restore(message))]
        elif isinstance(message, Sync):
            events = await self._events(data, message)
        if before > DRAIN_BYTES >= socket.unsent:
            self._session.drained()
        return events

    async def _events(self, data: bytes, frame: Sync) -> list[StreamEvent]:
        events = [] if self._is_in_parts else self._beginning(frame)
        self._is_in_parts = frame.more
        is_whole = not frame.more and (self._is_ready or self._is_resumed or WATCH in frame.filled)
        if not is_empty(frame):
            change = await _changes.of(self._call, self._branch, data, frame)
            events.append(change._replace(id=self._id_of(frame)) if is_whole else change)
        if is_whole and not self._is_ready:
            self._is_ready = True
            events.append(StreamEvent("ready", {"version": frame.to}, self._id_of(frame)))
        for one in frame.ended:
            self.is_over = True
            events.append(self._ended(problems.restore(one)))
        return events

    def _id_of(self, frame: Sync) -> str:
        return str(EventId(mark_of(frame.to, frame.hash), self._question))

    def _beginning(self, frame: Sync) -> list[StreamEvent]:
        """A `reset`, of the first frame or of a later one: a reader may be so slow that a compaction overtakes it."""
        why: str | None = frame.reset
        if not self._has_begun:
            why = self._begins or ("rights" if self._session.has_other_rights else frame.reset)
        self._has_begun = True
        if why is None:
            return []
        self._is_resumed = self._is_ready = False
        return [StreamEvent("reset", {"why": why})]

    def _ended(self, error: StemmaError) -> StreamEvent:
        """A token that has ended is the reason, whatever its end did to the rights."""
        bearer = self._call.bearer
        if self._call.context.service.now() >= bearer.token.expires:
            error = Unauthenticated(why="the token has expired")
        elif self._call.hub.access.is_revoked(bearer.name):
            error = Unauthenticated(why="the token was revoked")
        said = unauthenticated(error) if isinstance(error, Unauthenticated) else error.message
        return StreamEvent("ended", {"code": error.code, "message": said})


async def watch(call: SpaceCall[WatchParams]) -> HttpReply:
    """Events as they come; with `wait` those of at most so many seconds, as JSON."""
    check_reads(call.caller())
    question = _question(call)
    message, begins = await _opening(call, _since(call), question)
    headers = (NO_STORE, ("X-Accel-Buffering", "no"))
    if call.head.method == "HEAD":
        return HttpReply(content_type=EVENTS, headers=headers)
    maximum = call.context.streams_max
    if len(call.context.streams) >= maximum:
        raise LimitExceeded(bound="http_streams_max", maximum=maximum, actual=maximum + 1)
    stream = WatchStream(call, message, begins=begins, question=question)
    try:
        await stream.opened()
        if call.params.wait is not None:
            return await _polled(stream, call.params.wait, call.params.since)
    except BaseException:
        stream.end()
        raise

    async def write(writer: ReplyWriter) -> None:
        await writer.write(FIRST)
        while not stream.is_over:
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    await stream.socket.has_news.wait()
            except TimeoutError:
                await writer.write(COMMENT)
                continue
            for event in await stream.next():
                await writer.write(event.encoded())

    return HttpReply(content_type=EVENTS, headers=headers, stream=write, is_endless=True, done=stream.end)


async def _polled(stream: WatchStream, seconds: int, since: str | None) -> HttpReply:
    """What there is already, however long that takes to read; if it is nothing, what comes first in the time."""
    events: list[StreamEvent] = []
    while not stream.is_over and len(events) < EVENTS_MAX and not any(one.name == "ready" for one in events):
        events += await stream.next()
    try:
        async with asyncio.timeout(seconds):
            while not stream.is_over and all(one.name == "ready" for one in events):
                events += await stream.next()
    except TimeoutError:
        pass
    stream.end()
    marks = [one.id for one in events if one.id is not None]
    said = [{"event": one.name, "data": one.data} for one in events if one.name != "ready"]
    return json_reply({"events": said, "next": marks[-1] if marks else since})


def _since(call: SpaceCall[WatchParams]) -> EventId | None:
    header = call.head.one("last-event-id")
    if header:
        return read_event_id(header, "Last-Event-ID")
    return None if call.params.since is None else read_event_id(call.params.since, "parameter 'since'")


def _question(call: SpaceCall[WatchParams]) -> str:
    """Looked up before the session is: if rights change in between, the next resume starts over."""
    params = call.params
    return question_of(params.select, params.schema, params.branch, call.caller().rights.prefixes)


async def _opening(
    call: SpaceCall[WatchParams], since: EventId | None, question: str
) -> tuple[SessionOpen, str | None]:
    """How the session is opened, and why the stream starts over, where that is known before."""
    params = call.params
    schema: Any = None if params.schema is None else parse(params.schema)
    query = Query((convert({"id": params.select, "schema": schema}, Root),), branch=params.branch)
    version, hash_, begins = Version(0), None, "start" if since is None else None
    if since is not None and since.mark.version > 0:
        hash_ = await _hash_of(call, since.mark)
        if since.question == question or hash_ == UNUSED_HASH:
            version = since.mark.version
        else:
            hash_, begins = None, "rights"
    message = SessionOpen(
        principal=call.principal,
        session=call.context.random(RANDOM_ID_BYTES),
        signature=bytes(64),
        to=version,
        hash=hash_,
        watches=(HeldWatch(watch=WATCH, query=query, filled=begins is None),),
    )
    return message, begins


async def _hash_of(call: SpaceCall[Any], since: StateMark) -> Hash:
    """The hash that the client's state has, if its history is ours; otherwise one that no commit has (RESUME-1)."""
    found = await call.hub.space.read(lambda reader: reader.hashes([since.version]).get(since.version))
    return Hash(UNUSED_HASH) if found is None or mark_of(since.version, found) != since else found
