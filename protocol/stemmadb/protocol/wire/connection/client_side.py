"""The client's end of a connection: signs the challenge, matches answers to requests, puts frames together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from stemmadb.protocol import identity
from stemmadb.protocol.errors import InvalidValue, Malformed, OutOfOrder, StemmaError, UnsupportedProtocol
from stemmadb.protocol.model.values.ids import Did, Hash, Local, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.codec.subprotocols import codec_for
from stemmadb.protocol.wire.connection import announced_limits, problems
from stemmadb.protocol.wire.connection.base import Closed, ConnectionState, Frames, check_kind, close_code
from stemmadb.protocol.wire.messages import ServerMessage, type_of
from stemmadb.protocol.wire.messages.base import Part, Request
from stemmadb.protocol.wire.messages.commit import CommitMessage, Deferred
from stemmadb.protocol.wire.messages.reading import QueriedEntity, QueryAnswer
from stemmadb.protocol.wire.messages.session import ErrorMessage, Goodbye, HeldWatch, Hello, Ok, SessionOpen
from stemmadb.protocol.wire.messages.sync import Entered, Sync
from stemmadb.protocol.wire.version import PROTOCOL, Subprotocol


class SessionPosition(msgspec.Struct, frozen=True, kw_only=True):
    """Where a client stands when it connects; a new one stands at 0 and holds nothing (RESUME-1)."""

    to: Version = Version(0)
    hash: Hash | None = None
    lowest: Local = Local(1)
    held: tuple[Local, ...] = ()
    watches: tuple[HeldWatch, ...] = ()
    delegations: tuple[bytes, ...] = ()


class Answered(msgspec.Struct, frozen=True):
    """The answer to a request: its result, or the error."""

    request: Request
    result: Part | StemmaError


class Unread(msgspec.Struct, frozen=True):
    """The server could not read something we sent; `local`, and `session` if it is an older one, name a commit."""

    error: StemmaError
    local: Local | None = None
    session: bytes | None = None


ClientEvent: TypeAlias = Hello | Sync | Deferred | Answered | Unread | Closed


class ClientConnection:
    """One connection of one session on one space, as the client sees it."""

    def __init__(self, *, subprotocol: Subprotocol, space: Did, limits: Limits = DEFAULTS) -> None:
        self.state = ConnectionState.NEW
        self.limits = limits
        self._subprotocol: Subprotocol = subprotocol
        self._codec = codec_for(subprotocol, limits)
        self._space = space
        self._hello: Hello | None = None
        self._waiting: dict[int, Request] = {}
        self._last_id = 0
        self._frames = Frames()

    @property
    def to(self) -> Version:
        """The version the last whole frame reached."""
        return self._frames.to

    @property
    def hash(self) -> Hash | None:
        """The hash of the commit at `to`."""
        return self._frames.hash

    def open(
        self,
        *,
        principal: Did,
        session: bytes,
        sign: Callable[[bytes], bytes],
        standing: SessionPosition | None = None,
    ) -> Data:
        """`session.open`, signed. Requests may follow at once, commits too if nothing is held yet."""
        assert self.state is ConnectionState.GREETED, "the session is opened once, after hello"
        assert self._hello is not None
        standing = standing or SessionPosition()
        payload = identity.session_open_payload(
            server=self._hello.server,
            challenge=self._hello.challenge,
            space=self._space,
            principal=principal,
            session=session,
        )
        message = SessionOpen(
            principal=principal,
            session=session,
            signature=sign(payload),
            space=self._space,
            **msgspec.structs.asdict(standing),
        )
        data = self._codec.encode(message)
        self.state = ConnectionState.OPEN
        self._frames.start(standing.to, standing.hash)
        return data

    @property
    def may_commit(self) -> bool:
        """Whether commits can be sent: the session is open, and its first frame came if anything was held."""
        return self.state is ConnectionState.OPEN and self._frames.carries_commits

    def next_id(self) -> int:
        """A number for the next request that no other request of this connection has."""
        self._last_id += 1
        return self._last_id

    def request(self, request: Request) -> Data:
        """Sends a request; its answer will be an `Answered`, once."""
        assert self.state is ConnectionState.OPEN, "requests are sent in an open session"
        assert request.id not in self._waiting, f"request {request.id} is not answered yet"
        data = self._codec.encode(request)
        self._waiting[request.id] = request
        return data

    def commit(self, message: CommitMessage) -> Data:
        """Sends a commit; its verdict comes in a frame."""
        assert self.may_commit, "commits are sent in an open session, after its first frame"
        return self._codec.encode(message)

    def receive(self, data: Data) -> list[ClientEvent]:
        """What one message of the server means. A message that cannot be read ends it: what it said is lost."""
        if self.state is ConnectionState.CLOSED:
            return []
        try:
            check_kind(data, self._subprotocol)
            event = self._take(self._codec.read_server(data), len(data))
        except StemmaError as error:
            event = self._close(error)
        return [] if event is None else [event]

    def _take(self, message: ServerMessage, size: int) -> ClientEvent | None:
        if isinstance(message, Goodbye):
            return self._close(problems.restore(message), message.retry_after_ms)
        if isinstance(message, Hello) is not (self.state is ConnectionState.NEW):
            raise OutOfOrder(type=type_of(message), why="the server says hello once, first")
        if isinstance(message, Hello):
            return self._greet(message)
        if self.state is not ConnectionState.OPEN:
            raise OutOfOrder(type=type_of(message), why="the session is not open")
        if isinstance(message, Sync):
            if size > self.limits.value_bytes_max:
                self._check_values("/entered", message.entered)
            return self._frames.take(message, size)
        return message if isinstance(message, Deferred) else self._answered(message)

    @property
    def features(self) -> frozenset[str]:
        """What the server announced beyond the protocol."""
        return frozenset(() if self._hello is None else self._hello.features)

    def _greet(self, hello: Hello) -> Hello:
        if hello.protocol != PROTOCOL:
            raise UnsupportedProtocol(wanted=hello.protocol, spoken=PROTOCOL)
        self._hello = hello
        self.limits = announced_limits.understood(hello.limits)
        self._codec = codec_for(self._subprotocol, self.limits)
        self.state = ConnectionState.GREETED
        return hello

    def _answered(self, message: Ok | ErrorMessage) -> ClientEvent:
        if isinstance(message, ErrorMessage) and message.id is None:
            return Unread(problems.restore(message), message.local, message.session)
        request = self._waiting.pop(message.id, None) if message.id is not None else None
        if request is None:
            raise OutOfOrder(type=type_of(message), why=f"no request {message.id} waits for an answer")
        if isinstance(message, ErrorMessage):
            return Answered(request, problems.restore(message))
        try:
            result: Part | StemmaError = self._codec.read_result(message, request.answer)
        except (Malformed, InvalidValue) as error:  # in JSON a body can be at fault
            return Answered(request, error)
        if isinstance(result, QueryAnswer):
            self._check_values("/entities", result.entities)
        self._check_cut(result)
        return Answered(request, result)

    def _check_values(self, path: str, items: Iterable[Entered | QueriedEntity]) -> None:
        """A server keeps the bound that it announced: an app need not be ready for larger values (MODEL-3)."""
        for one in items:
            if len(one.body or b"") > self.limits.value_bytes_max:
                why = f"a value has {len(one.body or b'')} bytes, more than value_bytes_max"
                raise Malformed(path=path, why=why)

    def _check_cut(self, result: Part | StemmaError) -> None:
        """State follows the frame that reaches its version, so one client never mixes two cuts (SYNC-7)."""
        if isinstance(result, QueryAnswer) and result.version > self._frames.to:
            raise OutOfOrder(
                type="ok", why=f"state of version {result.version} came before the frame that reaches it"
            )

    def _close(self, error: StemmaError, retry_after_ms: int | None = None) -> Closed:
        self.state = ConnectionState.CLOSED
        return Closed(error=error, close_code=close_code(error), retry_after_ms=retry_after_ms)
