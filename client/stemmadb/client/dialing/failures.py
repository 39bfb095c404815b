"""Why a server could not be reached, in plain words: every way in which an attempt fails is one `Unreachable`."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Mapping
from typing import Final

from websockets.exceptions import (
    InvalidHandshake,
    InvalidMessage,
    InvalidProxy,
    InvalidStatus,
    ProxyError,
    WebSocketException,
)
from websockets.http11 import Response

from stemmadb.client.dialing.urls import ServerUrl, is_secure
from stemmadb.protocol.errors import Unreachable

REASON_CHARACTERS_MAX: Final = 200
"""Of what a server answered, so that nobody is shown a page of HTML."""

Failures: Final = (OSError, EOFError, WebSocketException)
"""What an attempt to connect raises."""

_STRANGER: Final = "what answers there is not a StemmaDB server"
_STATUS: Final[Mapping[int, str]] = {
    400: "the server did not understand the request (400)",
    401: "something before the server wants a login (401)",
    403: "the server turns this client away (403)",
    404: "there is a server, but no StemmaDB at this address (404)",
    429: "the server has too many connections from here (429)",
    502: "a proxy answers, but the server behind it does not (502)",
    503: "the server takes no more connections now (503)",
    504: "a proxy answers, but the server behind it does not (504)",
}


def unreachable(server: ServerUrl, failure: Exception, *, timeout: float) -> Unreachable:
    """The typed error for what went wrong."""
    if isinstance(failure, OSError):
        why = _system(server, failure, timeout)
    elif isinstance(failure, InvalidStatus):
        why = _answered(failure.response)
    elif isinstance(failure, ProxyError | InvalidProxy):
        why = f"the proxy does not let it through ({_short(str(failure))})"
    elif isinstance(failure, InvalidMessage | EOFError) or not isinstance(failure, InvalidHandshake):
        why = _unread(server, failure)
    else:
        why = f"{_STRANGER} ({_short(str(failure))})"
    return Unreachable(url=server, why=why)


def not_spoken(server: ServerUrl, subprotocol: str) -> Unreachable:
    """A WebSocket was opened, but not with our subprotocol."""
    return Unreachable(url=server, why=f"{_STRANGER}, or one that does not speak {subprotocol}")


def _system(server: ServerUrl, failure: OSError, timeout: float) -> str:
    if isinstance(failure, ssl.SSLError):
        return _secure(failure)
    if isinstance(failure, socket.gaierror):
        return "the name of its host is not known"
    if isinstance(failure, TimeoutError):
        return f"there was no answer within {timeout:g} s"
    if isinstance(failure, ConnectionRefusedError) or _all_refused(failure):
        return "nothing listens there (the connection was refused)"
    if isinstance(failure, ConnectionError):
        return _lost(server)
    return _short(failure.strerror or str(failure))


def _all_refused(failure: OSError) -> bool:
    """A name with several addresses fails with one text of all that went wrong."""
    text = str(failure)
    return text.startswith("Multiple exceptions") and text.count("[Errno ") == text.count(
        f"[Errno {errno.ECONNREFUSED}]"
    )


def _secure(failure: ssl.SSLError) -> str:
    if isinstance(failure, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({_short(failure.verify_message)})"
    if failure.reason == "WRONG_VERSION_NUMBER":
        return "it does not speak TLS there; without it the address begins with ws://"
    return f"TLS could not be agreed on ({_short(failure.reason or str(failure))})"


def _lost(server: ServerUrl) -> str:
    hint = "" if is_secure(server) else "; with TLS the address begins with wss://"
    return f"the connection was closed before it was answered{hint}"


def _unread(server: ServerUrl, failure: Exception) -> str:
    """Whether nothing came, or something that is not HTTP."""
    if isinstance(failure, EOFError) or isinstance(failure.__cause__, EOFError | OSError):
        return _lost(server)
    return _STRANGER if is_secure(server) else f"{_STRANGER}; with TLS the address begins with wss://"


def _answered(response: Response) -> str:
    status = response.status_code
    known = _STATUS.get(status)
    if known is None and 300 <= status < 400 and "Location" in response.headers:
        return f"it has moved to {_short(response.headers['Location'])} ({status}), and moves are not followed"
    said = known or f"{_STRANGER} (it answered {status} {_short(response.reason_phrase)}".rstrip() + ")"
    reason = _reason(response)
    return f"{said}: {reason}" if reason else said


def _reason(response: Response) -> str:
    """The sentence a server gave, if it is one: short, plain text."""
    kind = response.headers.get_all("Content-Type")
    text = response.body.decode(errors="replace").strip().rstrip(".")
    is_plain_text = not kind or kind[0].startswith("text/plain")
    return text if is_plain_text and len(text) <= REASON_CHARACTERS_MAX and text.isprintable() else ""


def _short(text: str) -> str:
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split()).rstrip(".")
    return line if len(line) <= REASON_CHARACTERS_MAX else line[: REASON_CHARACTERS_MAX - 3] + "..."
