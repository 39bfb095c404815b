"""Pumps messages over one connection: opens the session, reads, writes, and sends heartbeats (RESUME-5)."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Final, Protocol

from stemmadb.client.session.session import ClientSession
from stemmadb.protocol.errors import GoingAway, StemmaError, TimedOut
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.wire.channel import Channel, ChannelClosed
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.connection.base import Closed
from stemmadb.protocol.wire.connection.client_side import ClientConnection
from stemmadb.protocol.wire.messages.base import Part
from stemmadb.protocol.wire.messages.session import Hello, Pong

QUIET_ENOUGH: Final = 0.001
"""Seconds; a timer for less than that is not worth setting."""


class PumpListener(Protocol):
    """Is notified of the state of the connection."""

    def opened(self) -> None:
        """The first frame has come."""
        ...

    def heard_of(self, version: Version) -> None:
        """The space is at this version or later."""
        ...


class ConnectionPump:
    """Moves the messages of one session over one channel, until either side ends it."""

    def __init__(self, session: ClientSession, channel: Channel, listener: PumpListener) -> None:
        self._listener = listener
        self._session = session
        self._channel = channel
        self._connection = ClientConnection(subprotocol=channel.subprotocol, space=session.space)
        self._queue: deque[Data] = deque()
        self._queued_bytes = 0
        self._has_work = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._asked = -math.inf
        """When a sign of life was asked for last."""
        self._watch: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[Closed] | None = None
        self._verdict: Closed | None = None
        self._send_error: BaseException | None = None
        """What went wrong while sending, if that was not the connection's fault."""

    async def run(self) -> Closed:
        """Runs until the connection is over; `ChannelClosed` if it broke without a close frame."""
        writing = self._loop.create_task(self._write())
        self._reading = self._loop.create_task(self._read())
        writing.add_done_callback(self._has_written)
        try:
            return await self._reading
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            if self._send_error is not None:
                raise self._send_error from None
            if self._verdict is None:
                raise
            return self._verdict
        finally:
            if self._watch is not None:
                self._watch.cancel()
            for task in (writing, self._reading):
                task.cancel()
            await asyncio.gather(writing, self._reading, return_exceptions=True)

    def _has_written(self, writing: asyncio.Task[None]) -> None:
        """An internal error while sending ends the connection, as one while reading does."""
        self._send_error = None if writing.cancelled() else writing.exception()
        if self._send_error is not None and self._reading is not None:
            self._reading.cancel()

    def drop(self) -> None:
        """Ends it from this side."""
        self._end(GoingAway("The client starts a new connection."))

    def _end(self, error: StemmaError) -> None:
        if self._verdict is None and self._reading is not None:
            self._verdict = Closed(error=error, close_code=1000)
            self._reading.cancel()

    # ------------------------------------------------------------ reading

    async def _read(self) -> Closed:
        closed = await self._greet()
        if closed is not None:
            return closed
        self._look_after()
        while True:
            closed = self._take(await self._channel.receive())
            if closed is not None:
                return closed

    async def _greet(self) -> Closed | None:
        """Reads hello, signs, and says where this side stands; or why the server will not have us."""
        session = self._session
        try:
            async with asyncio.timeout(session.settings.open_seconds):
                closed = self._take(await self._channel.receive())
        except TimeoutError:
            raise ChannelClosed(1006, "it did not say hello") from None
        if closed is not None:
            return closed
        session.requester.features = self._connection.features
        standing = session.standing(self._connection.limits)
        identity = session.identity
        data = self._connection.open(
            principal=identity.did, session=session.id, sign=identity.sign, standing=standing
        )
        self._send(data)
        session.begin(self._connection, self._send)
        return None

    def _take(self, data: Data) -> Closed | None:
        self._heard = self._loop.time()
        for event in self._connection.receive(data):
            if isinstance(event, Closed):
                return event
            if isinstance(event, Hello):
                self._session.server = event.server
            else:
                self._session.handle(event)
                self._listener.heard_of(self._connection.to)
                if self._session.is_open:
                    self._listener.opened()
        return None

    # ------------------------------------------------------------ writing

    def _send(self, data: Data) -> bool:
        """Sends a message, or queues it if others wait to leave; whether there is room for more."""
        if not self._queued_bytes and self._channel.send_at_once(data):
            return True
        self._queue.append(data)
        self._queued_bytes += len(data)
        self._has_work.set()
        return self._queued_bytes < self._session.settings.unsent_bytes_max

    async def _write(self) -> None:
        while True:
            self._has_work.clear()
            while self._queue:
                data = self._queue.popleft()
                try:
                    await self._channel.send(data)
                except ChannelClosed:
                    return  # the reader learns of it too
                self._queued_bytes -= len(data)
            self._session.drained()
            if not self._queue:
                await self._has_work.wait()

    # ------------------------------------------------------------ signs of life

    def check_life(self) -> None:
        """Asks for a sign of life now; one that was asked for and has not come is not given more time."""
        if self._watch is not None and self._heard >= self._asked:
            self._watch.cancel()
            self._ask_for_life()

    def _look_after(self) -> None:
        """Asks for a sign of life when nothing has come for a while."""
        quiet = self._loop.time() - self._heard
        rest = self._session.settings.heartbeat_seconds - quiet
        if rest > QUIET_ENOUGH:
            self._watch = self._loop.call_later(rest, self._look_after)
        else:
            self._ask_for_life()

    def _ask_for_life(self) -> None:
        self._asked = self._loop.time()
        self._session.ask_for_life(self._pong)
        self._watch = self._loop.call_later(self._session.settings.dead_seconds, self._judge)

    def _judge(self) -> None:
        if self._heard >= self._asked:
            self._look_after()
        else:
            self._end(TimedOut(timeout_ms=round(self._session.settings.dead_seconds * 1_000)))

    def _pong(self, result: Part | StemmaError) -> None:
        if isinstance(result, Pong):
            self._listener.heard_of(result.version)


def _is_cancelled() -> bool:
    """Whether the task itself is, and not only what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
