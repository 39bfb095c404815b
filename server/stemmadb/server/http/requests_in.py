"""From the head of a request to its answer, with the checks in one order for every route (HTTP-13)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import msgspec

from stemmadb.protocol.errors import Forbidden, Malformed, RateLimited, StemmaError
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.http.base.conditions import read_condition
from stemmadb.server.http.base.context import NOT_OURS, HttpContext
from stemmadb.server.http.base.error_table import HttpProblem, reply_to, reply_to_problem
from stemmadb.server.http.base.parameters import Params, read_params
from stemmadb.server.http.base.replies import JSON, HttpReply, ReplyWriter
from stemmadb.server.http.callers.bearer import Bearer, Bearers
from stemmadb.server.http.callers.calls import RequestHead, SpaceCall, entered
from stemmadb.server.http.description import openapi
from stemmadb.server.http.routes import server_routes
from stemmadb.server.http.routes.console_pages import ConsolePages, is_console
from stemmadb.server.http.routes.read_routes import NoParams
from stemmadb.server.http.routes.request_bodies import check_media_type, read_body
from stemmadb.server.http.routes.route_table import (
    CONDITIONS,
    ME,
    OPENAPI,
    ROOTS,
    SPACES,
    Place,
    Route,
    place_of,
    routes,
    space_of,
)
from stemmadb.server.http.writes.commits import CommitWriter, RefusedWrite
from stemmadb.server.http.writes.identities import OwnSessions, check_key

METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE"
ALLOWED_HEADERS: Final = "Authorization, Content-Type, If-Match, If-None-Match, Idempotency-Key, Last-Event-ID, Range"
EXPOSED_HEADERS: Final = "ETag, Stemma-Version, Stemma-Identity, Link, Retry-After, Content-Range"
PREFLIGHT_SECONDS: Final = "600"
FOREIGN: Final = "Pages of this origin may not connect. Add it to the server's setting 'origins', or to 'public'."
NOTHING: Final = "There is nothing at this path. GET /v1/openapi.json lists the paths."
_CONDITIONAL: Final = ("PUT", "PATCH", "DELETE")
_SINGLE: Final = ("Idempotency-Key", "Last-Event-ID", "Range", "If-Range", "Expect")
"""Headers that mean nothing twice: a proxy could take the other one. The rest is checked where it is used."""


class IncomingBody(Protocol):
    """The body of a request, which has not been read."""

    @property
    def length(self) -> int: ...

    async def whole(self) -> bytes: ...

    async def chunk(self) -> bytes: ...


class RequestHandler:
    """Answers requests. Knows nothing of aiohttp."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context
        self._bearers = Bearers(context.server, context.service.now)
        self._routes: dict[str, dict[str, Route]] = {}
        for route in routes(CommitWriter(OwnSessions(context.random))):
            self._routes.setdefault(route.path, {})[route.method] = route
        self._console = ConsolePages(context, context.console)
        self._description = openapi.encoded()

    async def answer(self, head: RequestHead, body: IncomingBody) -> HttpReply:
        """Never raises but for a peer that is gone."""
        precondition = bool(head.all("if-match") or head.all("if-none-match")) and head.method in _CONDITIONAL
        try:
            reply = await self._answer(head, body)
        except HttpProblem as problem:
            reply = reply_to_problem(problem)
        except RefusedWrite as refused:
            reply = reply_to(refused.error, self._context.limits, is_precondition=precondition, extra=refused.extra)
        except StemmaError as error:
            reply = reply_to(error, self._context.limits, is_precondition=precondition)
        return self.with_policy(reply, head)

    def with_policy(self, reply: HttpReply, head: RequestHead) -> HttpReply:
        """The headers that every answer has (HTTP-4)."""
        origins, hosts = head.all("origin"), head.all("host")
        is_foreign = bool(origins) and self._context.origins.allow(origins, hosts)
        is_foreign = is_foreign and self._context.origins.is_foreign(origins, hosts)
        headers = [
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Resource-Policy", "cross-origin" if is_foreign else "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("Vary", "Origin"),
        ]
        if origins and self._context.origins.allow(origins, hosts):
            headers += [
                ("Access-Control-Allow-Origin", origins[0]),
                ("Access-Control-Expose-Headers", EXPOSED_HEADERS),
            ]
        if self._context.is_tls:
            headers.append(("Strict-Transport-Security", "max-age=31536000"))
        if not any(name == "Cache-Control" for name, _ in reply.headers):
            headers.append(("Cache-Control", "no-store"))
        return msgspec.structs.replace(reply, headers=(*reply.headers, *headers))

    async def _answer(self, head: RequestHead, body: IncomingBody) -> HttpReply:
        if head.all("origin") and not self._context.origins.allow(head.all("origin"), head.all("host")):
            raise Forbidden(FOREIGN, action="connect", needs="none")
        if head.method == "OPTIONS":
            return _preflight()
        if is_console(head.path):
            _check_method(head, {"GET": None})
            if not self._context.origins.is_known_host(head.all("host")):
                raise HttpProblem(421, NOT_OURS)
            return await self._console.answer(head)
        place = place_of(head.path)
        if place is None:
            raise HttpProblem(404, NOTHING)
        if place.pattern in ROOTS:
            return await self._answer_root(head, place)
        return await self._answer_below(head, body, place)

    async def _answer_root(self, head: RequestHead, place: Place) -> HttpReply:
        _check_method(head, {"GET": None})
        if place.pattern == OPENAPI and not self._context.origins.is_known_host(head.all("host")):
            raise HttpProblem(421, NOT_OURS)
        read_params(head.query, NoParams)
        if place.pattern == OPENAPI:
            return HttpReply(body=self._description, content_type=JSON)
        bearer = self._bearer(head, None)
        handle: Callable[[HttpContext, Bearer], Awaitable[HttpReply]]
        handle = server_routes.spaces if place.pattern == SPACES else server_routes.me
        assert place.pattern in (SPACES, ME)
        return await handle(self._context, bearer)

    async def _answer_below(self, head: RequestHead, body: IncomingBody, place: Place) -> HttpReply:
        route = _check_method(head, self._routes.get(place.pattern, {}))
        space = space_of(place.space)
        params: Params = read_params(head.query, route.params)
        _check_single(head)
        if route.writes and (key := head.one("idempotency-key")) is not None:
            check_key(key)
        if route.writes:
            _check_condition(head, route)
        check_media_type(route, head.all("content-type"), head.all("content-encoding"), body.length)
        _check_accept(head, route)
        bearer = self._bearer(head, space)
        if route.body == "bytes":
            return await self._handle(head, route, params, body, bearer, place)
        data = await body.whole() if body.length else b""
        return await self._handle(head, route, params, read_body(route, data, self._context.limits), bearer, place)

    async def _handle(
        self, head: RequestHead, route: Route, params: Params, body: Any, bearer: Bearer, place: Place
    ) -> HttpReply:
        async with entered(self._context, space_of(place.space), bearer) as hub:
            hub.counts.messages_in += 1
            call = SpaceCall(self._context, head, params, body, bearer, hub)
            if route.path.startswith("/blobs"):
                reply: HttpReply = await route.handle(call, place.blob)
            else:
                reply = await route.handle(call)
        return reply if reply.stream is None or reply.is_endless else self._staying(reply, call)

    def _staying(self, reply: HttpReply, call: SpaceCall[Any]) -> HttpReply:
        """The answer with a stream during which the caller stays in its space."""
        write = reply.stream
        assert write is not None, "only streams outlive the call"

        async def stream(writer: ReplyWriter) -> None:
            async with entered(self._context, call.hub.space.did, call.bearer) as hub:
                call.hub = hub
                await write(writer)

        return msgspec.structs.replace(reply, stream=stream)

    def _bearer(self, head: RequestHead, space: Did | None) -> Bearer:
        bearer = self._bearers.read(head.all("authorization"), space=space, address=head.address)
        wait_ms = self._context.service.request_rates.take(bearer.principal)
        if wait_ms:
            raise RateLimited(retry_after_ms=wait_ms)
        return bearer


