"""The routes of the plugin interface. Every answer outside 2xx is `{code, message}` with a code of the contract."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NoReturn

import msgspec
from aiohttp import web

from stemmadb.memory.interfaces.http import bodies, openapi
from stemmadb.memory.interfaces.http.guards import BODY_BYTES_MAX, HostGuard, check_content_type
from stemmadb.memory.operations import forgetting, memories, namespaces, searching
from stemmadb.memory.operations.erasing import EraseJob
from stemmadb.memory.operations.memory_space import MemorySpace, Once
from stemmadb.memory.rules import ids
from stemmadb.memory.rules.namespaces import read_name
from stemmadb.memory.rules.refusals import (
    Busy,
    InvalidRequest,
    KeyReused,
    NoSuchMemory,
    NoSuchNamespace,
    NotAllowed,
    Refusal,
)
from stemmadb.memory.rules.roles import MemoryCaller
from stemmadb.protocol.errors import BadInput, StemmaError

_log: Final = logging.getLogger("stemmadb.memory.http")
SEARCH_SECONDS: Final = 1.5
ERASE_SECONDS: Final = 1.5
HEALTH_SECONDS: Final = 1.0
BEHIND_SECONDS: Final = 2.0
OLD_FORGET_MS: Final = 3_600_000
KEY: Final = "Idempotency-Key"
ERASED: Final = "Stemma-Erased"
CALLER: Final = MemoryCaller(role="agent", name="plugin", via="http")
"""There is no authentication by contract; what is written here carries the authority of an agent."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(memory: MemorySpace, job: EraseJob, guard: HostGuard, used: Callable[[], None]) -> web.Application:
    """`used` is called for every request: a memory server that nobody uses may stop."""
    app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[_errors, _guarded(guard, used)])
    plugin = MemoryPlugin(memory, job)
    app.add_routes(
        [
            web.get("/v1/health", plugin.health, allow_head=False),
            web.put("/v1/namespaces/{name}", plugin.put_namespace),
            web.patch("/v1/namespaces/{name}", plugin.patch_namespace),
            web.delete("/v1/namespaces/{name}", plugin.delete_namespace),
            web.post("/v1/namespaces/{name}/memories", plugin.write_memory),
            web.post("/v1/search", plugin.search),
            web.delete("/v1/memories/{id}", plugin.forget),
            web.get("/openapi.yaml", plugin.contract, allow_head=False),
        ]
    )
    return app


