"""What a route answers: a status, headers and bytes, or a function that writes the bytes as they come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from stemmadb.protocol.wire.codec.json_form import form_of
from stemmadb.protocol.wire.messages.base import Part

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
EVENTS: Final = "text/event-stream"
PRIVATE: Final = ("Cache-Control", "private, no-cache")
"""Rights are judged at the head and values can be erased, so no shared cache may answer for us (HTTP-7)."""
NO_STORE: Final = ("Cache-Control", "no-store")


class ReplyWriter(Protocol):
    """The body of an answer, while it is written."""

    async def write(self, data: bytes) -> None:
        """Waits while the client has not taken what was written before."""
        ...


Stream: TypeAlias = Callable[[ReplyWriter], Awaitable[None]]


class HttpReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one request. `stream` writes the body as it comes; `length` is how long that is, if known."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    stream: Stream | None = None
    length: int | None = None
    is_endless: bool = False
    """Whether it is a stream of events, which has no deadline."""
    done: Callable[[], None] | None = None
    """Called once the answer is written, or the client is gone."""


def json_reply(value: Any, *, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> HttpReply:
    """Plain JSON."""
    return HttpReply(status=status, body=msgspec.json.encode(value), headers=(PRIVATE, *headers))


def part_reply(part: Part, *, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> HttpReply:
    """An answer of the protocol, in the JSON form that it has on the WebSocket."""
    return json_reply(form_of(type(part)).write(part), status=status, headers=headers)
