"""The HTTP library, loaded when it is first needed: its import takes half a second, and a WebSocket needs none.

The import runs in a thread, so that the event loop goes on meanwhile. Nothing here imports aiohttp.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from stemmadb.server.http.base.context import HttpContext, body_bytes_max
from stemmadb.server.log_events import Log

if TYPE_CHECKING:
    from types import ModuleType

    from stemmadb.server.http.web_server import HttpServer

LOG: Final = Log("http")
LOAD_AFTER_SECONDS: Final = 1.0
"""After the server listens; the first request that needs it loads it sooner."""
_MODULE: Final = "stemmadb.server.http.web_server"


class LazyWebServer:
    """Implements the listeners' `WebServer`. Used from one event loop."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context
        self._server: HttpServer | None = None
        self._loading: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[Callable[[], None]] = []

    def load_soon(self) -> None:
        """Loads it a while after the server listens, so that the first request need not wait for it."""
        self._timer = asyncio.get_running_loop().call_later(LOAD_AFTER_SECONDS, self._load)

    async def stop(self) -> None:
        """Ends what still runs: the service has ended its streams before."""
        if self._timer is not None:
            self._timer.cancel()
        if self._loading is not None:
            await self._loading
        if self._server is not None:
            await self._server.stop()
        if self._context.membership is not None:
            await self._context.membership.settled()

    @property
    def is_loaded(self) -> bool:
        return self._server is not None

    def when_loaded(self, ready: Callable[[], None]) -> None:
        if self._server is not None:
            ready()
        else:
            self._waiting.append(ready)
            self._load()

    def connect(self) -> Any:
        assert self._server is not None, "it is loaded first"
        return self._server.connect()

    def body_bytes_max(self, method: str, path: str) -> int:
        return body_bytes_max(method, path, self._context.limits)

    def _load(self) -> None:
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._import())

    async def _import(self) -> None:
        module: ModuleType = await asyncio.to_thread(importlib.import_module, _MODULE)
        self._server = module.HttpServer(self._context)
        waiting, self._waiting = self._waiting, []
        for ready in waiting:
            ready()
