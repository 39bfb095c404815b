"""Opening, keeping and ending a session: hello, session.open, ok, error, goodbye, ping (WIRE-2..4)."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.values.ids import Did, Local, Version
from stemmadb.protocol.wire.messages.base import Message, Part, Request
from stemmadb.protocol.wire.messages.fields import (
    Challenge,
    Count,
    RandomId,
    RequestId,
    Signature,
    WatchId,
    WireHash,
    WireLocal,
    WireVersion,
)


class Hello(Message, frozen=True, kw_only=True, tag="hello"):
    """The first message of a connection. `limits` are the server's bounds by name; unknown names are ignored."""

    protocol: Count
    server: Did
    challenge: Challenge
    limits: dict[str, int] = msgspec.field(default_factory=dict)
    features: tuple[str, ...] = ()


class HeldWatch(Part, frozen=True, kw_only=True):
    """A watch the client goes on with; one that was not `filled` at `to` comes whole (RESUME-1)."""

    watch: WatchId
    query: Query
    filled: bool = False


class SessionOpen(Message, frozen=True, kw_only=True, tag="session.open"):
    """Who comes, proved by a signature, and where it stands. Answered by the first `sync` frame (RESUME-1).

    `to` and `hash` are the state the client holds, `lowest` its lowest undecided local and `held` the locals whose
    bytes it has, so that their facts need not be sent (SYNC-2).
    """

    principal: Did
    session: RandomId
    signature: Signature
    space: Did | None = None
    to: WireVersion = Version(0)
    hash: WireHash | None = None
    lowest: WireLocal = Local(1)
    held: tuple[WireLocal, ...] = ()
    watches: tuple[HeldWatch, ...] = ()
    delegations: tuple[bytes, ...] = ()


class Ok(Message, frozen=True, kw_only=True, tag="ok"):
    """The answer to a request; what `result` is depends on the request."""

    id: RequestId
    result: msgspec.Raw


class ErrorMessage(Message, frozen=True, kw_only=True, tag="error"):
    """The answer to a request that failed. Without an `id` it is about a message that could not be told apart.

    `local`, with `session` if it is an older one, names the commit whose message could not be read: it has no verdict
    and never will (WIRE-4).
    """

    id: RequestId | None = None
    local: WireLocal | None = None
    session: RandomId | None = None
    code: str
    message: str
    details: dict[str, Any] = msgspec.field(default_factory=dict)
    retriable: bool = False


class Goodbye(Message, frozen=True, kw_only=True, tag="goodbye"):
    """The server's last message before it closes: taken over, going away, or an order that was broken."""

    code: str
    message: str
    details: dict[str, Any] = msgspec.field(default_factory=dict)
    retry_after_ms: Count | None = None


class Pong(Part, frozen=True, kw_only=True):
    """The server lives; its space is at `version`."""

    version: WireVersion


class Ping(Request, frozen=True, kw_only=True, tag="ping"):
    """Asks for a sign of life. With `follow` every later commit brings this session a frame at once (SYNC-8)."""

    answer: ClassVar[type[Part]] = Pong
    follow: bool = False
