"""Plain HTTP as far as a WebSocket port needs it: read the head of a request strictly, write one answer, close.

What is answered here closes the connection. Requests that are passed on keep it: `request_feed` says how.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, TypeAlias

import msgspec

HEAD_BYTES_MAX: Final = 16 * 1024
"""The request line and all headers together."""
HEADERS_MAX: Final = 100
HEAD_END: Final = b"\r\n\r\n"
TEXT: Final = "text/plain; charset=utf-8"
PROBLEM: Final = "application/problem+json"
MALFORMED_PAGE: Final = "docs/reference/errors.md#malformed"
SAFETY: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
)
"""What every answer of HTTP has (HTTP-4)."""

_NAME: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
_VERSIONS: Final = ("HTTP/1.1", "HTTP/1.0")
_LENGTH_DIGITS_MAX: Final = 15


class HttpAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a plain request gets."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    """Beside those that every answer has."""


class BadRequest(Exception):
    """The bytes are not a request that is taken here; the message says why, for the peer to read."""

    def __init__(self, message: str, status: int = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.status = status


class HttpRequest(msgspec.Struct, frozen=True):
    """The head of a request. Names of headers are in lower case; one that came twice has two values."""

    method: str
    target: str
    version: str
    headers: Mapping[str, Sequence[str]]

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    def all(self, name: str) -> Sequence[str]:
        return self.headers.get(name, ())

    def listed(self, name: str) -> list[str]:
        """The items of headers that are lists divided by commas."""
        return [item.strip() for value in self.all(name) for item in value.split(",") if item.strip()]


Http: TypeAlias = Callable[[HttpRequest], HttpAnswer | None]
"""Answers a plain GET or HEAD; None if there is nothing at its path."""


def check_beginning(head: bytes | bytearray) -> None:
    """`BadRequest` for an incomplete head that can become no request, so that nobody waits for its end."""
    if head[:1] in (b"\r", b"\n"):
        raise BadRequest("There is an empty line before the request line.")
    if head.count(b"\n") != head.count(b"\r\n"):
        raise BadRequest("A line of the head ends without a carriage return.")


def read_head(head: bytes) -> HttpRequest:
    """The request in `head`, which ends with an empty line. Strict: two parsers must agree on every byte (HTTP-1)."""
    try:
        lines = head[: -len(HEAD_END)].decode("ascii").split("\r\n")
    except UnicodeDecodeError:
        raise BadRequest("The head of the request has bytes that are not ASCII.") from None
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[0].isalpha() or not _is_target(parts[1]) or parts[2] not in _VERSIONS:
        raise BadRequest("The first line is not an HTTP/1.1 request such as 'GET /healthz HTTP/1.1'.")
    if len(lines) - 1 > HEADERS_MAX:
        too_many = f"There are more than {HEADERS_MAX} headers."
        raise BadRequest(too_many, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    headers: dict[str, list[str]] = {}
    for line in lines[1:]:
        name, value = _header(line)
        headers.setdefault(name, []).append(value)
    if len(headers.get("host", ())) > 1:
        raise BadRequest("There is more than one header Host.")
    return HttpRequest(parts[0], parts[1], parts[2], headers)


def body_length(request: HttpRequest) -> int:
    """The bytes of the request's body: one plain `Content-Length`, or none (HTTP-1)."""
    lengths = request.all("content-length")
    if "transfer-encoding" in request.headers:
        if lengths:
            raise BadRequest("A request has Content-Length or Transfer-Encoding, not both.")
        raise BadRequest(
            "Send the body with a Content-Length, not with Transfer-Encoding.", HTTPStatus.LENGTH_REQUIRED
        )
    if not lengths:
        return 0
    if len(lengths) > 1 or not (lengths[0].isdigit() and len(lengths[0]) <= _LENGTH_DIGITS_MAX):
        raise BadRequest("A request with a body has exactly one Content-Length, of digits only.")
    return int(lengths[0])


def closing(head: bytes) -> bytes:
    """The head of a request as from a client that asks for one answer: its connection ends with it."""
    lines = head[: -len(HEAD_END)].split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].lower() not in (b"connection", b"keep-alive")]
    return b"\r\n".join([*kept, b"Connection: close"]) + HEAD_END


def _is_target(target: str) -> bool:
    return target.startswith("/") and all("!" <= character <= "~" for character in target)


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    name = name.lower()
    if not colon or not name or not _NAME.issuperset(name):
        raise BadRequest("A header is not of the form 'Name: value'.")
    value = value.strip(" \t")
    if not all(" " <= character <= "~" or character == "\t" for character in value):
        raise BadRequest("The value of a header has control characters.")
    return name, value


def write_answer(answer: HttpAnswer, extra: Sequence[tuple[str, str]] = (), *, body: bool = True) -> bytes:
    """The bytes of an answer after which the connection is closed; without the body for HEAD."""
    fields = [
        ("Content-Type", answer.content_type),
        ("Content-Length", str(len(answer.body))),
        ("Cache-Control", "no-store"),
        ("Connection", "close"),
        *answer.headers,
        *extra,
    ]
    return _head(answer.status, fields) + (answer.body if body else b"")


def write_text(status: int, text: str, extra: Sequence[tuple[str, str]] = ()) -> bytes:
    """One sentence for a person."""
    return write_answer(HttpAnswer(status=status, content_type=TEXT, body=text.encode() + b"\n"), extra)


def write_problem(status: int, detail: str, extra: Sequence[tuple[str, str]] = ()) -> bytes:
    """An error of HTTP itself, in the form of every error on HTTP (HTTP-12)."""
    body = msgspec.json.encode(
        {
            "type": MALFORMED_PAGE,
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": detail,
            "code": "malformed",
            "details": {},
            "retriable": False,
        }
    )
    return write_answer(HttpAnswer(status=status, content_type=PROBLEM, body=body), (*SAFETY, *extra))


def write_switch(fields: Sequence[tuple[str, str]]) -> bytes:
    """The answer after which the connection is a WebSocket."""
    return _head(HTTPStatus.SWITCHING_PROTOCOLS, fields)


def _head(status: int, fields: Sequence[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {int(status)} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join(lines).encode("ascii") + HEAD_END
