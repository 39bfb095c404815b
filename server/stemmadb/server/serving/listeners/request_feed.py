"""Feeds the HTTP library one request at a time: reads each head, and passes on exactly its body (HTTP-1).

A connection goes through these states, and may be closed from each:

    HEAD      waits for a head, which may come in pieces     closed after `idle`, or `head` after its first byte
    BODY      passes on the bytes of a body as they come     408 where none comes for `body`
    ANSWER    the body is complete, the answer is not        no deadline; bytes of the next request wait here
    CLOSING   what the peer still sends is dropped           aborted after `close_timeout_ms`
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from stemmadb.server.serving.listeners import http
from stemmadb.server.serving.listeners.half_close import half_close
from stemmadb.server.serving.listeners.handshake import is_upgrade
from stemmadb.server.serving.listeners.http import HEAD_BYTES_MAX, HEAD_END, BadRequest, Http, HttpRequest
from stemmadb.server.serving.listeners.web_port import HttpProtocol, WebServer

if TYPE_CHECKING:
    from stemmadb.server.serving.listeners.front import Front
    from stemmadb.server.serving.listeners.gate import Gate

WAITING_BYTES_MAX: Final = 16 * 1024
"""Bytes of later requests that are kept while one is answered; beyond it nothing is read."""
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
TOO_LARGE: Final = (
    f"The head of a request is limited to {HEAD_BYTES_MAX} bytes. Long chains of delegations are for the WebSocket."
)
RETRY_AFTER: Final = ("Retry-After", "5")
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""Those that are passed on. The library does not know every method, and CONNECT would end its reading of requests."""


class FeedState(enum.Enum):
    """What the connection does now; the module says what ends each."""

    HEAD = enum.auto()
    BODY = enum.auto()
    ANSWER = enum.auto()
    CLOSING = enum.auto()


