"""A session on one connection: opened, served, ended; one stream out, commits and requests in (WIRE-1..4)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Container, Coroutine
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
from stemmadb.protocol.model.access import delegation
from stemmadb.protocol.model.access.access_roles import FOUNDER, Rights
from stemmadb.protocol.model.access.delegation import DelegatedRights
from stemmadb.protocol.model.commit.admission import RefusedCommit, Repeated
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.values.ids import Did, Version
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.connection.base import Closed, ConnectionState
from stemmadb.protocol.wire.connection.server_events import RefusedMessage as Unread
from stemmadb.protocol.wire.connection.server_events import ServerEvent
from stemmadb.protocol.wire.connection.server_side import ServerConnection
from stemmadb.protocol.wire.messages.base import Request
from stemmadb.protocol.wire.messages.commit import CommitMessage, Deferred
from stemmadb.protocol.wire.messages.session import SessionOpen
from stemmadb.server.log_events import Log
from stemmadb.server.service.base.commit_event import CommitEvent
from stemmadb.server.service.base.rate_limits import Rates, Refusals
from stemmadb.server.service.base.request_context import Caller
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.service.base.transport import Arrival, Socket
from stemmadb.server.service.session import entry, verdicts
from stemmadb.server.service.session.commits import Commits
from stemmadb.server.service.session.entry import AdmittedSession, EntryContext
from stemmadb.server.service.session.read_throttle import PauseReason, ReadThrottle
from stemmadb.server.service.session.request_queue import RequestQueue
from stemmadb.server.service.session.space_hub import SpaceHub
from stemmadb.server.service.stream.outbox import Outbox

LOG: Final = Log("session")


class ServerContext(EntryContext, Protocol):
    """The service, as a session uses it."""

    settings: ServiceSettings
    commit_rates: Rates
    request_rates: Rates

    def session_ended(self, session: Session) -> None: ...

    def internal_error(self, error: BaseException, what: str) -> Internal: ...


class Session:
    """The connection handler of one session. Used from one event loop."""

    def __init__(self, server: ServerContext, socket: Socket, arrival: Arrival, connection: ServerConnection) -> None:
        self.arrival = arrival
        self.connection = connection
        self.socket = socket
        self._server = server
        self._early: deque[tuple[ServerEvent, int]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._hub: SpaceHub | None = None
        self._delegated: tuple[DelegatedRights, ...] = ()
        self._rights = Rights("none")
        self._is_open = False
        self.has_other_rights = False
        """Whether its client starts over because it may now read something else."""
        self._throttle = ReadThrottle(socket)
        self._refusals = Refusals(server.settings.refusals_per_second, server.now())
        self._verdict_lock = asyncio.Lock()
        self._expiry: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(
            server.settings.opening_timeout_ms / 1_000, self._came_too_late
        )
        """When the session has to be open, and once it is, when a delegation ends."""

    # ------------------------------------------------------------ what the listener brings

    def received(self, data: Data) -> None:
        if self._hub is not None:
            counts = self._hub.counts
            counts.messages_in += 1
            counts.bytes_in += len(data)
            if (
                self._is_open
                and not self._delegated
                and (proposal := self.connection.read_fast_path(data)) is not None
            ):
                if not self._commits.take_fast_path(proposal):
                    self._taken(has_capacity=False)
                return  # sending to its author checks by itself whether the client reads
        for event in self.connection.receive(data):
            if self._is_open and type(event) is CommitMessage:
                self._commit(event, len(data))
                return
            if isinstance(event, Closed):
                self._farewell(event)
            elif isinstance(event, SessionOpen):
                self._throttle.pause(PauseReason.OPENING)
                self._begin(self._open(event))
            elif self._is_open:
                self._serve(event, len(data))
            else:
                self._early.append((event, len(data)))
        if self._is_open and self.outbox.is_stalled:
            self._throttle.pause(PauseReason.SLOW)

    def overrun(self, error: StemmaError) -> None:
        self.end(error, retry_after_ms=error.facts.get("retry_after_ms"))

    def drained(self) -> None:
        if self._is_open:
            self.flush()
            self._requests.go_on()

    def lost(self) -> None:
        """The connection is over: its own tasks are cancelled; commits that were submitted are still decided."""
        self._is_open = False
        for task in self._tasks:
            task.cancel()
        self._stop_timer()
        if self._hub is not None:
            self._requests.close()
            self.outbox.close()
            self._hub.leave(self)
            self._hub.counts.sessions -= 1
            self._server.leave_hub(self._hub)
            assert self.connection.principal is not None
            self._server.connections.leave(self.connection.principal)
            self._hub = None
        self._server.session_ended(self)

    def _stop_timer(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    # ------------------------------------------------------------ opening

    def open_inside(self, message: SessionOpen, delegated: tuple[DelegatedRights, ...]) -> None:
        """Opens a session of the server's own process, whose principal was authenticated before (HTTP-5)."""
        self.connection.open_inside(message)
        self._begin(self._open(message, delegated))

    async def _open(self, message: SessionOpen, delegated: tuple[DelegatedRights, ...] | None = None) -> None:
        try:
            admitted = await entry.enter(self._server, self.arrival.space, message, delegated)
            self._take_over(admitted.hub, message.principal, message.session)
            self._settle(admitted, message)
            await self._resume(admitted, message)
        except StemmaError as error:
            self.end(error)
        except Exception as error:
            self.end(self._server.internal_error(error, "a session could not be opened"))

    def _take_over(self, hub: SpaceHub, principal: Did, session: bytes) -> None:
        """A session has one connection: the older one is closed with `taken_over` (WIRE-3)."""
        other = hub.authors.get((principal, session))
        if isinstance(other, Session) and other.connection.session == session:
            hub.leave(other)
            other.end(TakenOver())

    def _settle(self, admitted: AdmittedSession, message: SessionOpen) -> None:
        """From here on verdicts of this session come here."""
        hub, server, principal = admitted.hub, self._server, message.principal
        limits = hub.space.limits
        self._hub, self._rights, self._delegated = hub, admitted.rights, admitted.delegated
        self._commits = Commits(
            hub.space,
            self,
            principal=principal,
            session=message.session,
            delegated=self._delegated,
            held=message.held,
            limits=limits,
            wait_ms=server.commit_rates.take,
        )
        self.outbox = Outbox(
            self.connection,
            self.socket,
            hub.feed,
            hub.broadcasts,
            hub.counts,
            limits=limits,
            settings=server.settings,
            has_bytes=self._commits.has_bytes,
        )
        self._requests = RequestQueue(self, hub, at_once_max=server.settings.requests_at_once_max)
        self.socket.trust()
        hub.enter(self, (principal, message.session))
        hub.counts.sessions += 1

    async def _resume(self, admitted: AdmittedSession, message: SessionOpen) -> None:
        state = await entry.resume_state(admitted, message, self._server.now())
        self.has_other_rights = state.has_other_rights
        for verdict in state.accepted:
            self.outbox.decide(verdict, verdict.version)
        await self._requests.go_on_watching(message, whole=state.reset is not None)
        self.rights_changed()  # a delegated may have ended meanwhile
        if self.connection.state is not ConnectionState.OPEN:
            return
        self.outbox.start(message.to, reset=state.reset, kept=state.kept)
        self._is_open = True
        self._stop_timer()
        self._watch_expiry()
        LOG.debug("session_opened", resumed_from=message.to, reset=state.reset, **self._who())
        self.flush()
        self._serve_early()

    def _serve_early(self) -> None:
        while self._early and self._is_open:
            self._serve(*self._early.popleft())
        self._throttle.resume(PauseReason.OPENING)

    # ------------------------------------------------------------ serving

    def _serve(self, event: ServerEvent, size: int) -> None:
        if isinstance(event, CommitMessage):
            self._commit(event, size)
        elif isinstance(event, Unread):
            self._refuse(event.reply, size)
        else:
            assert isinstance(event, Request), "an opening and an end are taken before"
            self._ask(event, size)

    def _commit(self, message: CommitMessage, size: int) -> None:
        try:
            self._taken(has_capacity=self._commits.take(message))
        except StemmaError as error:
            self._refuse(self.connection.refuse(message, error), size)

    def _refuse(self, reply: Data | None, size: int) -> None:
        """Answers a message that is not taken. A client of which too many are refused is sent away (WIRE-7)."""
        self.send(reply)
        wait_ms = self._refusals.take(size, self._server.now())
        if wait_ms:
            self.end(RateLimited(retry_after_ms=wait_ms), retry_after_ms=wait_ms)

    def _taken(self, *, has_capacity: bool) -> None:
        """A commit was submitted; stops reading if the writer of the space has no capacity for more."""
        if not has_capacity:
            assert self._hub is not None
            self._throttle.pause(PauseReason.FULL)
            self._hub.wait(self)

    def _ask(self, request: Request, size: int) -> None:
        assert self.connection.principal is not None
        wait_ms = self._server.request_rates.take(self.connection.principal)
        if wait_ms:
            self._refuse(self.connection.fail(request.id, RateLimited(retry_after_ms=wait_ms)), size)
        else:
            self._requests.put(request, size)
            if self._requests.is_full:
                self._throttle.pause(PauseReason.BUSY)

    def queue_shortened(self) -> None:
        if not self._requests.is_full:
            self._throttle.resume(PauseReason.BUSY)

    def caller(self) -> Caller:
        """The principal of this session with its current rights."""
        principal, session = self.connection.principal, self.connection.session
        assert principal is not None
        assert session is not None
        return Caller(principal, session, self._rights, self._delegated)

    def send(self, data: Data | None) -> None:
        """Sends at once. While the client does not read, nothing more is read from it (SYNC-6)."""
        if data is None:
            return
        if self._hub is None:
            self.socket.send(data)
            return
        self.outbox.send(data)
        if self._is_open and self.outbox.is_stalled:
            self._throttle.pause(PauseReason.SLOW)

    def internal_error(self, error: BaseException, what: str) -> Internal:
        return self._server.internal_error(error, what)

    # ------------------------------------------------------------ verdicts

    def accepted(self, event: CommitEvent) -> None:
        session, commit = self.connection.session, event.commit
        identity = commit.identity
        assert session is not None
        assert isinstance(identity, LocalIdentity), "only commits of sessions have an author"
        salts = records.salts_of(event.facts)
        if identity.session == session and commit.note is None:
            self.outbox.accept((commit, salts))
        else:
            self.outbox.decide(records.accepted(commit, salts, session=session), commit.version)
        self._commits.settled(identity)
        if self._hub is not None:
            self._hub.touch(self)

    def decided(self, identity: LocalIdentity, outcome: Repeated | RefusedCommit) -> None:
        if self._hub is not None:
            self._begin(self._send_verdict(self._hub, identity, outcome))

    async def _send_verdict(self, hub: SpaceHub, identity: LocalIdentity, outcome: Repeated | RefusedCommit) -> None:
        session = self.connection.session
        assert session is not None
        async with self._verdict_lock:  # one at a time: during a flood of conflicts the verdicts are large
            await self._find_verdict(hub, identity, outcome, session)
        self.changed()

    async def _find_verdict(
        self, hub: SpaceHub, identity: LocalIdentity, outcome: Repeated | RefusedCommit, session: bytes
    ) -> None:
        try:
            if isinstance(outcome, Repeated):
                verdict = await verdicts.recalled(hub.space, outcome.version, session=session)
                self.outbox.decide(verdict, outcome.version)
            else:
                has_capacity = self.outbox.verdict_bytes <= self._server.settings.unsent_bytes_max
                against = await verdicts.rejected(
                    hub.space, identity, outcome.error, outcome.at, session=session, with_current=has_capacity
                )
                self.outbox.decide(against, outcome.at)
                hub.counts.rejections[against.code] += 1
        except Unready as unready:
            self._commits.defer(identity, unready)

    def defer(self, message: Deferred) -> None:
        self.send(self.connection.send(message))
        self.changed()  # the queue of the space may have emptied by this

    def queue_has_capacity(self) -> None:
        self._throttle.resume(PauseReason.FULL)

    # ------------------------------------------------------------ called by its hub

    @property
    def to(self) -> Version:
        return self.outbox.to

    @property
    def is_shared_due(self) -> bool:
        return self.outbox.is_shared_due

    def changed(self) -> None:
        """There may be something to send."""
        if self._hub is not None:
            self._hub.touch(self)

    def owe_frame(self) -> None:
        if self._rights.role != "none":
            self.outbox.owe()

    def flush(self) -> None:
        """Sends what there is; while the client does not read, nothing is read from it either (SYNC-6)."""
        if not self._is_open:
            return
        outbox = self.outbox
        outbox.flush()
        if outbox.is_stalled:
            self._throttle.pause(PauseReason.SLOW)
            return  # until it has drained
        if self._throttle.reasons:
            self._throttle.resume(PauseReason.SLOW)
        if outbox.expects_more and self._hub is not None:
            self._hub.expect(self)

    def take_no_more(self) -> None:
        """The server is stopping: what was taken is decided, and nothing else."""
        self._throttle.pause(PauseReason.STOPPING)

    def rights_changed(self) -> None:
        """Ends the session if it may now read something else; without any rights it still gets its verdicts."""
        assert self._hub is not None
        assert self.connection.principal is not None
        rights = self._hub.access.rights(self.connection.principal, self._delegated, self._server.now())
        before, self._rights = self._rights, rights
        if self.outbox.is_in_parts if rights.role == "none" else self._reads_other(before, rights):
            self.end(GoingAway("What this identity may read has changed. Connect again."))
        elif rights.role == "none":
            self.outbox.end_watches(Forbidden(action="read", needs="read"))
            self.changed()

    def erased(self) -> None:
        """A frame of which parts are left cannot be taken back in any other way than by ending the session."""
        if self.outbox.is_in_parts:
            self.end(GoingAway("Something was erased that this connection was being sent. Connect again."))
        else:
            self.outbox.forget_values()

    def _reads_other(self, before: Rights, rights: Rights) -> bool:
        """A founder that watches nothing yet simply goes on, with the access list that it has just written."""
        if before == FOUNDER and not self.outbox.count:
            return False
        return before.role == "none" or before.prefixes != rights.prefixes

    def _came_too_late(self) -> None:
        self.end(TimedOut(timeout_ms=self._server.settings.opening_timeout_ms))

    def _watch_expiry(self) -> None:
        """When a delegation ends its rights end too, also for a session that is open."""
        change = delegation.next_change(self._delegated, self._server.now())
        if change is not None and self._is_open:
            seconds = max(0, change - self._server.now()) / 1_000
            self._expiry = asyncio.get_running_loop().call_later(seconds, self._expired)

    def _expired(self) -> None:
        if self._hub is not None:
            self.rights_changed()
            self._watch_expiry()

    # ------------------------------------------------------------ ending

    def failed(self, error: BaseException) -> None:
        self.end(self._server.internal_error(error, "a session failed"))

    def end(self, error: StemmaError, *, retry_after_ms: int | None = None) -> None:
        """Sends the reason and closes; the listener calls `lost` afterwards."""
        self._farewell(self.connection.close(error, retry_after_ms=retry_after_ms))

    def is_in(self, hubs: Container[SpaceHub]) -> bool:
        """Whether the session was led to one of these hubs."""
        return self._hub is not None and self._hub in hubs

    def _farewell(self, closed: Closed) -> None:
        self._is_open = False
        LOG.debug("session_ended", code=closed.error.code, **self._who())
        self.send(closed.farewell)
        self.socket.close(closed.close_code)

    def _who(self) -> dict[str, str | None]:
        return {"space": self.arrival.space, "principal": self.connection.principal, "address": self.arrival.address}

    @property
    def is_waiting(self) -> bool:
        """Whether some of its commits are not decided yet."""
        return self._hub is not None and self.connection.state is ConnectionState.OPEN and self._commits.undecided > 0

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(error)
