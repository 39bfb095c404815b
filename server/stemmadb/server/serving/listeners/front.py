"""A connection until it is a WebSocket: reads the head of a request, then answers and closes, or hands over.

A request that names a space is answered by the process that serves the space: another one gets the connection,
before anything was answered (`serving.ownership`). A request for a WebSocket is recognised before anything else of
HTTP is looked at. Other requests go to a feed, which stays behind this protocol and passes one at a time on to the
HTTP library (HTTP-1).
"""

from __future__ import annotations

import asyncio
import enum
import logging
import socket
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from stemmadb.server.log_events import Log
from stemmadb.server.service.base.transport import Arrival, HandlerFactory
from stemmadb.server.serving.listeners.half_close import half_close
from stemmadb.server.serving.listeners.handshake import HandshakeReply, Upgrade, answer_request, is_upgrade, refuse
from stemmadb.server.serving.listeners.http import (
    HEAD_BYTES_MAX,
    HEAD_END,
    BadRequest,
    Http,
    HttpAnswer,
    HttpRequest,
    check_beginning,
    read_head,
    write_answer,
    write_problem,
)
from stemmadb.server.serving.listeners.request_feed import RETRY_AFTER, TOO_LARGE, RequestFeed
from stemmadb.server.serving.listeners.web_port import WebServer
from stemmadb.server.serving.ownership.port import (
    LeavingConnection,
    Owner,
    OwnerUnreachable,
    PassedConnection,
    RelayedEnd,
    ServedBy,
    ServedHere,
)
from stemmadb.server.serving.ownership.routing import space_of

if TYPE_CHECKING:
    from stemmadb.server.serving.listeners.gate import Gate

_log: Final = logging.getLogger(__name__)
LOG: Final = Log("front")
OWNED_ELSEWHERE: Final = "The process that serves this space does not answer. Try again."
TOO_MANY: Final = "There are too many connections from this address."
OWNER_RETRY_AFTER: Final = ("Retry-After", "1")


class EarlyRefusal(enum.Enum):
    """Why a connection is refused before it has sent anything."""

    SILENT = enum.auto()
    """There are far too many: not even an answer."""
    ADDRESS = enum.auto()


