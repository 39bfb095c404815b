"""MCP over streamable HTTP, on a listener of its own: `http://127.0.0.1:9101/mcp`.

Import it late: `mcp` takes a second. Each request brings its secret in `Authorization: Bearer`, and the role is
decided on every call. A client chooses a namespace with `/mcp?ns=NAME`; without one it is that of the listener.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec
import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from stemmadb.memory.interfaces.http.guards import HostGuard
from stemmadb.memory.interfaces.mcp.mcp_session import RequestContext, make_server
from stemmadb.memory.interfaces.mcp.tool_calls import ToolCalls
from stemmadb.memory.process.http_listener import ListenAddress, listener_on, port_of, url_of

PATH: Final = "/mcp"
BEARER: Final = "bearer "
CLOSE_SECONDS: Final = 2


class McpRequest(NamedTuple):
    """What a request says of its caller: the secret, the namespace if it names one, and its session."""

    secret: str | None
    ns: str | None
    session: str

    @classmethod
    def of(cls, headers: Mapping[str, str], query: Mapping[str, str]) -> McpRequest:
        given = headers.get("authorization", "")
        secret = given[len(BEARER) :].strip() if given.lower().startswith(BEARER) else None
        return cls(secret, query.get("ns"), headers.get("mcp-session-id", "http"))


class _QuietServer(uvicorn.Server):
    """The process that serves memory handles its own signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def mcp_listening(
    address: ListenAddress,
    calls_of: Callable[[McpRequest], ToolCalls],
    *,
    allowed_hosts: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
    used: Callable[[], None],
    given: socket.socket | None = None,
) -> AsyncIterator[str]:
    """Serves while the block runs; gives the URL. `Unavailable` if the address cannot be used.

    `given` is the socket, where another process has opened it.
    """

    def calls_in(context: RequestContext) -> ToolCalls:
        request = context.request
        assert isinstance(request, Request), "this transport is HTTP"
        return calls_of(McpRequest.of(request.headers, request.query_params))

    manager = StreamableHTTPSessionManager(make_server(calls_in))
    with listener_on(address, given) as listener:
        guard = HostGuard.of_listener(port_of(address, listener), allowed_hosts)
        async with _served(manager, _McpApplication(manager, guard, frozenset(origins), used), listener):
            yield url_of(address, listener) + ("" if address.path is not None else PATH)


@asynccontextmanager
async def _served(
    manager: StreamableHTTPSessionManager, application: _McpApplication, listener: socket.socket
) -> AsyncIterator[None]:
    config = uvicorn.Config(
        application,
        lifespan="off",
        access_log=False,
        log_config=None,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=CLOSE_SECONDS,
    )
    server = _QuietServer(config)

    async def serve() -> None:
        async with manager.run():
            await server.serve(sockets=[listener])

    task = asyncio.create_task(serve())
    try:
        while not server.started and not task.done():
            await asyncio.sleep(0.01)
        if task.done():
            task.result()
        yield
    finally:
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)


class _McpApplication:
    """Refuses foreign hosts and web pages before the protocol sees a request."""

    def __init__(
        self,
        manager: StreamableHTTPSessionManager,
        guard: HostGuard,
        origins: frozenset[str],
        used: Callable[[], None],
    ) -> None:
        self._manager = manager
        self._guard = guard
        self._origins = origins
        self._used = used

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        self._used()
        request = Request(scope, receive)
        answer = self._refused(request)
        if answer is not None:
            await answer(scope, receive, send)
        else:
            await self._manager.handle_request(scope, receive, send)

    def _refused(self, request: Request) -> Response | None:
        host, origin = request.headers.get("host", "").lower(), request.headers.get("origin")
        if self._guard.hosts is not None and host not in self._guard.hosts:
            return _error(403, "forbidden", "This host name is not served. Allow it with --allow-host.")
        if origin is not None and origin.lower() not in self._origins | {f"http://{host}"}:
            return _error(403, "forbidden", "Requests of this web page are not served. Allow it with --origins.")
        if request.url.path.rstrip("/") != PATH:
            return _error(404, "not_found", f"There is no such path. MCP is served on {PATH}.")
        if request.method not in ("GET", "POST", "DELETE"):
            return _error(405, "bad_request", "MCP takes GET, POST and DELETE.", Allow="GET, POST, DELETE")
        return None


def _error(status: int, code: str, message: str, **headers: Any) -> Response:
    body = msgspec.json.encode({"code": code, "message": message})
    return Response(body, status, headers, media_type="application/json")
