"""The address of a server in one form, so that names are found again however it was written."""

from __future__ import annotations

from typing import Final, NewType
from urllib.parse import urlsplit

from stemmadb.protocol.errors import Malformed

Address = NewType("Address", str)

DEFAULT_PORTS: Final = {"ws": 80, "wss": 443}


def address(url: str) -> Address:
    """Scheme and host in small letters, no port where it is the usual one, no slash at the end.

    >>> address("WS://Example.org:80/")
    'ws://example.org'
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise Malformed(
            f"{url[:200]!r} is not the address of a server. Write it as 'ws://127.0.0.1:8420'.",
            path="(address)",
            why="it has no scheme, no host, or a port that is no number",
        )
    shown = f"[{host}]" if ":" in host else host
    is_usual = port is None or port == DEFAULT_PORTS.get(parts.scheme)
    return Address(f"{parts.scheme}://{shown}{'' if is_usual else f':{port}'}{parts.path.rstrip('/')}")