class Front(asyncio.Protocol):
    """The first protocol of every connection. Whatever comes after its request is left to what it hands over to."""

    def __init__(
        self,
        gate: Gate,
        handlers: HandlerFactory,
        http: Http,
        web: WebServer | None = None,
        passed: PassedConnection | None = None,
    ) -> None:
        self._gate = gate
        self._handlers = handlers
        self._http = http
        self._web = web
        self._feed: RequestFeed | None = None
        """What takes every later byte, once a request was passed on."""
        self._relay: RelayedEnd | None = None
        """What takes every later byte, once the connection goes through here to the owner of its space."""
        self._head = bytearray()
        """What was read so far."""
        self._is_asking = False
        """Whether the owner of the space is not known yet, or does not have the connection yet."""
        self._passed = passed
        self._is_passed = passed is not None
        """Whether another process has passed it on to this one: then it is not passed on again."""
        self._task: asyncio.Task[None] | None = None
        """Passes it on, or makes an answer that is not there at once."""
        self._done = False
        self.address = ""
        self.counted = False
        """Whether it is one of the connections of its address; the gate's."""
        self.is_handed = False
        """Whether it is one of the HTTP connections; the gate's."""
        self.tallied = ""
        """Under which key its address is counted for all processes; the gate's."""
        self.is_relayed = False
        """Whether it goes through here to another process; the gate's."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # that of uvloop only looks like one
        self._transport = transport
        _tune(transport, unanswered_ms=2 * self._gate.settings.heartbeat_ms)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else ""
        if self._passed is not None:
            self.address = self._passed.address
            self._head += self._passed.data
            self._gate.loop.call_soon(self.data_received, b"")  # the transport is not reading yet
        match self._gate.arrived(self):
            case EarlyRefusal.SILENT:
                self._gate.refused += 1
                self._done = True
                transport.abort()
            case EarlyRefusal.ADDRESS:
                self._finish(refuse(429, TOO_MANY))
            case None:
                pass

    def data_received(self, data: bytes) -> None:
        if self._feed is not None:
            self._feed.received(data)
            return
        if self._relay is not None:
            self._relay.data_received(data)
            return
        if self._done:
            return
        searched, self._passed = (0 if self._passed else max(len(self._head) - len(HEAD_END) + 1, 0)), None
        self._head += data
        if self._is_asking:
            return
        end = self._head.find(HEAD_END, searched) + len(HEAD_END)
        whole = end >= len(HEAD_END)
        if (end if whole else len(self._head)) > HEAD_BYTES_MAX:
            self._finish(self._refused(431, TOO_LARGE))
        elif whole:
            self._read(bytes(self._head[:end]))
        elif self._web is not None:
            self._check_beginning()

    def eof_received(self) -> bool | None:
        """The peer sends no more: the transport closes itself, once what was written is sent or the time is over."""
        self._gate.hurry(self)
        return None if self._relay is None else self._relay.eof_received()

    def pause_writing(self) -> None:
        if self._feed is not None:
            self._feed.pause_writing()
        elif self._relay is not None:
            self._relay.pause_writing()

    def resume_writing(self) -> None:
        if self._feed is not None:
            self._feed.resume_writing()
        elif self._relay is not None:
            self._relay.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._done = True
        self._gate.left(self)
        if self._feed is not None:
            self._feed.lost(exc)
        elif self._relay is not None:
            self._relay.connection_lost(exc)

    def late(self) -> None:
        """Its deadline has passed."""
        if self._feed is None:
            self._transport.abort()
        else:
            self._feed.late()

    def stop(self) -> None:
        """The server stops listening. What goes through here to another process ends when that one ends it."""
        if self._feed is not None:
            self._feed.stop()
        elif self._relay is None:
            self._transport.abort()

    def _check_beginning(self) -> None:
        try:
            check_beginning(self._head)
        except BadRequest as bad:
            self._finish(self._refused(bad.status, str(bad)))

    def _read(self, head: bytes) -> None:
        """The head is whole: finds out who answers it."""
        try:
            request = read_head(head)
        except BadRequest as bad:
            self._finish(self._refused(bad.status, str(bad)))
            return
        routing = self._gate.routing
        if routing.ownership.is_single:
            self._answer(head, request)
            return
        space = space_of(request.path)
        if space is None:
            if not self._is_answered_later(request):
                self._answer(head, request)
            return
        if not self._is_passed and (address := routing.passing.passed_by(request.headers)) is not None:
            self._is_passed = True
            if not self._gate.readdress(self, address):
                self._finish(refuse(429, TOO_MANY))
                return
        self._is_asking = True
        self._transport.pause_reading()
        routing.find(space, partial(self._found, head, request))

    def _is_answered_later(self, request: HttpRequest) -> bool:
        later = self._gate.answers_later
        answer = None if later is None or request.method not in ("GET", "HEAD") else later(request)
        if answer is None:
            return False
        self._is_asking = True
        self._task = self._gate.loop.create_task(self._answer_later(answer, has_body=request.method != "HEAD"))
        return True

    async def _answer_later(self, answer: Awaitable[HttpAnswer], *, has_body: bool) -> None:
        data = write_answer(await answer, body=has_body)
        if not self._done:
            self._finish(HandshakeReply(data=data, refused=False))

    def _found(self, head: bytes, request: HttpRequest, owner: Owner | None) -> None:
        """The owner of the space is known, or None if it cannot be."""
        if self._done or self._transport.is_closing():
            return
        if isinstance(owner, ServedHere):
            self._is_asking = False
            self._transport.resume_reading()
            self._answer(head, request)
        elif isinstance(owner, ServedBy) and not self._is_passed and self._gate.may_relay():
            self._task = self._gate.loop.create_task(self._pass_to(owner, head, request))
        else:
            self._refuse_for_now(request)

    async def _pass_to(self, owner: ServedBy, head: bytes, request: HttpRequest) -> None:
        leaving = LeavingConnection(
            transport=self._transport,
            head=head,
            rest=bytes(self._head[len(head) :]),
            address=self.address,
            ending=partial(self._gate.hurry, self),
        )
        try:
            relay = await self._gate.routing.passing.pass_on(leaving, owner)
        except Exception as error:
            if not isinstance(error, OwnerUnreachable):
                LOG.internal_error("passing_on_failed", error)
            if not self._done:
                self._refuse_for_now(request)
            return
        if relay is None:
            self._done = True
            self._transport.abort()  # the socket is the owner's now
        elif self._done:
            relay.connection_lost(None)
        else:
            self._relay = relay
            self._head.clear()
            self._gate.relayed(self)

    def _refuse_for_now(self, request: HttpRequest) -> None:
        self._is_asking = False
        self._transport.resume_reading()
        if self._web is None or is_upgrade(request):
            self._finish(refuse(503, OWNED_ELSEWHERE, [OWNER_RETRY_AFTER]))
        else:
            data = write_problem(503, OWNED_ELSEWHERE, [OWNER_RETRY_AFTER])
            self._finish(HandshakeReply(data=data, refused=True))

    def _answer(self, head: bytes, request: HttpRequest) -> None:
        if not self._gate.answered(self):
            self._finish(refuse(429, TOO_MANY))
            return
        rest = bytes(self._head[len(head) :])
        if self._web is not None and not is_upgrade(request):
            self._pass_on(head, request, rest, self._web)
        else:
            self._answer_here(request, rest)

    def _pass_on(self, head: bytes, request: HttpRequest, rest: bytes, web: WebServer) -> None:
        if not self._gate.handed(self):
            self._finish(self._at_the_limit(request))
            return
        self._done = True
        self._head.clear()
        peer = (self.address, 0) if self._is_passed else None
        self._feed = RequestFeed(self, self._gate, self._transport, self._http, web, peer=peer)
        try:
            self._feed.begin(head, request, rest)
        except Exception:
            _log.exception("a plain request failed")
            self._transport.write(write_problem(500, "The server failed to answer. Its log says why."))
            self._feed.close()

    def _at_the_limit(self, request: HttpRequest) -> HandshakeReply:
        """Says that there are too many HTTP connections. Checks of the server's health are answered all the same."""
        answer = self._http(request) if request.method in ("GET", "HEAD") else None
        if answer is not None:
            return HandshakeReply(data=write_answer(answer, body=request.method != "HEAD"), refused=False)
        data = write_problem(503, "The server has reached its limit of HTTP connections.", [RETRY_AFTER])
        return HandshakeReply(data=data, refused=True)

    def _answer_here(self, request: HttpRequest, rest: bytes) -> None:
        answer: Upgrade | HandshakeReply
        try:
            answer = answer_request(request, origins=self._gate.origins, http=self._http)
        except Exception:
            _log.exception("a plain request failed")
            answer = refuse(500, "The server failed to answer. Its log says why.")
        if isinstance(answer, Upgrade):
            self._hand_over(answer, rest)
        else:
            self._finish(answer)

    def _hand_over(self, upgrade: Upgrade, rest: bytes) -> None:
        if self._gate.full():
            self._finish(refuse(503, "The server has reached its limit of connections. Try again later."))
            return
        self._done = True
        self._head.clear()
        self._transport.write(upgrade.response)
        connection = self._gate.connect(self._transport, self.address)
        self._gate.upgraded(self, connection)
        arrival = Arrival(space=upgrade.space, subprotocol=upgrade.subprotocol, address=self.address)
        connection.greet(self._handlers, arrival, rest)

    def _refused(self, status: int, text: str) -> HandshakeReply:
        """In the form of HTTP's errors where HTTP is served."""
        if self._web is None:
            return refuse(status, text)
        return HandshakeReply(data=write_problem(status, text), refused=True)

    def _finish(self, reply: HandshakeReply) -> None:
        """Sends the answer and reads on: closing with unread bytes would take the answer away from the peer."""
        self._done = True
        self._head.clear()
        self._gate.refused += reply.refused
        self._transport.write(reply.data)
        self._gate.hurry(self)
        half_close(self._transport)


def _tune(transport: asyncio.Transport, *, unanswered_ms: int) -> None:
    """Sends small messages at once, and lets the system drop a peer that acknowledges nothing for so long."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unanswered_ms)
