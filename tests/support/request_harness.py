"""A real space behind the requests of the service: asked by several principals, every answer over both encodings.

async with request_harness() as it:
    answer = await it.ask(HistoryRequest(id=1, entity=EntityId("urn:todo:1")), by=CAROL)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from engines import Engine, engine
from space import ALICE, BOB, SPACE, session_of
from stemmadb.protocol.model.access import access_roles
from stemmadb.protocol.model.access.access_roles import Rights
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.codec.subprotocols import codec_for
from stemmadb.protocol.wire.messages.base import PagedRequest, Part, Request
from stemmadb.protocol.wire.messages.session import Ok
from stemmadb.protocol.wire.version import JSON, MSGPACK
from stemmadb.server.engine.base.executors import Inline
from stemmadb.server.engine.blobs.blobs import BlobStore
from stemmadb.server.engine.plan.known_merges import KnownMerges
from stemmadb.server.service.base.request_context import Caller, RequestContext
from stemmadb.server.service.requests.dispatch import answer
from stemmadb.server.storage.blob_directory import BlobDirectory
from stemmadb.server.storage.port import Storage
from wire_peers import did_of, key_of

CAROL: Final = did_of(key_of(b"c" * 32))
STRANGER: Final = did_of(key_of(b"x" * 32))
ROLES: Final[dict[Did, str]] = {SPACE: "own", ALICE: "own", BOB: "write", CAROL: "read"}
TODO_ONLY: Final = Rights("write", ("urn:todo:",))
A = TypeVar("A", bound=Part)


class RequestHarness:
    """The request context of an open space, and callers that send requests to it."""

    def __init__(self, it: Engine, context: RequestContext) -> None:
        self.engine = it
        self.context = context

    async def caller(self, principal: Did) -> Caller:
        """With the rights that the access list gives now."""
        roles = await self.engine.value(SPACE)
        return Caller(principal, session_of("asking"), access_roles.by_list(roles, principal, SPACE))

    async def ask(self, request: Request, *, by: Did = ALICE, rights: Rights | None = None) -> Any:
        """The answer as a client reads it, having gone both ways on both subprotocols unchanged."""
        limits = self.context.space.limits
        for subprotocol in (MSGPACK, JSON):
            codec = codec_for(subprotocol, limits)
            assert codec.read_client(codec.encode(request)) == request
        return heard(request, await self.ask_unread(request, by=by, rights=rights), limits)

    async def ask_unread(self, request: Request, *, by: Did = ALICE, rights: Rights | None = None) -> Part:
        """The same for a request that no codec would let through."""
        caller = await self.caller(by) if rights is None else Caller(by, session_of("asking"), rights)
        return await answer(request, caller, self.context)

    async def pages(
        self, request: PagedRequest, *, meanwhile: Callable[[], Any] | None = None, **who: Any
    ) -> list[Any]:
        """Every page of a list, to its end; something may happen between any two."""
        found = [await self.ask(request, **who)]
        while (after := found[-1].next) is not None:
            if meanwhile is not None:
                await meanwhile()
            found.append(await self.ask(msgspec.structs.replace(request, after=after), **who))
            assert len(found) < 1_000, "a list has an end"
        return found


def heard(request: Request, result: Part, limits: Limits = DEFAULTS) -> Part:
    """What a client reads of an answer, the same on both subprotocols."""
    for subprotocol in (MSGPACK, JSON):
        codec = codec_for(subprotocol, limits)
        ok = codec.read_server(codec.encode_answer(request.id, result))
        assert isinstance(ok, Ok)
        assert ok.id == request.id
        assert codec.read_result(ok, request.answer) == result
    return result


def writing(operation: str, nonce: bytes = b"n" * 16) -> dict[str, Any]:
    """The fields that every write has: `CreateBranch(**writing("one"), name=...)`."""
    return {"id": 1, "operation": session_of(operation), "nonce": nonce}


@asynccontextmanager
async def request_harness(
    storage: Storage | None = None,
    *,
    directory: Path | None = None,
    limits: Limits = DEFAULTS,
    roles: dict[Did, str] | None = None,
) -> AsyncIterator[RequestHarness]:
    async with engine(storage, access=roles or ROLES, limits=limits) as it:
        large = None if directory is None else BlobDirectory(directory)
        blobs = BlobStore(it.space, directory=directory, large=large, workers=Inline(), now=it.clock)
        yield RequestHarness(it, RequestContext(it.space, blobs, KnownMerges(), it.clock))
