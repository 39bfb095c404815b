"""Which requests are let in: the interface has no authentication, so no web page may reach it through a browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from stemmadb.memory.rules.refusals import InvalidRequest, NotAllowed

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
JSON: Final = "application/json"
BODY_BYTES_MAX: Final = 1024 * 1024


class HostGuard(NamedTuple):
    """The hosts under which a listener may be asked; None for a unix socket, where no browser comes."""

    hosts: frozenset[str] | None

    @classmethod
    def of_listener(cls, port: int | None, allowed: tuple[str, ...] = ()) -> HostGuard:
        """Loopback names with the listener's port, and those that are allowed, as they are written."""
        if port is None:
            return cls(None)
        return cls(frozenset(f"{host}:{port}" for host in LOOPBACK) | frozenset(map(str.lower, allowed)))

    def check(self, headers: Mapping[str, str]) -> None:
        """`NotAllowed` for a foreign Host, which DNS rebinding would bring, and for any request of a web page."""
        if self.hosts is not None and headers.get("Host", "").lower() not in self.hosts:
            raise NotAllowed("This host name is not served. Use 127.0.0.1, or allow the name with --allow-host.")
        if "Origin" in headers:
            raise NotAllowed("Requests of web pages are not served.")


def check_content_type(headers: Mapping[str, str]) -> None:
    """A body is JSON and says so: a web page can send other types without asking."""
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() != JSON:
        raise InvalidRequest(f"A body needs the header Content-Type: {JSON}.")
