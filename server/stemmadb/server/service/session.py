"""A session on one connection: opened, served, ended; one stream out, commits and requests in (WIRE-1..4)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, Protocol

from stemmadb.protocol.errors import (
    Forbidden,
    GoingAway,
    Internal,
    RateLimited,
    StemmaError,
    TakenOver,
    TimedOut,
    Unready,
)
from stemmadb.protocol.model import delegation
from stemmadb.protocol.model.access import FOUNDER, Rights
from stemmadb.protocol.model.admission import Refused, Repeated
from stemmadb.protocol.model.commit import LocalIdentity
from stemmadb.protocol.model.delegation import Lent
from stemmadb.protocol.model.ids import Did, Version
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.codec import Data
from stemmadb.protocol.wire.connection import Closed, State
from stemmadb.protocol.wire.messages.base import Request
from stemmadb.protocol.wire.messages.commit import CommitMessage, Deferred
from stemmadb.protocol.wire.messages.session import SessionOpen
from stemmadb.protocol.wire.server_events import Refused as Unread
from stemmadb.protocol.wire.server_events import ServerEvent
from stemmadb.protocol.wire.server_side import ServerConnection
from stemmadb.server.events import Log
from stemmadb.server.service import entering, verdicts
from stemmadb.server.service.asking import Asker
from stemmadb.server.service.commits import Commits
from stemmadb.server.service.entering import Door, Entered
from stemmadb.server.service.limiting import Rates
from stemmadb.server.service.outbox import Outbox
from stemmadb.server.service.questions import Questions
from stemmadb.server.service.room import Room
from stemmadb.server.service.settings import ServiceSettings
from stemmadb.server.service.sockets import Arrival, Socket
from stemmadb.server.service.told import Told
from stemmadb.server.service.valve import Valve, Why

LOG: Final = Log("session")


class House(Door, Protocol):
    """The service, as a session uses it."""

    settings: ServiceSettings
    commit_rates: Rates
    request_rates: Rates

    def gone(self, session: Session) -> None: ...

    def mistaken(self, mistake: BaseException, what: str) -> Internal: ...


class Session:
    """The visitor of one connection. Used from one event loop."""

    def __init__(self, house: House, socket: Socket, arrival: Arrival, connection: ServerConnection) -> None:
        self.arrival = arrival
        self.connection = connection
        self.socket = socket
        self._house = house
        self._early: deque[tuple[ServerEvent, int]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._room: Room | None = None
        self._lent: tuple[Lent, ...] = ()
        self._rights = Rights("none")
        self._is_open = False
        self._valve = Valve(socket)
        self._telling = asyncio.Lock()
        self._expiry: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(
            house.settings.opening_timeout_ms / 1_000, self._came_too_late
        )
        """When the session has to be open, and once it is, when a delegation ends."""

    # ------------------------------------------------------------ what the listener brings

    def received(self, data: Data) -> None:
        if self._room is not None:
            counts = self._room.counts
            counts.messages_in += 1
            counts.bytes_in += len(data)
            if self._is_open and not self._lent and (proposal := self.connection.read_plainly(data)) is not None:
                self._taken(self._commits.take_plain(proposal))
                return  # what is sent to its author says by itself whether that one reads
        for event in self.connection.receive(data):
            if self._is_open and type(event) is CommitMessage:
                self._commit(event)
                return
            if isinstance(event, Closed):
                self._farewell(event)
            elif isinstance(event, SessionOpen):
                self._valve.shut(Why.OPENING)
                self._begin(self._open(event))
            elif self._is_open:
                self._serve(event, len(data))
            else:
                self._early.append((event, len(data)))
        if self._is_open and self.outbox.is_slow:
            self._valve.shut(Why.SLOW)

    def drained(self) -> None:
        if self._is_open:
            self._flush()
            self._questions.go_on()

    def lost(self) -> None:
        """The connection is over: what is under way for it alone is given up, what was submitted is decided."""
        self._is_open = False
        for task in self._tasks:
            task.cancel()
        self._stop_timer()
        if self._room is not None:
            self._questions.close()
            self.outbox.close()
            self._room.leave(self)
            self._room.counts.sessions -= 1
            self._house.left(self._room)
            assert self.connection.principal is not None
            self._house.connections.leave(self.connection.principal)
            self._room = None
        self._house.gone(self)

    def _stop_timer(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    # ------------------------------------------------------------ opening

    async def _open(self, message: SessionOpen) -> None:
        try:
            entered = await entering.enter(self._house, self.arrival.space, message)
            self._take_over(entered.room, message.principal, message.session)
            self._settle(entered, message)
            await self._resume(entered, message)
        except StemmaError as error:
            self.end(error)
        except Exception as mistake:
            self.end(self._house.mistaken(mistake, "a session could not be opened"))

    def _take_over(self, room: Room, principal: Did, session: bytes) -> None:
        """One session has one connection: the older one is told (WIRE-3)."""
        other = room.authors.get((principal, session))
        if isinstance(other, Session) and other.connection.session == session:
            room.leave(other)
            other.end(TakenOver())

    def _settle(self, entered: Entered, message: SessionOpen) -> None:
        """From here on verdicts of this session come here."""
        room, house, principal = entered.room, self._house, message.principal
        limits = room.space.limits
        self._room, self._rights, self._lent = room, entered.rights, entered.lent
        self._commits = Commits(
            room.space,
            self,
            principal=principal,
            session=message.session,
            lent=self._lent,
            held=message.held,
            limits=limits,
            wait_ms=house.commit_rates.take,
        )
        self.outbox = Outbox(
            self.connection,
            self.socket,
            room.feed,
            room.choruses,
            room.counts,
            limits=limits,
            unsent_bytes_max=house.settings.unsent_bytes_max,
            has_bytes=self._commits.has_bytes,
        )
        self.outbox.failed = self.failed
        self._questions = Questions(self, room, at_once_max=house.settings.requests_at_once_max)
        self.socket.trust()
        room.enter(self, (principal, message.session))
        room.counts.sessions += 1

    async def _resume(self, entered: Entered, message: SessionOpen) -> None:
        standing = await entering.stand(entered, message, self._house.now())
        for verdict in standing.accepted:
            self.outbox.decide(verdict, verdict.version)
        await self._questions.go_on_watching(message, whole=standing.reset is not None)
        self.rights_changed()  # what was lent may have ended meanwhile
        if self.connection.state is not State.OPEN:
            return
        self.outbox.start(message.to, reset=standing.reset, kept=standing.kept)
        self._is_open = True
        self._stop_timer()
        self._watch_expiry()
        LOG.debug("session_opened", resumed_from=message.to, reset=standing.reset, **self._who())
        self._flush()
        self._serve_early()

    def _serve_early(self) -> None:
        while self._early and self._is_open:
            self._serve(*self._early.popleft())
        self._valve.open(Why.OPENING)

    # ------------------------------------------------------------ serving

    def _serve(self, event: ServerEvent, size: int) -> None:
        if isinstance(event, CommitMessage):
            self._commit(event)
        elif isinstance(event, Unread):
            self.send(event.reply)
        else:
            assert isinstance(event, Request), "an opening and an end are taken before"
            self._ask(event, size)

    def _commit(self, message: CommitMessage) -> None:
        try:
            self._taken(self._commits.take(message))
        except StemmaError as error:
            self.send(self.connection.refuse(message, error))

    def _taken(self, has_room: bool) -> None:
        """A commit, after which the writer of the space has room for more, or not."""
        if not has_room:
            assert self._room is not None
            self._valve.shut(Why.FULL)
            self._room.wait(self)

    def _ask(self, request: Request, size: int) -> None:
        assert self.connection.principal is not None
        wait_ms = self._house.request_rates.take(self.connection.principal)
        if wait_ms:
            self.send(self.connection.fail(request.id, RateLimited(retry_after_ms=wait_ms)))
        else:
            self._questions.put(request, size)
            if self._questions.is_full:
                self._valve.shut(Why.BUSY)

    def asked_less(self) -> None:
        if not self._questions.is_full:
            self._valve.open(Why.BUSY)

    def asker(self) -> Asker:
        """Who asks, with the rights of now."""
        principal, session = self.connection.principal, self.connection.session
        assert principal is not None
        assert session is not None
        return Asker(principal, session, self._rights, self._lent)

    def send(self, data: Data | None) -> None:
        """At once; counted from when it is known in which space. One who does not read is not read from (SYNC-6)."""
        if data is None:
            return
        if self._room is None:
            self.socket.send(data)
            return
        self.outbox.send(data)
        if self._is_open and self.outbox.is_slow:
            self._valve.shut(Why.SLOW)

    def mistaken(self, mistake: BaseException, what: str) -> Internal:
        return self._house.mistaken(mistake, what)

    # ------------------------------------------------------------ verdicts

    def accepted(self, told: Told) -> None:
        session, commit = self.connection.session, told.commit
        identity = commit.identity
        assert session is not None
        assert isinstance(identity, LocalIdentity), "only plain commits have an author's verdict"
        salts = records.salts_of(told.facts)
        if identity.session == session and commit.note is None:
            self.outbox.accept((commit, salts))
        else:
            self.outbox.decide(records.accepted(commit, salts, session=session), commit.version)
        self._commits.settled(identity)
        if self._room is not None:
            self._room.touch(self)

    def decided(self, identity: LocalIdentity, outcome: Repeated | Refused) -> None:
        if self._room is not None:
            self._begin(self._tell(self._room, identity, outcome))

    async def _tell(self, room: Room, identity: LocalIdentity, outcome: Repeated | Refused) -> None:
        session = self.connection.session
        assert session is not None
        async with self._telling:  # one by one: what the clients of a flood of conflicts are told is large
            await self._find_verdict(room, identity, outcome, session)
        self.changed()

    async def _find_verdict(
        self, room: Room, identity: LocalIdentity, outcome: Repeated | Refused, session: bytes
    ) -> None:
        try:
            if isinstance(outcome, Repeated):
                verdict = await verdicts.recalled(room.space, outcome.version, session=session)
                self.outbox.decide(verdict, outcome.version)
            else:
                has_room = self.outbox.verdict_bytes <= self._house.settings.unsent_bytes_max
                against = await verdicts.rejected(
                    room.space, identity, outcome.error, outcome.at, session=session, with_current=has_room
                )
                self.outbox.decide(against, outcome.at)
                room.counts.rejections[against.code] += 1
        except Unready as unready:
            self._commits.put_off(identity, unready)

    def defer(self, message: Deferred) -> None:
        self.send(self.connection.send(message))
        self.changed()  # the queue of the space may have emptied by this

    def has_room(self) -> None:
        """The writer of the space has room again."""
        self._valve.open(Why.FULL)

    # ------------------------------------------------------------ what its room tells

    @property
    def to(self) -> Version:
        return self.outbox.to

    def changed(self) -> None:
        """There may be something to tell."""
        if self._room is not None:
            self._room.touch(self)

    def owe_frame(self) -> None:
        if self._rights.role != "none":
            self.outbox.owe()

    def flush(self) -> None:
        """Tells what there is; a client that does not read is not read from either (SYNC-6)."""
        if not self._is_open:
            return
        outbox = self.outbox
        if self._valve.is_shut or not (outbox.tell_author() or outbox.repeat()):
            self._flush()

    def take_no_more(self) -> None:
        """The server is stopping: what was taken is decided, and nothing else."""
        self._valve.shut(Why.STOPPING)

    def _flush(self) -> None:
        outbox = self.outbox
        if outbox.is_slow:
            self._valve.shut(Why.SLOW)
            return
        if self._valve.is_shut:
            self._valve.open(Why.SLOW)
        outbox.flush()
        if outbox.expects_more and self._room is not None:
            self._room.expect(self)

    def rights_changed(self) -> None:
        """One who may read something else comes again; one who may nothing any more still learns its verdicts."""
        assert self._room is not None
        assert self.connection.principal is not None
        rights = self._room.access.rights(self.connection.principal, self._lent, self._house.now())
        before, self._rights = self._rights, rights
        if self.outbox.is_in_parts if rights.role == "none" else self._reads_other(before, rights):
            self.end(GoingAway("What this identity may read has changed. Connect again."))
        elif rights.role == "none":
            self.outbox.end_watches(Forbidden(action="read", needs="read"))
            self.changed()

    def _reads_other(self, before: Rights, rights: Rights) -> bool:
        """A founder that watches nothing yet simply goes on, with the access list that it has just written."""
        if before == FOUNDER and not self.outbox.count:
            return False
        return before.role == "none" or before.prefixes != rights.prefixes

    def _came_too_late(self) -> None:
        self.end(TimedOut(timeout_ms=self._house.settings.opening_timeout_ms))

    def _watch_expiry(self) -> None:
        """A delegation that ends takes its rights along, also from one who is connected."""
        change = delegation.next_change(self._lent, self._house.now())
        if change is not None and self._is_open:
            seconds = max(0, change - self._house.now()) / 1_000
            self._expiry = asyncio.get_running_loop().call_later(seconds, self._expired)

    def _expired(self) -> None:
        if self._room is not None:
            self.rights_changed()
            self._watch_expiry()

    # ------------------------------------------------------------ ending

    def failed(self, mistake: BaseException) -> None:
        self.end(self._house.mistaken(mistake, "a session made a mistake"))

    def end(self, error: StemmaError, *, retry_after_ms: int | None = None) -> None:
        """Says goodbye and closes; the listener will say that it is lost."""
        self._farewell(self.connection.close(error, retry_after_ms=retry_after_ms))

    def _farewell(self, closed: Closed) -> None:
        self._is_open = False
        LOG.debug("session_ended", code=closed.error.code, **self._who())
        self.send(closed.farewell)
        self.socket.close(closed.close_code)

    def _who(self) -> dict[str, str | None]:
        return {"space": self.arrival.space, "principal": self.connection.principal, "address": self.arrival.address}

    @property
    def is_waiting(self) -> bool:
        """Whether commits of it are not decided yet."""
        return self._room is not None and self.connection.state is State.OPEN and self._commits.undecided > 0

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (mistake := task.exception()) is not None:
            self.failed(mistake)
