"""One request on its way to its route: its head and parameters, its caller, and the space that let the caller in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from stemmadb.protocol.errors import StemmaError, Unauthenticated
from stemmadb.protocol.model.values.ids import Did, Version
from stemmadb.protocol.wire.messages.base import Part, Request, WriteRequest
from stemmadb.server.http.base.conditions import StateMark, mark_of
from stemmadb.server.http.base.context import HttpContext
from stemmadb.server.http.base.parameters import Params
from stemmadb.server.http.callers.bearer import Bearer
from stemmadb.server.service.base.request_context import Caller, check_reads
from stemmadb.server.service.requests import dispatch, past_read
from stemmadb.server.service.session import entry
from stemmadb.server.service.session.space_hub import SpaceHub

HTTP_SESSION = bytes(16)
"""The session of a caller that has none; requests look only at its rights."""
P = TypeVar("P", bound=Params)


class BodyReader(Protocol):
    """The body of a request that is streamed: the bytes as they come, and no more than were announced."""

    @property
    def length(self) -> int: ...

    async def chunk(self) -> bytes:
        """The next bytes; none at the end."""
        ...


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says before its body. Names of headers are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, Sequence[str]]
    address: str

    def all(self, name: str) -> Sequence[str]:
        return self.headers.get(name, ())

    def one(self, name: str) -> str | None:
        values = self.all(name)
        return values[0] if values else None


class SpaceCall(Generic[P]):
    """A request of a caller inside a space."""

    def __init__(
        self, context: HttpContext, head: RequestHead, params: P, body: Any, bearer: Bearer, hub: SpaceHub
    ) -> None:
        self.context = context
        self.head = head
        self.params = params
        self.body = body
        self.bearer = bearer
        self.hub = hub
        self.limits = hub.space.limits

    @property
    def principal(self) -> Did:
        return self.bearer.principal

    def caller(self) -> Caller:
        """With current rights."""
        rights = self.hub.access.rights(self.principal, self.bearer.delegated, self.context.service.now())
        return Caller(self.principal, HTTP_SESSION, rights, self.bearer.delegated)

    async def ask(self, request: Request) -> Any:
        """The answer to a protocol message, as a session would get it (HTTP-5)."""
        caller = self.caller()
        known = past_read.remembered(request, caller, self.hub.context)
        if known is not None:
            return known
        try:
            answer: Part = await dispatch.answer(request, caller, self.hub.context)
        except StemmaError as failure:
            self.hub.counts.failures[failure.code] += 1
            raise
        if not isinstance(request, WriteRequest):
            check_reads(self.caller())  # its rights may have ended meanwhile (ACL-2)
        return answer

    async def state_mark(self, version: Version) -> StateMark:
        """`Stemma-Version`: names the state of an answer."""
        feed = self.hub.feed
        if version == feed.version:
            return mark_of(version, feed.hash)
        found = await self.hub.space.read(lambda reader: reader.hashes([version]).get(version))
        return StateMark(version, "a" * 12) if found is None else mark_of(version, found)

    async def version_header(self, version: Version) -> tuple[str, str]:
        return ("Stemma-Version", str(await self.state_mark(version)))


@asynccontextmanager
async def entered(context: HttpContext, space: Did, bearer: Bearer) -> AsyncIterator[SpaceHub]:
    """The hub of the caller's space while a request runs; `UnknownSpace` for a stranger (HTTP-6, ACL-2)."""
    service = context.service
    async with entry.even_refusals(service):
        hub = await _admitted(context, space, bearer)
    try:
        yield hub
    finally:
        service.leave_hub(hub)


async def _admitted(context: HttpContext, space: Did, bearer: Bearer) -> SpaceHub:
    service = context.service
    hub = await service.enter_hub(space, create=False)
    try:
        if hub.access.is_revoked(bearer.name):
            raise Unauthenticated(why="the token was revoked")
        await entry.check_admitted(service, hub, bearer.principal, bearer.delegated)
    except BaseException:
        service.leave_hub(hub)
        raise
    return hub
