"""The service: greets connections and connects each session to the hub of its space; opens and closes hubs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final

from stemmadb.protocol.errors import GoingAway, Internal, Unavailable, UnknownSpace
from stemmadb.protocol.identity import CHALLENGE_BYTES
from stemmadb.protocol.model.access.delegation import DelegatedRights
from stemmadb.protocol.model.values import limits as bounds
from stemmadb.protocol.model.values.ids import Did, TimeMs
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.connection.server_side import ServerConnection
from stemmadb.protocol.wire.messages.session import SessionOpen
from stemmadb.protocol.wire.version import FEATURES
from stemmadb.server.counters import Counts
from stemmadb.server.engine.base.executors import Workers
from stemmadb.server.engine.store import Store
from stemmadb.server.log_events import Log
from stemmadb.server.service.base.rate_limits import Connections, Rates
from stemmadb.server.service.base.settings import DEFAULTS, ServiceSettings
from stemmadb.server.service.base.transport import Arrival, Socket
from stemmadb.server.service.session.session import Session
from stemmadb.server.service.session.space_hub import SpaceHub
from stemmadb.server.thread_pool import Threads

LOG: Final = Log("service")
RETRY_AFTER_MS: Final = 500
"""How long clients are asked to wait when the server stops."""
LOST_RETRY_AFTER_MS: Final = 100
"""The same where another process has taken a space over."""
STOP_STEP_SECONDS: Final = 0.01
REFERENCE_BYTES: Final = 6
_SERVED_ELSEWHERE: Final = "Another process of this server serves the space. Connect over its port."
_TOO_MANY_UNFOUNDED: Final = "Too many new spaces are waiting for their access list. Try again in a minute."


class Service:
    """Makes a session for every connection. Used from one event loop; time, randomness and workers are given."""

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
        self.hubs: dict[Did, SpaceHub] = {}
        self._store = store
        self._limits = limits
        self._server = server
        self._random = random
        self._counts = counts or Counts()
        self._workers = workers or Threads(2, "stemmadb-blobs")
        self._opening: dict[Did, asyncio.Task[SpaceHub]] = {}
        self._users: dict[SpaceHub, int] = {}
        self._closing: dict[SpaceHub, asyncio.TimerHandle] = {}
        """Idle hubs, the oldest first, each with the timer that closes it."""
        self._unfounded: dict[SpaceHub, None] = {}
        """Hubs whose space had no access list when it was last looked at."""
        self._is_stopping = False
        self._losses = 0
        """How often all spaces were lost."""
        self.on_access: Callable[[Did, object], None] = lambda _did, _roles: None
        """Called with the access list of each space that is opened or changed."""
        self.features: tuple[str, ...] = FEATURES
        """What `hello` announces."""
        self.owns: Callable[[Did], bool] = lambda _: True
        """Which spaces this process serves, where there are several."""
        store.release = self._close_idle

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
            features=self.features,
        )
        session = Session(self, socket, arrival, connection)
        self.sessions[session] = None
        socket.send(connection.hello())
        if self._is_stopping:
            session.end(GoingAway(), retry_after_ms=RETRY_AFTER_MS)
        return session

    def welcome_inside(
        self, socket: Socket, arrival: Arrival, message: SessionOpen, delegated: tuple[DelegatedRights, ...]
    ) -> Session:
        """A session of this process: its principal was authenticated before, and nothing is signed (HTTP-5)."""
        if self._is_stopping:
            raise GoingAway
        connection = ServerConnection(
            subprotocol=arrival.subprotocol,
            server=self._server,
            space=arrival.space,
            challenge=bytes(CHALLENGE_BYTES),
            now_ms=self.now,
            limits=self._limits,
            features=self.features,
        )
        session = Session(self, socket, arrival, connection)
        self.sessions[session] = None
        session.open_inside(message, delegated)
        return session

    async def stop(self) -> None:
        """Takes no more messages, sends the verdicts of what is durable, and asks clients to reconnect (RESUME-2)."""
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
            for hub in tuple(self.hubs.values()):
                self._close(hub)
            self._workers.close()

    # ------------------------------------------------------------ for a node that gives spaces back, or has lost them

    @property
    def open_spaces(self) -> tuple[Did, ...]:
        return tuple(dict.fromkeys((*self.hubs, *self._store.open_spaces)))

    async def give_up(
        self, spaces: Collection[Did], given_back: Callable[[], Awaitable[None]], retry_after_ms: Callable[[], int]
    ) -> None:
        """Another process may serve these spaces: their hubs close once what was taken is decided, then the spaces
        are given back, and only then their sessions end, which find an owner at once.
        """
        hubs = {hub for did in spaces if (hub := self.hubs.get(did)) is not None}
        while True:
            sessions = self._sessions_in(hubs)  # also those that have opened meanwhile
            for session in sessions:
                session.take_no_more()
            if not any(session.is_waiting for session in sessions):
                break
            await asyncio.sleep(STOP_STEP_SECONDS)
        for session in sessions:
            session.flush()
        for hub in hubs:
            self._close(hub)
        await self._store.close_spaces(spaces)
        await given_back()
        for session in self._sessions_in(hubs):
            session.end(GoingAway(), retry_after_ms=retry_after_ms())

    def lose(self, space: Did) -> None:
        """Another process serves the space: its sessions have to connect anew, and what was known is forgotten."""
        hub = self.hubs.get(space)
        if hub is not None:
            for session in self._sessions_in((hub,)):
                session.end(GoingAway(), retry_after_ms=LOST_RETRY_AFTER_MS)
            self._close(hub)
        self._store.lose(space)

    def _sessions_in(self, hubs: Collection[SpaceHub]) -> list[Session]:
        return [session for session in self.sessions if session.is_in(hubs)]

    def lose_all(self) -> None:
        """Also what is being opened now."""
        self._losses += 1
        for space in tuple(self.hubs):
            self.lose(space)
        self._store.lose_all()

    # ------------------------------------------------------------ for sessions

    async def enter_hub(self, space: Did, *, create: bool) -> SpaceHub:
        """The hub of a space, counted as in use until `leave_hub`; `UnknownSpace` if the space may not be created."""
        if not self.owns(space):  # a second process that decides would break what the first has promised (COMMIT-5)
            raise Unavailable(_SERVED_ELSEWHERE)
        may_make = create and (self.settings.make_spaces is None or space in self.settings.make_spaces)
        hub = self.hubs.get(space)
        while hub is None:
            opening = self._opening.get(space)
            if opening is None:
                opening = self._opening[space] = asyncio.get_running_loop().create_task(self._open(space, may_make))
                opening.add_done_callback(partial(self._opened, space))
            await asyncio.wait([opening])
            failure = opening.exception()
            if failure is not None and not (may_make and isinstance(failure, UnknownSpace)):
                raise failure
            hub = self.hubs.get(space)
        self._users[hub] = self._users.get(hub, 0) + 1
        if (timer := self._closing.pop(hub, None)) is not None:
            timer.cancel()
        return hub

    def _opened(self, space: Did, opening: asyncio.Task[SpaceHub]) -> None:
        del self._opening[space]
        _ = opening.cancelled() or opening.exception()  # sessions that wait for it raise it themselves

    async def _open(self, space: Did, create: bool) -> SpaceHub:
        losses = self._losses
        hub = SpaceHub(await self._store.space(space, create), self.settings, self._counts.space(space))
        hub.on_access = self.on_access
        await hub.open(now=self.now, workers=self._workers)
        if self._is_stopping:
            hub.close()
            raise GoingAway
        if losses != self._losses:
            hub.close()
            self._store.lose(space)
            raise Unavailable
        self._check_unfounded(hub)
        self.hubs[space] = hub
        self._close_when_idle(hub)  # it closes again if the sessions it was opened for are gone by now
        return hub

    def leave_hub(self, hub: SpaceHub) -> None:
        """A session has left. An idle hub stays open for a while, so that its watches need not be evaluated again."""
        if hub not in self._users:  # the server is stopping and has closed it already
            return
        self._users[hub] -= 1
        if self._users[hub]:
            return
        if hub.is_founded:
            self._close_when_idle(hub)
        else:
            self._close(hub)  # there is no watch to come back to

    def _check_unfounded(self, hub: SpaceHub) -> None:
        """Strangers can name any number of new spaces; each that is open takes memory, and no more than that."""
        if hub.is_founded:
            return
        if len(self._unfounded) >= self.settings.unfounded_spaces_max:
            self._unfounded = {one: None for one in self._unfounded if not one.is_founded}
        if len(self._unfounded) >= self.settings.unfounded_spaces_max:
            hub.close()
            self._store.close_unused(hub.space.did)
            LOG.warning("too_many_unfounded_spaces", maximum=self.settings.unfounded_spaces_max)
            raise Unavailable(_TOO_MANY_UNFOUNDED)
        self._unfounded[hub] = None

    def _close_idle(self) -> None:
        """The store needs room for another space: hubs that no session uses let theirs go."""
        for hub in tuple(self._closing):
            self._close(hub)

    def _close_when_idle(self, hub: SpaceHub) -> None:
        loop = asyncio.get_running_loop()
        self._closing[hub] = loop.call_later(self.settings.hub_idle_ms / 1_000, self._close, hub)
        while len(self._closing) > self.settings.idle_hubs_max:
            self._close(next(iter(self._closing)))

    def _close(self, hub: SpaceHub) -> None:
        if (timer := self._closing.pop(hub, None)) is not None:
            timer.cancel()
        self._users.pop(hub, None)
        self.hubs.pop(hub.space.did, None)
        self._unfounded.pop(hub, None)
        hub.close()
        if not hub.is_founded:
            self._store.close_unused(hub.space.did)

    def session_ended(self, session: Session) -> None:
        self.sessions.pop(session, None)

    def internal_error(self, error: BaseException, what: str) -> Internal:
        """Logs an internal error under a reference; the client gets the reference only."""
        reference = self._random(REFERENCE_BYTES).hex()
        LOG.internal_error("internal_error", error, what=what, reference=reference)
        return Internal(reference=reference)
