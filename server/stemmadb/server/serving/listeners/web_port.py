"""What answers requests that are passed on, as a Front and its feed see it: aiohttp behind an interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class HttpProtocol(Protocol):
    """One connection of the HTTP library, called as an `asyncio.Protocol` is."""

    def connection_made(self, transport: object) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, exc: BaseException | None) -> None: ...


class WebServer(Protocol):
    """The HTTP library with our handlers. It may take a while until it is loaded."""

    @property
    def is_loaded(self) -> bool: ...

    def when_loaded(self, ready: Callable[[], None]) -> None:
        """Calls back once it is loaded, which begins now if it has not yet."""
        ...

    def connect(self) -> HttpProtocol:
        """The protocol of a new connection."""
        ...

    def body_bytes_max(self, method: str, path: str) -> int:
        """How large a body of a request may be."""
        ...