class MemoryPlugin:
    """One handler for each operation of the contract."""

    def __init__(self, memory: MemorySpace, job: EraseJob) -> None:
        self._memory = memory
        self._job = job

    async def health(self, _request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                await self._memory.space.at().settled()
        except TimeoutError:
            raise _Unavailable("The store does not answer.") from None
        oldest = self._job.oldest
        is_late = oldest is not None and self._memory.clock.now() - oldest > OLD_FORGET_MS
        is_behind = self._memory.index.seconds_behind > BEHIND_SECONDS
        status = "degraded" if is_late or is_behind else "ok"
        body = {"status": status, "version": openapi.VERSION, "capabilities": list(openapi.CAPABILITIES)}
        shift = self._memory.clock.shift
        return _json(body | {"test_clock_ms": shift} if shift else body)

    async def contract(self, request: web.Request) -> web.Response:
        """JSON is YAML too."""
        text = msgspec.json.format(msgspec.json.encode(openapi.document(plain="seed" in request.query)))
        return web.Response(body=text, content_type="application/yaml")

    async def put_namespace(self, request: web.Request) -> web.Response:
        name, body = read_name(request.match_info["name"]), await _body(request)
        new = bodies.read_namespace(body)
        made = await forgetting.make_namespace(
            self._memory,
            CALLER,
            name,
            kind=new.kind,
            expires_at=new.expires_at,
            metadata=new.metadata,
            once=_once(request, "put namespace", {"name": name, **body}),
        )
        self._job.ask(None)
        return _json(bodies.namespace_body(made))

    async def patch_namespace(self, request: web.Request) -> web.Response:
        name, body = read_name(request.match_info["name"]), await _body(request)
        once = _once(request, "patch namespace", {"name": name, **body})
        changed = await namespaces.patch_namespace(self._memory, CALLER, name, bodies.read_change(body), once=once)
        return _json(bodies.namespace_body(changed))

    async def delete_namespace(self, request: web.Request) -> web.Response:
        name = read_name(request.match_info["name"])
        return await self._erased(await forgetting.delete_namespace(self._memory, CALLER, name))

    async def write_memory(self, request: web.Request) -> web.Response:
        name, body = read_name(request.match_info["name"]), await _body(request)
        new = bodies.read_memory(body, name, self._memory)
        once = _once(request, "write memory", {"name": name, **body})
        uuid = await memories.write_memory(self._memory, CALLER, new.record, vector=new.vector, once=once)
        return _json({"id": uuid, "namespace": name}, status=201)

    async def search(self, request: web.Request) -> web.Response:
        query = bodies.read_search(await _body(request))
        try:
            async with asyncio.timeout(SEARCH_SECONDS):
                answer = await searching.search(self._memory, CALLER, query)
        except TimeoutError:
            raise _Unavailable("The search takes too long. Try again with other words.") from None
        return _json({"memories": [bodies.memory_body(one) for one in answer.found]})

    async def forget(self, request: web.Request) -> web.Response:
        uuid = ids.read_memory_id(request.match_info["id"])
        namespace = bodies.read_requester(await _body(request))
        only = CALLER._replace(namespaces=frozenset([namespace]))
        return await self._erased(await forgetting.forget_memory(self._memory, only, uuid))

    async def _erased(self, queued: str | None) -> web.Response:
        """Hidden already; waits a little for the bytes to be gone too."""
        is_done = queued is None or await self._job.erased(queued, within=ERASE_SECONDS)
        return web.Response(status=204, headers=None if is_done else {ERASED: "pending"})


# ---------------------------------------------------------------- around every request


class _Unavailable(Exception):
    """Not now."""


def _guarded(guard: HostGuard, used: Callable[[], None]) -> Callable[..., Awaitable[web.StreamResponse]]:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        used()
        guard.check(request.headers)
        if request.body_exists:
            check_content_type(request.headers)
        return await handler(request)

    return middleware


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """One place where every failure gets its status."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _of_routing(error)
    except InvalidRequest as wrong:
        return _error(400, "bad_request", str(wrong), None if wrong.field is None else {"field": wrong.field})
    except (NoSuchNamespace, NoSuchMemory) as missing:
        return _error(404, "not_found", str(missing))
    except NotAllowed as refused:
        return _error(403, "forbidden", str(refused))
    except (Busy, _Unavailable) as busy:
        return _error(503, "unavailable", str(busy))
    except (KeyReused, BadInput) as wrong:
        return _error(400, "bad_request", str(wrong))
    except Refusal as refused:
        return _error(400, "bad_request", str(refused))
    except StemmaError as failed:
        return _error(503, "unavailable", failed.message)
    except ConnectionError:
        raise
    except Exception:
        _log.exception("a request failed: %s %s", request.method, request.rel_url.path)
        return _error(500, "internal", "An internal error. It was logged.")


def _of_routing(error: web.HTTPException) -> web.Response:
    codes = {404: "not_found", 403: "forbidden", 405: "bad_request", 413: "bad_request", 400: "bad_request"}
    messages = {
        404: "There is no such path. See /openapi.yaml.",
        405: "This path does not take that method. See /openapi.yaml.",
        413: f"A body may have at most {BODY_BYTES_MAX} bytes.",
    }
    code = codes.get(error.status, "internal" if error.status >= 500 else "bad_request")
    answer = _error(error.status, code, messages.get(error.status, error.reason))
    if "Allow" in error.headers:
        answer.headers["Allow"] = error.headers["Allow"]
    return answer


async def _body(request: web.Request) -> Mapping[str, object]:
    if not request.body_exists:
        _missing()
    try:
        return bodies.read_object(await request.read())
    except (web.RequestPayloadError, asyncio.IncompleteReadError):
        raise InvalidRequest("The body ended early.") from None


def _missing() -> NoReturn:
    raise InvalidRequest("The request needs a JSON object as its body.")


def _once(request: web.Request, operation: str, arguments: dict[str, object]) -> Once | None:
    key = request.headers.get(KEY)
    return None if key is None else Once(key, CALLER.name, operation, arguments)


def _json(body: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")


def _error(status: int, code: str, message: str, details: object = None) -> web.Response:
    body: dict[str, object] = {"code": code, "message": message}
    return _json(body if details is None else body | {"details": details}, status)
