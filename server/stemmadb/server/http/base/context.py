"""What all HTTP requests of a server share: the service, its identity, its limits and its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.limits import Limits

if TYPE_CHECKING:
    from stemmadb.server.http.base.console_files import ConsoleFiles
    from stemmadb.server.http.base.membership import SpaceLists
    from stemmadb.server.service.service import Service

NOT_OURS: Final = "This is not answered under this host name. Add its address to the setting 'public' of the server."


class OriginPolicy(Protocol):
    """Which web pages may ask, and under which names (HTTP-3)."""

    def allow(self, origins: Sequence[str], hosts: Sequence[str]) -> bool:
        """Whether a page with this `Origin` may send requests that reached us under this `Host`."""
        ...

    def is_known_host(self, hosts: Sequence[str]) -> bool:
        """Whether the name is ours, so that what needs no token may be answered under it."""
        ...

    def is_https(self, hosts: Sequence[str]) -> bool:
        """Whether people reach this name by https, though a proxy may end TLS before us."""
        ...

    def is_foreign(self, origins: Sequence[str], hosts: Sequence[str]) -> bool:
        """Whether an allowed origin is another than the one that the request reached."""
        ...


@dataclass(frozen=True, kw_only=True)
class HttpContext:
    """One for a server. Used from one event loop."""

    service: Service
    server: Did
    limits: Limits
    random: Callable[[int], bytes]
    origins: OriginPolicy
    is_tls: bool = False
    streams_max: int = 1_000
    console: ConsoleFiles | None = None
    """The files of the web console; None where it is off."""
    operators: frozenset[Did] = frozenset()
    membership: SpaceLists | None = None
    streams: set[object] = field(default_factory=set)
    """Those that are open."""


def body_bytes_max(method: str, path: str, limits: Limits) -> int:
    """How large the body of a request may be: a blob by its name is streamed, everything else is one message."""
    return limits.blob_bytes_max if method == "PUT" and "/blobs/" in path else limits.message_bytes_max
