"""The address of a server: checked at once, written in one way, and the URL of each of its spaces."""

from __future__ import annotations

from typing import Final, NewType
from urllib.parse import SplitResult, urlsplit

from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.version import space_path

ServerUrl = NewType("ServerUrl", str)
"""The checked address of a server: two that lead to the same place by the same words are equal."""

_DEFAULT_PORTS: Final = {"ws": 80, "wss": 443}
_MEANT: Final = {"http": "ws", "https": "wss"}


def server_url(text: str) -> ServerUrl:
    """The address in its one form: `ws://` or `wss://`, a host, a port unless it is the usual one, perhaps a path.

    Raises `Malformed` with a sentence that says what to write instead.

    >>> server_url("WS://LocalHost:80/")
    'ws://localhost'
    """
    parts = _split(text)
    _check_scheme(text, parts)
    if not parts.hostname:
        raise _wrong(text, f"there is no host in it. Write it as '{parts.scheme}://127.0.0.1:8420'")
    if parts.username is not None or parts.password is not None:
        raise _wrong(text, "a name and a password have no place in it: an identity signs instead. Leave them out")
    if parts.query or parts.fragment:
        raise _wrong(text, "nothing may follow its path. Leave out what begins with '?' or '#'")
    return ServerUrl(f"{parts.scheme}://{_host(text, parts.hostname)}{_port(text, parts)}{parts.path.rstrip('/')}")


def space_url(server: ServerUrl, space: Did) -> str:
    """Where a space of this server is served (WIRE-1)."""
    return server + space_path(space)


def is_secure(server: ServerUrl) -> bool:
    """Whether TLS is spoken."""
    return server.startswith("wss:")


def _split(text: str) -> SplitResult:
    if not isinstance(text, str):
        raise _wrong(text, "it is not a text. Write it as 'ws://127.0.0.1:8420'")
    if not text.isprintable() or " " in text:
        raise _wrong(text, "it has spaces or control characters. Leave them out")
    try:
        return urlsplit(text)
    except ValueError:
        raise _wrong(text, "its host cannot be read. Write an IPv6 address as 'ws://[::1]:8420'") from None


def _check_scheme(text: str, parts: SplitResult) -> None:
    if parts.scheme in _DEFAULT_PORTS and text[len(parts.scheme) :].startswith("://"):
        return
    if parts.scheme in _MEANT:
        raise _wrong(
            text, f"a server is reached by WebSocket. Write '{_MEANT[parts.scheme]}://' for '{parts.scheme}://'"
        )
    if text and "://" not in text and parts.scheme not in _DEFAULT_PORTS:
        raise _wrong(text, f"it does not begin with ws:// or wss://. Write 'ws://{text.lstrip('/')}'")
    raise _wrong(text, "it does not begin with ws:// or wss://. Write it as 'ws://127.0.0.1:8420'")


def _host(text: str, host: str) -> str:
    if ":" in host:
        return f"[{host}]"
    try:
        encoded = host.encode("idna").decode()
    except UnicodeError:
        encoded = ""
    if not encoded or " " in encoded or not encoded.isprintable():  # of some characters the encoding makes a space
        raise _wrong(text, f"{host!r} cannot be the name of a host. Check its spelling")
    return encoded


def _port(text: str, parts: SplitResult) -> str:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise _wrong(text, "a port is a number from 1 to 65535. Check what follows the last colon")
    return "" if port is None or port == _DEFAULT_PORTS[parts.scheme] else f":{port}"


def _wrong(text: str, why: str) -> Malformed:
    return Malformed(f"{text!r} is not the address of a server: {why}.", path="(address)", why=why)
