"""The service: who comes is greeted and let into the room of its space; rooms are opened and closed as needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from stemmadb.protocol.errors import GoingAway, Internal, UnknownSpace
from stemmadb.protocol.identity import CHALLENGE_BYTES
from stemmadb.protocol.model import limits as bounds
from stemmadb.protocol.model.ids import Did, TimeMs
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.wire.server_side import ServerConnection
from stemmadb.server.counting import Counts
from stemmadb.server.engine.lanes import Workers
from stemmadb.server.engine.store import Store
from stemmadb.server.engine.threads import Threads
from stemmadb.server.events import Log
from stemmadb.server.service.limiting import Connections, Rates
from stemmadb.server.service.room import Room
from stemmadb.server.service.session import Session
from stemmadb.server.service.settings import DEFAULTS, ServiceSettings
from stemmadb.server.service.sockets import Arrival, Socket

LOG: Final = Log("service")
RETRY_AFTER_MS: Final = 500
"""What clients are asked to wait when the server stops."""
STOP_STEP_SECONDS: Final = 0.01
REFERENCE_BYTES: Final = 6


class Service:
    """The host of all listeners. Used from one event loop; time, randomness and workers are given."""

    def __init__(
        self,
        store: Store,
        *,
        server: Did,
        now: Callable[[], TimeMs],
        random: Callable[[int], bytes],
        limits: Limits = bounds.DEFAULTS,
        settings: ServiceSettings = DEFAULTS,
        workers: Workers | None = None,
        counts: Counts | None = None,
    ) -> None:
        self.settings = settings
        self.now = now
        self.commit_rates = Rates(settings.commits_per_second, now)
        self.request_rates = Rates(settings.requests_per_second, now)
        self.connections = Connections(settings.connections_per_principal_max)
        self.sessions: dict[Session, None] = {}
        self.rooms: dict[Did, Room] = {}
        self._store = store
        self._limits = limits
        self._server = server
        self._random = random
        self._counts = counts or Counts()
        self._workers = workers or Threads(2, "stemmadb-blobs")
        self._opening: dict[Did, asyncio.Task[Room]] = {}
        self._users: dict[Room, int] = {}
        self._closing: dict[Room, asyncio.TimerHandle] = {}
        """Rooms that nobody is in, the oldest first, and when they close."""
        self._is_stopping = False

    # ------------------------------------------------------------ for listeners

    def welcome(self, socket: Socket, arrival: Arrival) -> Session:
        """Greets at once; the limits of the store are those that are announced (WIRE-2)."""
        connection = ServerConnection(
            subprotocol=arrival.subprotocol,
            server=self._server,
            space=arrival.space,
            challenge=self._random(CHALLENGE_BYTES),
            now_ms=self.now,
            limits=self._limits,
        )
        session = Session(self, socket, arrival, connection)
        self.sessions[session] = None
        socket.send(connection.hello())
        if self._is_stopping:
            session.end(GoingAway(), retry_after_ms=RETRY_AFTER_MS)
        return session

    async def stop(self) -> None:
        """Takes nothing more, tells what is durable, and asks everybody to come back (RESUME-2)."""
        self._is_stopping = True
        for session in self.sessions:
            session.take_no_more()
        try:
            while any(session.is_waiting for session in self.sessions):
                await asyncio.sleep(STOP_STEP_SECONDS)
        finally:
            for session in tuple(self.sessions):
                session.flush()
                session.end(GoingAway(), retry_after_ms=RETRY_AFTER_MS)
            for room in tuple(self.rooms.values()):
                self._close(room)
            self._workers.close()

    # ------------------------------------------------------------ for sessions

    async def room(self, space: Did, *, create: bool) -> Room:
        """The room of a space, which is entered by this; `UnknownSpace` if there is none and it may not be made."""
        may_make = create and (self.settings.make_spaces is None or space in self.settings.make_spaces)
        room = self.rooms.get(space)
        while room is None:
            opening = self._opening.get(space)
            if opening is None:
                opening = self._opening[space] = asyncio.get_running_loop().create_task(self._open(space, may_make))
                opening.add_done_callback(partial(self._opened, space))
            await asyncio.wait([opening])
            failure = opening.exception()
            if failure is not None and not (may_make and isinstance(failure, UnknownSpace)):
                raise failure
            room = self.rooms.get(space)
        self._users[room] = self._users.get(room, 0) + 1
        if (timer := self._closing.pop(room, None)) is not None:
            timer.cancel()
        return room

    def _opened(self, space: Did, opening: asyncio.Task[Room]) -> None:
        del self._opening[space]
        _ = opening.cancelled() or opening.exception()  # whoever waits for it is told, if still there

    async def _open(self, space: Did, create: bool) -> Room:
        room = Room(await self._store.space(space, create), self.settings, self._counts.space(space))
        await room.open(now=self.now, workers=self._workers)
        if self._is_stopping:
            room.close()
            raise GoingAway
        self.rooms[space] = room
        self._linger(room)  # it closes by itself if those for whom it was opened are gone meanwhile
        return room

    def left(self, room: Room) -> None:
        """One that had entered is gone. An empty room stays a while, so that its watches need not be filled again."""
        if room not in self._users:  # it was closed under everybody: the server stops
            return
        self._users[room] -= 1
        if not self._users[room]:
            self._linger(room)

    def _linger(self, room: Room) -> None:
        loop = asyncio.get_running_loop()
        self._closing[room] = loop.call_later(self.settings.room_linger_ms / 1_000, self._close, room)
        while len(self._closing) > self.settings.rooms_max:
            self._close(next(iter(self._closing)))

    def _close(self, room: Room) -> None:
        if (timer := self._closing.pop(room, None)) is not None:
            timer.cancel()
        self._users.pop(room, None)
        self.rooms.pop(room.space.did, None)
        room.close()

    def gone(self, session: Session) -> None:
        self.sessions.pop(session, None)

    def mistaken(self, mistake: BaseException, what: str) -> Internal:
        """Notes a mistake of ours under a reference, which is all that the client is told."""
        reference = self._random(REFERENCE_BYTES).hex()
        LOG.mistake("mistake", mistake, what=what, reference=reference)
        return Internal(reference=reference)