def _check_method(head: RequestHead, methods: Any) -> Any:
    method = "GET" if head.method == "HEAD" else head.method
    if method not in methods:
        allowed = sorted({*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"})
        raise HttpProblem(405, f"Only {', '.join(allowed)} are answered here.", (("Allow", ", ".join(allowed)),))
    return methods[method]


def _check_condition(head: RequestHead, route: Route) -> None:
    """A write that takes no condition refuses one: ignored, it would promise what it does not keep."""
    given = [name for name in CONDITIONS if head.all(name.lower())]
    if given and not route.headers:
        raise Malformed(path=f"({given[0]})", why="only /entity takes it; declare 'reads' in the body instead")
    read_condition(head.all("if-match"), head.all("if-none-match"))


def _check_single(head: RequestHead) -> None:
    for name in _SINGLE:
        if len(head.all(name.lower())) > 1:
            raise Malformed(path=f"({name})", why="it is there twice")


def _check_accept(head: RequestHead, route: Route) -> None:
    """406 where the client takes nothing that the route gives; blobs have any type."""
    accepted = [one.partition(";")[0].strip().lower() for text in head.all("accept") for one in text.split(",")]
    given = ("*/*", "application/*", "application/json", "application/problem+json", "text/event-stream")
    if accepted and not route.path.startswith("/blobs") and not any(one in given for one in accepted):
        raise HttpProblem(406, "Answers are application/json. Accept that, or leave the header Accept out.")


def _preflight() -> HttpReply:
    """The same for every path, without a token (HTTP-4)."""
    return HttpReply(
        status=204,
        headers=(
            ("Access-Control-Allow-Methods", METHODS),
            ("Access-Control-Allow-Headers", ALLOWED_HEADERS),
            ("Access-Control-Max-Age", PREFLIGHT_SECONDS),
        ),
    )