class RequestFeed:
    """The requests of one connection; the transport of the HTTP library, as `http.web_server` uses it."""

    def __init__(
        self,
        front: Front,
        gate: Gate,
        transport: asyncio.Transport,
        answers: Http,
        web: WebServer,
        *,
        peer: tuple[str, int] | None = None,
    ) -> None:
        """`peer` is the client's address where the transport's is another."""
        self._front = front
        self._gate = gate
        self._transport = transport
        self._answers = answers
        self._web = web
        self._state = FeedState.HEAD
        self._protocol: HttpProtocol | None = None
        """None until the first request that is passed on, and after the end."""
        self._waiting = bytearray()
        self._has_head_begun = False
        """Whether a part of the next head is here, which has a deadline from its first byte on."""
        self._left = 0
        """Bytes of the body that have not come."""
        self._wants_continue = False
        self._has_begun = False
        """Whether a byte of this answer was written."""
        self._is_stream = False
        self._is_stopping = False
        self._pauses: set[str] = set()
        """Why nothing is read now."""
        self._peer = peer
        self.get_write_buffer_size = transport.get_write_buffer_size

    # ---------------------------------------------------------------- what the Front brings

    def begin(self, head: bytes, request: HttpRequest, rest: bytes) -> None:
        """The first request, whose head the Front has read."""
        self._waiting += rest
        self._take(head, request)

    def received(self, data: bytes) -> None:
        if self._state is FeedState.CLOSING:
            return
        if self._state is FeedState.BODY:
            data = self._pass_on(data)
        if data:
            self._waiting += data
            self._read_heads()

    def late(self) -> None:
        """A deadline has passed."""
        if self._state is FeedState.BODY and not self._has_begun:
            self._refuse(408, "The body of the request did not come in time.")
        else:
            self._transport.abort()

    def stop(self) -> None:
        """The server stops: a request that is being answered is finished, and none is taken after it."""
        self._is_stopping = True
        if self._state is FeedState.HEAD:
            self._transport.abort()

    def lost(self, exc: Exception | None) -> None:
        self._state = FeedState.CLOSING
        if self._protocol is not None:
            protocol, self._protocol = self._protocol, None
            protocol.connection_lost(exc or ConnectionResetError("the peer is gone"))

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()
            if not self._is_stream and self._state is not FeedState.CLOSING:
                self._gate.await_by(self._front, self._gate.settings.body_timeout_ms)

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()
            if self._state is FeedState.ANSWER:
                self._gate.await_by(self._front, None)

    # ---------------------------------------------------------------- heads

    def _read_heads(self) -> None:
        """Takes the next request if its head is complete and the one before is answered."""
        if self._state is FeedState.HEAD and self._waiting:
            self._read_head()
        elif len(self._waiting) > WAITING_BYTES_MAX:
            self._pause("waiting")

    def _read_head(self) -> None:
        end = self._waiting.find(HEAD_END) + len(HEAD_END)
        is_whole = end >= len(HEAD_END)
        if (end if is_whole else len(self._waiting)) > HEAD_BYTES_MAX:
            self._refuse(431, TOO_LARGE)
            return
        head = bytes(self._waiting[:end]) if is_whole else b""
        try:
            http.check_beginning(head or self._waiting)
            request = http.read_head(head) if is_whole else None
        except BadRequest as bad:
            self._refuse(bad.status, str(bad))
            return
        if request is None:
            if not self._has_head_begun:
                self._has_head_begun = True
                self._gate.await_by(self._front, self._gate.settings.handshake_timeout_ms)
            return
        del self._waiting[:end]
        if is_upgrade(request):
            self._refuse(426, "A WebSocket is opened by the first request of a connection. Connect again.")
        else:
            self._take(head, request)

    def _take(self, head: bytes, request: HttpRequest) -> None:
        self._has_head_begun = False
        answer = self._answers(request) if request.method in ("GET", "HEAD") else None
        if answer is not None:
            self._end(http.write_answer(answer, body=request.method != "HEAD"), refused=False)
            return
        try:
            self._left = http.body_length(request)
        except BadRequest as bad:
            self._refuse(bad.status, str(bad))
            return
        if request.method not in METHODS:
            known = ", ".join(METHODS)
            self._refuse(405, f"Only {known} are answered here.", ("Allow", known))
        elif request.version == "HTTP/1.1" and not request.all("host"):
            self._refuse(400, "The header Host is missing.")
        elif self._left > self._web.body_bytes_max(request.method, request.path):
            self._refuse(413, "The body of the request is larger than the server takes here.")
        elif self._web.is_loaded:
            self._give(head, request)
        else:
            self._state = FeedState.ANSWER
            self._gate.await_by(self._front, None)
            self._web.when_loaded(lambda: self._give(head, request))

    def _give(self, head: bytes, request: HttpRequest) -> None:
        if self._state is FeedState.CLOSING:
            return
        if self._protocol is None:
            self._protocol = self._web.connect()
            self._protocol.connection_made(self)
        self._wants_continue = self._left > 0 and "100-continue" in (one.lower() for one in request.listed("expect"))
        self._has_begun = self._is_stream = False
        self._state = FeedState.BODY if self._left else FeedState.ANSWER
        self._gate.await_by(self._front, self._gate.settings.body_timeout_ms if self._left else None)
        self._protocol.data_received(head if self._gate.routing.ownership.is_single else http.closing(head))
        if self._left and self._waiting:
            came = bytes(self._waiting)
            self._waiting.clear()
            self._waiting += self._pass_on(came)
        if len(self._waiting) <= WAITING_BYTES_MAX:
            self._unpause("waiting")  # for a body that came while the library was being loaded

    def _pass_on(self, data: bytes) -> bytes:
        """Gives the library what belongs to the body, and returns the rest."""
        body, rest = data[: self._left], data[self._left :]
        self._left -= len(body)
        if self._left:
            if "library" not in self._pauses:
                self._gate.await_by(self._front, self._gate.settings.body_timeout_ms)
        else:
            self._state = FeedState.ANSWER
            self._gate.await_by(self._front, None)
        if self._protocol is not None:
            self._protocol.data_received(body)
        return rest

    # ---------------------------------------------------------------- the transport of the library

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name == "peername" and self._peer is not None:
            return self._peer
        return self._transport.get_extra_info(name, default)

    @property
    def has_whole_body(self) -> bool:
        return not self._left

    def send_continue(self) -> None:
        if self._wants_continue and self._left and not self._has_begun:
            self._transport.write(CONTINUE)
        self._wants_continue = False

    def begin_stream(self) -> None:
        self._is_stream = True

    def finished(self, *, keep_alive: bool) -> None:
        if self._state is FeedState.CLOSING:
            return
        if self._left or not keep_alive or self._is_stopping:
            self.close()
            return
        self._state = FeedState.HEAD
        self._gate.await_by(self._front, self._gate.settings.idle_timeout_ms)
        # In a turn of its own: a client that sends 100 requests at once takes no more of a turn than others.
        self._gate.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._state is FeedState.HEAD:
            self._read_heads()
            if len(self._waiting) <= WAITING_BYTES_MAX:
                self._unpause("waiting")

    def write(self, data: bytes) -> None:
        if self._state is not FeedState.CLOSING:
            if not self._gate.routing.ownership.is_alive():
                self._transport.abort()  # another process may serve the space by now
                return
            self._has_begun = True
            self._transport.write(data)

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.write(b"".join(parts))

    def is_closing(self) -> bool:
        return self._state is FeedState.CLOSING or self._transport.is_closing()

    def close(self) -> None:
        """The library is done with the connection: what was written is sent, and nothing more is read."""
        if self._state is not FeedState.CLOSING:
            self._end(b"", refused=False)

    def abort(self) -> None:
        self._transport.abort()

    def pause_reading(self) -> None:
        """The handler is slower than the peer: that is not the peer's delay."""
        self._pause("library")
        if self._state is FeedState.BODY:
            self._gate.await_by(self._front, None)

    def resume_reading(self) -> None:
        self._unpause("library")
        if self._state is FeedState.BODY:
            self._gate.await_by(self._front, self._gate.settings.body_timeout_ms)

    def _pause(self, why: str) -> None:
        if not self._pauses and not self._transport.is_closing():
            self._transport.pause_reading()
        self._pauses.add(why)

    def _unpause(self, why: str) -> None:
        if why in self._pauses:
            self._pauses.discard(why)
            if not self._pauses and not self._transport.is_closing():
                self._transport.resume_reading()

    # ---------------------------------------------------------------- the end

    def _refuse(self, status: int, detail: str, *extra: tuple[str, str]) -> None:
        self._end(http.write_problem(status, detail, extra), refused=True)

    def _end(self, data: bytes, *, refused: bool) -> None:
        """Sends the last bytes and reads on: closing with unread bytes would take the answer away from the peer."""
        self._state = FeedState.CLOSING
        self._gate.refused += refused
        self._waiting.clear()
        for why in tuple(self._pauses):
            self._unpause(why)
        if data:
            self._transport.write(data)
        self._gate.hurry(self._front)
        half_close(self._transport)
