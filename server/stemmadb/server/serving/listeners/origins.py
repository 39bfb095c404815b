"""Which web pages may connect, and under which names: the browser sends the origin of its page (HTTP-3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

ANY: Final = "*"
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})


class AllowedOrigins:
    """Listed origins, such as `https://app.example`; the public addresses of the server; and its own on loopback.

    A browser lets any page open a WebSocket to any server, so the server has to look. What sends no origin is not a
    browser: it could have written any, so there is nothing to check.
    """

    def __init__(self, allowed: Sequence[str], *, public: Sequence[str] = (), is_loopback: bool = False) -> None:
        self._any = ANY in allowed
        self._public = frozenset(_plain(origin) for origin in public)
        self._allowed = frozenset(_plain(origin) for origin in allowed) | self._public
        self._names = frozenset(urlsplit(origin).netloc for origin in self._public)
        self._is_loopback = is_loopback

    def allow(self, origins: Sequence[str], hosts: Sequence[str] = ()) -> bool:
        """Whether a request with these `Origin` headers may connect; a browser sends one."""
        if self._any or not origins:
            return True
        if len(origins) != 1:
            return False
        return _plain(origins[0]) in self._allowed or self._is_own(origins[0], hosts)

    def is_foreign(self, origins: Sequence[str], hosts: Sequence[str]) -> bool:
        """Whether an allowed origin is another than the server's own."""
        return not self._is_own(origins[0], hosts) and _plain(origins[0]) not in self._public

    def is_known_host(self, hosts: Sequence[str]) -> bool:
        """Whether the name is one of ours, so that what needs no token may be answered under it."""
        if len(hosts) != 1:
            return not hosts
        host = hosts[0].strip().lower()
        return host in self._names or (self._is_loopback and _without_port(host) in LOOPBACK)

    def is_https(self, hosts: Sequence[str]) -> bool:
        """Whether a name is listed as an address with https."""
        return len(hosts) == 1 and f"https://{hosts[0].strip().lower()}" in self._public

    def _is_own(self, origin: str, hosts: Sequence[str]) -> bool:
        """On loopback the page and the request name the same host and port, so that a tunnel works too."""
        scheme, _, name = _plain(origin).partition("://")
        if not self._is_loopback or scheme not in ("http", "https") or len(hosts) != 1:
            return False
        return _without_port(name) in LOOPBACK and name == hosts[0].strip().lower()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _plain(origin: str) -> str:
    """Scheme and host have no case, and people write a slash at the end."""
    return origin.strip().rstrip("/").lower()
