"""aiohttp behind the listeners: turns its requests into ours, and writes our answers to their end (HTTP-1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, cast

from aiohttp import web
from aiohttp.client_exceptions import ClientConnectionResetError

from stemmadb.server.http.base.context import HttpContext
from stemmadb.server.http.base.error_table import reply_to
from stemmadb.server.http.base.replies import HttpReply
from stemmadb.server.http.callers.calls import RequestHead
from stemmadb.server.http.requests_in import RequestHandler
from stemmadb.server.log_events import Log

LOG: Final = Log("http")
HEAD_BYTES_MAX: Final = 16_384
HEADERS_MAX: Final = 100
KEEPALIVE_SECONDS: Final = 3_600.0
"""Longer than the gate's: aiohttp never decides when a connection is closed."""
STOP_SECONDS: Final = 2.0


class FedTransport(Protocol):
    """The transport that an HTTP protocol writes to. A root handler finds it as the transport of its request."""

    @property
    def has_whole_body(self) -> bool:
        """Whether all of the request's body has come; an answer before that has to close the connection."""
        ...

    def send_continue(self) -> None:
        """`100 Continue`, once, if the client waits for it: the body is wanted now (HTTP-13)."""
        ...

    def begin_stream(self) -> None:
        """The answer goes on without end: it has no deadline, and its client may read as slowly as it likes."""
        ...

    def finished(self, *, keep_alive: bool) -> None:
        """The answer is written to its end: the next request may come (HTTP-1)."""
        ...


class HttpServer:
    """The protocols of all HTTP connections of one server."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context
        self._handler = RequestHandler(context)
        self._server = web.Server(
            self._handle,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=KEEPALIVE_SECONDS,
            max_line_size=HEAD_BYTES_MAX,
            max_field_size=HEAD_BYTES_MAX,
            max_headers=HEADERS_MAX,
            auto_decompress=False,
            lingering_time=0,
        )

    def connect(self) -> web.RequestHandler:
        return self._server()

    async def stop(self) -> None:
        await self._server.shutdown(STOP_SECONDS)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = cast("FedTransport", request.transport)
        head = _head(request)
        body = _Body(request, transport)
        try:
            reply = await self._handler.answer(head, body)
        except (ConnectionError, ClientConnectionResetError):
            raise
        except Exception as error:
            internal = self._context.service.internal_error(error, "an HTTP request failed")
            reply = self._handler.with_policy(reply_to(internal, self._context.limits), head)
        try:
            response = await self._write(request, transport, reply, is_head=request.method == "HEAD")
        finally:
            if reply.done is not None:
                reply.done()
        transport.finished(keep_alive=bool(response.keep_alive))
        return response

    async def _write(
        self, request: web.BaseRequest, transport: FedTransport, reply: HttpReply, *, is_head: bool
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=reply.status, headers={"Server": "StemmaDB"})
        for name, value in reply.headers:
            response.headers.add(name, value)
        has_body = reply.status not in (204, 304)
        if has_body:
            response.headers["Content-Type"] = reply.content_type
            if reply.stream is None:
                response.content_length = len(reply.body)
            elif reply.length is not None:
                response.content_length = reply.length
        if not transport.has_whole_body:
            response.force_close()
        if reply.is_endless and not is_head:
            transport.begin_stream()
        await response.prepare(request)
        if has_body and not is_head:
            if reply.stream is not None:
                await reply.stream(response)
            elif reply.body:
                await response.write(reply.body)
        await response.write_eof()
        return response


class _Body:
    """The body of a request; `100 Continue` is sent when it is first read."""

    def __init__(self, request: web.BaseRequest, transport: FedTransport) -> None:
        self._request = request
        self._transport = transport
        self.length = request.content_length or 0

    async def whole(self) -> bytes:
        parts = []
        while data := await self.chunk():
            parts.append(data)
        return b"".join(parts)

    async def chunk(self) -> bytes:
        self._transport.send_continue()
        return await self._request.content.readany()


def _head(request: web.BaseRequest) -> RequestHead:
    headers: dict[str, list[str]] = {}
    for name, value in request.headers.items():
        headers.setdefault(name.lower(), []).append(value)
    path, _, query = request.raw_path.partition("?")
    peer: Any = request.transport.get_extra_info("peername") if request.transport is not None else None
    given: Mapping[str, Sequence[str]] = headers
    return RequestHead(
        method=request.method, path=path, query=query, headers=given, address=str(peer[0]) if peer else ""
    )
