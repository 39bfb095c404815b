"""The server's end of a connection: speaks first, opens one session, answers each request once (WIRE-2..4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from stemmadb.protocol import identity
from stemmadb.protocol.errors import (
    BadInput,
    LimitExceeded,
    Malformed,
    OutOfOrder,
    StemmaError,
    Unauthenticated,
)
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.values.ids import Did, Hash, Local, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.codec import bounds, failures
from stemmadb.protocol.wire.codec.fast_path import FastPathCommits, Own, fast_path_commits, verdict_on
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.codec.peek import Peeked
from stemmadb.protocol.wire.codec.subprotocols import codec_for
from stemmadb.protocol.wire.connection import announced_limits, problems
from stemmadb.protocol.wire.connection.base import (
    UNANSWERED_MAX,
    Closed,
    ConnectionState,
    FrameOrder,
    check_kind,
    close_code,
)
from stemmadb.protocol.wire.connection.server_events import RefusedMessage, ServerEvent
from stemmadb.protocol.wire.messages import ClientMessage, type_of
from stemmadb.protocol.wire.messages.base import Part, Request
from stemmadb.protocol.wire.messages.commit import CommitMessage, Deferred
from stemmadb.protocol.wire.messages.session import ErrorMessage, Goodbye, Hello, SessionOpen
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.protocol.wire.version import FEATURES, MSGPACK, PROTOCOL, Subprotocol

CHALLENGE_MS: Final = 10_000
"""How long a challenge can be answered: as long as a client has by default to open its session."""
_OPENING: Final = type_of(SessionOpen)


class ServerConnection:
    """One connection of one session on one space, as the server sees it."""

    def __init__(
        self,
        *,
        subprotocol: Subprotocol,
        server: Did,
        space: Did,
        challenge: bytes,
        now_ms: Callable[[], int],
        limits: Limits = DEFAULTS,
        features: tuple[str, ...] = FEATURES,
    ) -> None:
        assert len(challenge) == identity.CHALLENGE_BYTES
        self.state = ConnectionState.NEW
        self.principal: Did | None = None
        self.session: bytes | None = None
        self.subprotocol: Subprotocol = subprotocol
        self._is_binary = subprotocol == MSGPACK
        self._codec = codec_for(subprotocol, limits)
        self._server = server
        self._space = space
        self._challenge = challenge
        self._now_ms = now_ms
        self._greeted_at = 0
        self._features = features
        self._unanswered: dict[int, type[Part]] = {}
        self._stream = FrameOrder()
        self._fast_path: FastPathCommits | None = None

    def hello(self) -> Data:
        """The first message of the connection."""
        assert self.state is ConnectionState.NEW, "hello is said once, first"
        self.state = ConnectionState.GREETED
        self._greeted_at = self._now_ms()
        return self._codec.encode(
            Hello(
                protocol=PROTOCOL,
                server=self._server,
                challenge=self._challenge,
                limits=announced_limits.announced(self._codec.limits),
                features=self._features,
            )
        )

    def read_fast_path(self, data: Data) -> Proposal | None:
        """The proposal of a fast-path commit of the session; None for anything else, which `receive` takes."""
        if self._fast_path is None or self.state is not ConnectionState.OPEN or not self._stream.carries_commits:
            return None
        return self._fast_path.read(data)

    def receive(self, data: Data) -> list[ServerEvent]:
        """What one message of the client means; after `Closed` nothing is read any more."""
        assert self.state is not ConnectionState.NEW, "the server speaks first"
        if self.state is ConnectionState.CLOSED:
            return []
        if self.state is ConnectionState.GREETED or isinstance(data, bytes) is not self._is_binary:
            try:
                check_kind(data, self.subprotocol)
                self._check_stranger(data)
            except StemmaError as error:
                return [self.close(error)]
        try:
            message = self._codec.read_client(data)
        except StemmaError as error:
            return [self._refuse_unread(error, self._codec.peek(data))]
        if type(message) is CommitMessage and self.state is ConnectionState.OPEN and self._stream.carries_commits:
            return [message]  # as nearly all are
        return [self._take(message)]

    def _check_stranger(self, data: Data) -> None:
        """Nobody makes us read more than an opening before it is known who it is (WIRE-2)."""
        bounds.check_light(len(data), _OPENING, self._codec.limits)
        type_ = self._codec.peek(data).type
        if type_ not in (None, _OPENING):  # what has no type is refused when it is read
            raise OutOfOrder(type=failures.shown(type_), why=f"the session is not open; send '{_OPENING}' first")

    def _take(self, message: ClientMessage) -> ServerEvent:
        try:
            if self.state is ConnectionState.GREETED:
                return self._open(message)
            if isinstance(message, SessionOpen):
                raise OutOfOrder(type=type_of(message), why="the session is open")
            if not isinstance(message, CommitMessage):
                return self._register(message)
            if not self._stream.carries_commits:
                raise OutOfOrder(type=type_of(message), why="wait for the first frame before sending commits again")
            return message
        except StemmaError as error:
            return self.close(error)

    def _open(self, message: ClientMessage) -> SessionOpen:
        """Lets the principal in that signed this connection's challenge, in time (WIRE-2)."""
        assert isinstance(message, SessionOpen), "no other message of a stranger is read"
        if self._now_ms() - self._greeted_at > CHALLENGE_MS:
            raise Unauthenticated(why="the challenge has expired")
        if message.space not in (None, self._space):
            raise Unauthenticated(why="it names another space than the address does")
        if message.to > 0 and message.hash is None:
            raise Malformed(path="hash", why="it is missing; a client that holds a version knows its hash")
        identity.verify_session_open(
            server=self._server,
            challenge=self._challenge,
            space=self._space,
            principal=message.principal,
            session=message.session,
            signature=message.signature,
        )
        bounds.check_watches(message, self._codec.limits)
        return self._opened(message)

    def open_inside(self, message: SessionOpen) -> None:
        """Opens a session of the server's own process, whose principal was authenticated in another way (HTTP-5)."""
        assert self.state is ConnectionState.NEW, "nothing was said before"
        self._opened(message)

    def _opened(self, message: SessionOpen) -> SessionOpen:
        self.state = ConnectionState.OPEN
        self.principal, self.session = message.principal, message.session
        self._stream.start(message.to, message.hash)
        if self._is_binary:
            self._fast_path = fast_path_commits(message.principal, message.session, self._codec.limits)
        return message

    def _register(self, request: Request) -> ServerEvent:
        if request.id in self._unanswered:
            raise OutOfOrder(type=type_of(request), why=f"request {request.id} is not answered yet")
        if len(self._unanswered) >= UNANSWERED_MAX:
            over = LimitExceeded(bound="unanswered_max", maximum=UNANSWERED_MAX, actual=len(self._unanswered) + 1)
            return self._refused(over, id_=request.id)
        self._unanswered[request.id] = request.answer
        return request

    def _refuse_unread(self, error: StemmaError, peeked: Peeked) -> ServerEvent:
        """An open session survives a message that cannot be read; before that there is no second try."""
        error.__traceback__ = error.__context__ = None  # they would keep the message in memory
        if self.state is ConnectionState.GREETED:
            return self.close(error)
        if peeked.type == type_of(CommitMessage) and peeked.local is not None:
            return self._refused(error, local=Local(peeked.local), session=peeked.session)
        return self._refused(error, id_=None if peeked.id in self._unanswered else peeked.id)

    def _refused(
        self, error: StemmaError, *, id_: int | None = None, local: Local | None = None, session: bytes | None = None
    ) -> RefusedMessage:
        reply = self._error(error, id_=id_, local=local, session=session)
        return RefusedMessage(error=error, reply=reply, id=id_, local=local, session=session)

    def _error(
        self, error: StemmaError, *, id_: int | None = None, local: Local | None = None, session: bytes | None = None
    ) -> Data:
        limits = self._codec.limits
        return self._fitting(problems.error_message(error, id_=id_, local=local, session=session, limits=limits))

    def _fitting(self, message: ErrorMessage | Goodbye) -> Data:
        """An error is always told, if need be without its details."""
        try:
            return self._codec.encode(message)
        except LimitExceeded:
            return self._codec.encode(msgspec.structs.replace(message, details={}))

    def answer(self, id_: int, result: Part) -> Data | None:
        """The one answer to a request. If the result is too large to send, the request is still to be answered.

        None, here and below, once the connection is closed: who worked for it meanwhile did no wrong.
        """
        if self.state is ConnectionState.CLOSED:
            return None
        assert id_ in self._unanswered, f"request {id_} is unknown or answered"
        assert type(result) is self._unanswered[id_], f"request {id_} is answered by {self._unanswered[id_].__name__}"
        data = self._codec.encode_answer(id_, result)
        del self._unanswered[id_]
        return data

    def fail(self, id_: int, error: StemmaError) -> Data | None:
        """The one answer to a request that failed."""
        if self.state is ConnectionState.CLOSED:
            return None
        assert id_ in self._unanswered, f"request {id_} is unknown or answered"
        del self._unanswered[id_]
        return self._error(error, id_=id_)

    def refuse(self, commit: CommitMessage, error: StemmaError) -> Data | None:
        """The answer to a commit whose content cannot be read: it gets no verdict (WIRE-4)."""
        if self.state is ConnectionState.CLOSED:
            return None
        return self._error(error, local=commit.local, session=commit.session)

    def send(self, message: Sync | Deferred) -> Data | None:
        """A frame, or a part of one, in order (SYNC-1); or the deferral of a commit."""
        if self.state is ConnectionState.CLOSED:
            return None
        assert self.state is ConnectionState.OPEN, "nothing but hello and goodbye is sent before the session is open"
        data = self._codec.encode(message)
        if isinstance(message, Sync):
            self.sent(message)
        return data

    def encode_accepted(self, from_: Version, to: Version, hash_: Hash, own: list[Own]) -> Data | None:
        """As `send`, of a frame that has nothing but the verdicts on commits of this session that were accepted."""
        if (
            self._fast_path is None
            or self.state is not ConnectionState.OPEN
            or not self._stream.goes_on(from_, to, hash_)
        ):
            verdicts = tuple([verdict_on(one) for one in own])
            return self.send(Sync(from_=from_, to=to, hash=hash_, verdicts=verdicts))
        data = self._fast_path.frame(from_, to, hash_, own)
        if len(data) > self._codec.limits.message_bytes_max:
            bounds.check_size(len(data), self._codec.limits)
        return data

    def sent(self, frame: Sync) -> None:
        """A frame, or a part of one, whose bytes another connection of the same subprotocol has made."""
        try:
            self._stream.advance(frame)
        except BadInput as own:
            raise AssertionError(own.message) from None

    def told(self, to: Version, hash_: Hash) -> None:
        """Whole frames up to there, one after the other, whose bytes another connection has made."""
        assert to >= self._stream.to, "a stream never goes back"
        self._stream.to, self._stream.hash = to, hash_

    def close(self, error: StemmaError, *, retry_after_ms: int | None = None) -> Closed:
        """Ends the connection from our side: `farewell` is the last thing to send, then the socket is closed.

        A connection that is closed already has said its farewell.
        """
        farewell = None
        if self.state is not ConnectionState.CLOSED:
            limits = self._codec.limits
            farewell = self._fitting(problems.goodbye(error, retry_after_ms=retry_after_ms, limits=limits))
        self.state = ConnectionState.CLOSED
        self._unanswered.clear()
        return Closed(error=error, close_code=close_code(error), farewell=farewell, retry_after_ms=retry_after_ms)
