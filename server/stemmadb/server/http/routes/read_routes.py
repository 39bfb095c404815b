"""Reading a space: queries, the log, history, blame, differences. Each request is a message (HTTP-5)."""

from __future__ import annotations

import re
from typing import Any, Final, get_args

from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.log.commit_record import CommitKind
from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Version
from stemmadb.protocol.wire.codec.json_form import convert, form_of
from stemmadb.protocol.wire.messages.access import AclRequest
from stemmadb.protocol.wire.messages.fields import RandomId, WireTime, WireVersion
from stemmadb.protocol.wire.messages.reading import (
    BlameRequest,
    DiffRequest,
    HistoryRequest,
    LogRequest,
    Moment,
    Order,
    QueryRequest,
)
from stemmadb.server.http.base.parameters import PageParams, Params
from stemmadb.server.http.base.replies import HttpReply, json_reply, part_reply
from stemmadb.server.http.callers.calls import SpaceCall
from stemmadb.server.http.routes.entity_routes import next_link
from stemmadb.server.http.routes.nested_answers import nested
from stemmadb.server.service.base.request_context import check_reads

_MOMENT: Final = re.compile(r"([A-Za-z0-9._/-]{1,128})(?:@([0-9]{1,19}))?")


class NoParams(Params, frozen=True, kw_only=True):
    """None."""


class AclParams(Params, frozen=True, kw_only=True):
    version: WireVersion | None = None


class QueryParams(PageParams, frozen=True, kw_only=True):
    """With `nested` links are replaced by the values they lead to."""

    nested: bool = False


class LogParams(PageParams, frozen=True, kw_only=True):
    """Commits up to `version` that pass every filter; `since` and `until` are times in milliseconds.

    `kinds` are the kinds of commits, with commas between them.
    """

    branch: str | None = None
    author: str | None = None
    session: str | None = None
    prefix: str | None = None
    since: WireTime | None = None
    until: WireTime | None = None
    version: WireVersion | None = None
    order: Order = "newest"
    with_facts: bool = False
    with_ids: bool = False
    kinds: str = ""


class DiffParams(PageParams, frozen=True, kw_only=True):
    """Two states, each written BRANCH or BRANCH@VERSION."""

    left: str
    right: str
    prefix: str = ""


class HistoryParams(PageParams, frozen=True, kw_only=True):
    id: str
    branch: str = MAIN
    version: WireVersion | None = None
    order: Order = "newest"


class BlameParams(PageParams, frozen=True, kw_only=True):
    id: str
    branch: str = MAIN
    version: WireVersion | None = None
    path: str = ""


async def get_space(call: SpaceCall[NoParams]) -> HttpReply:
    """The head of the space, and what the caller may do there."""
    caller = call.caller()
    check_reads(caller)
    version = call.hub.space.version
    said = {
        "space": call.hub.space.did,
        "version": version,
        "role": caller.rights.role,
        "prefixes": list(caller.rights.prefixes),
    }
    return json_reply(said, headers=(await call.version_header(version),))


async def get_acl(call: SpaceCall[AclParams]) -> HttpReply:
    return part_reply(await call.ask(AclRequest(id=1, version=call.params.version)))


async def query(call: SpaceCall[QueryParams]) -> HttpReply:
    """A query, once. With `nested` the roots come as values that contain what they link to."""
    params = call.params
    asked: Query = call.body
    answer = await call.ask(QueryRequest(id=1, query=asked, after=params.after, limit=params.limit))
    headers = (await call.version_header(answer.version), *next_link(call, answer.next))
    if not params.nested:
        return part_reply(answer, headers=headers)
    space, limits = call.hub.space, call.limits
    results = await space.read(lambda _: nested(asked, answer, space=space.did, limits=limits))
    said = {"version": answer.version, "results": results}
    return json_reply(said | ({} if answer.next is None else {"next": answer.next}), headers=headers)


async def log(call: SpaceCall[LogParams]) -> HttpReply:
    params = call.params
    session = None if params.session is None else _bytes(params.session)
    request = LogRequest(
        id=1,
        after=params.after,
        limit=params.limit,
        branch=None if params.branch is None else BranchName(params.branch),
        author=None if params.author is None else Did(params.author),
        session=session,
        prefix=params.prefix,
        since=params.since,
        until=params.until,
        version=params.version,
        order=params.order,
        with_facts=params.with_facts,
        with_ids=params.with_ids,
        kinds=_kinds(params.kinds),
    )
    return await _paged(call, request)


async def diff(call: SpaceCall[DiffParams]) -> HttpReply:
    params = call.params
    request = DiffRequest(
        id=1,
        after=params.after,
        limit=params.limit,
        left=_moment(params.left, "left"),
        right=_moment(params.right, "right"),
        prefix=params.prefix,
    )
    answer = await call.ask(request)
    return part_reply(answer, headers=next_link(call, answer.next))


async def history(call: SpaceCall[HistoryParams]) -> HttpReply:
    params = call.params
    request = HistoryRequest(
        id=1,
        after=params.after,
        limit=params.limit,
        entity=EntityId(params.id),
        branch=BranchName(params.branch),
        version=params.version,
        order=params.order,
    )
    return await _paged(call, request)


async def blame(call: SpaceCall[BlameParams]) -> HttpReply:
    params = call.params
    request = BlameRequest(
        id=1,
        after=params.after,
        limit=params.limit,
        entity=EntityId(params.id),
        branch=BranchName(params.branch),
        version=params.version,
        path=params.path,
    )
    return await _paged(call, request)


async def _paged(call: SpaceCall[Any], request: Any) -> HttpReply:
    answer = await call.ask(request)
    headers = (await call.version_header(answer.version), *next_link(call, answer.next))
    return part_reply(answer, headers=headers)


def _moment(text: str, name: str) -> Moment:
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise Malformed(path=f"(parameter {name!r})", why="write it as BRANCH or BRANCH@VERSION, such as main@42")
    return Moment(branch=BranchName(found[1]), version=None if found[2] is None else Version(int(found[2])))


def _kinds(text: str) -> tuple[CommitKind, ...]:
    known: dict[str, CommitKind] = {kind: kind for kind in get_args(CommitKind)}
    named = text.split(",") if text else []
    if unknown := [one for one in named if one not in known]:
        raise Malformed(
            path="(parameter 'kinds')", why=f"{unknown[0][:80]!r} is no kind; there are {', '.join(known)}"
        )
    return tuple(known[one] for one in named)


def _bytes(text: str) -> bytes:
    """A session id in base64, as answers write it."""
    form = form_of(RandomId)
    read: bytes = convert(form.read(text, "(parameter 'session')", _NO_LIMITS), RandomId, inside="session")
    return read


_NO_LIMITS: Final[Any] = None
