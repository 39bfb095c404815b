"""What the head of a request gets: a WebSocket on a space, a plain answer, or one clear sentence (WIRE-1). No I/O."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import sha1
from typing import Final

import msgspec

from stemmadb.protocol.errors import Malformed, StemmaError
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.version import SUBPROTOCOLS, Subprotocol, choose, read_space_path
from stemmadb.server.serving.listeners.http import (
    Http,
    HttpRequest,
    write_answer,
    write_switch,
    write_text,
)
from stemmadb.server.serving.listeners.origins import AllowedOrigins

_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
_VERSION: Final = "13"
_UPGRADE: Final = (("Upgrade", "websocket"), ("Sec-WebSocket-Version", _VERSION))
_ALLOWED: Final = ("GET", "HEAD")


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """The peer gets a WebSocket: send `response`, then frames."""

    space: Did
    subprotocol: Subprotocol
    response: bytes


class HandshakeReply(msgspec.Struct, frozen=True, kw_only=True):
    """The peer gets these bytes, and the connection ends."""

    data: bytes
    refused: bool


def refuse(status: int, text: str, extra: Sequence[tuple[str, str]] = ()) -> HandshakeReply:
    """Refused, with one sentence that says why."""
    return HandshakeReply(data=write_text(status, text, extra), refused=True)


def is_upgrade(request: HttpRequest) -> bool:
    """Whether it asks for a WebSocket."""
    return "websocket" in (name.lower() for name in request.listed("upgrade"))


def answer_request(request: HttpRequest, *, origins: AllowedOrigins, http: Http) -> Upgrade | HandshakeReply:
    """What a request gets that is not passed on."""
    if request.method not in _ALLOWED:
        return refuse(405, "Only GET and HEAD are accepted here.", [("Allow", ", ".join(_ALLOWED))])
    if "transfer-encoding" in request.headers or any(one != "0" for one in request.all("content-length")):
        return refuse(400, "A request with a body is not taken here.")
    return _upgrade(request, origins) if is_upgrade(request) else _plain(request, http)


def _plain(request: HttpRequest, http: Http) -> HandshakeReply:
    answer = http(request)
    if answer is not None:
        return HandshakeReply(data=write_answer(answer, body=request.method != "HEAD"), refused=False)
    try:
        read_space_path(request.path)
    except StemmaError:
        return refuse(404, "There is nothing here.")
    return refuse(426, "A space is served as a WebSocket: connect with ws:// or wss://.", _UPGRADE)


def _upgrade(request: HttpRequest, origins: AllowedOrigins) -> Upgrade | HandshakeReply:
    if not origins.allow(request.all("origin"), request.all("host")):
        return refuse(403, "Pages of this origin may not connect. Add it to the server's allowed origins.")
    try:
        space = read_space_path(request.target)
    except Malformed as wrong:
        return refuse(404, wrong.message)
    except StemmaError as bad:
        return refuse(400, bad.message)
    subprotocol = choose(request.listed("sec-websocket-protocol"))
    if subprotocol is None:
        return refuse(400, f"Offer one of the subprotocols {' and '.join(SUBPROTOCOLS)}.")
    return _switch(request, space, subprotocol)


def _switch(request: HttpRequest, space: Did, subprotocol: Subprotocol) -> Upgrade | HandshakeReply:
    if request.method != "GET" or request.version != "HTTP/1.1":
        return refuse(400, "A WebSocket is opened by a GET of HTTP/1.1.")
    if "upgrade" not in (name.lower() for name in request.listed("connection")):
        return refuse(426, "The header 'Connection: Upgrade' is missing.", _UPGRADE)
    if list(request.all("sec-websocket-version")) != [_VERSION]:
        return refuse(426, f"Only version {_VERSION} of WebSockets is supported.", _UPGRADE)
    accept = _accept(request)
    if accept is None:
        return refuse(400, "The header Sec-WebSocket-Key has to be 16 bytes in base64.")
    fields = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)]
    response = write_switch([*fields, ("Sec-WebSocket-Protocol", subprotocol)])
    return Upgrade(space=space, subprotocol=subprotocol, response=response)


def _accept(request: HttpRequest) -> str | None:
    keys = request.all("sec-websocket-key")
    try:
        if len(keys) != 1 or len(b64decode(keys[0], validate=True)) != 16:
            return None
    except binascii.Error:
        return None
    return b64encode(sha1(keys[0].encode() + _MAGIC, usedforsecurity=False).digest()).decode()
