"""Overviews of a space: how many entities there are, and under which prefixes (QUERY-10, QUERY-11)."""

from __future__ import annotations

from stemmadb.protocol.model.query.query import EVERY, Root
from stemmadb.protocol.model.values.ids import BranchName, TimeMs, Version
from stemmadb.protocol.wire.messages.fields import Cursor, PageSize
from stemmadb.protocol.wire.messages.overview import CountRequest, PrefixesRequest, Separators
from stemmadb.server.http.calls import SpaceCall
from stemmadb.server.http.entity_routes import moment_query, next_link
from stemmadb.server.http.parameters import MomentParams
from stemmadb.server.http.replies import HttpReply, part_reply


class CountParams(MomentParams, frozen=True, kw_only=True):
    """The entities whose ids begin with `prefix`, at a moment."""

    prefix: str = ""


class PrefixesParams(MomentParams, frozen=True, kw_only=True):
    """The children of `prefix` at a moment: up to the next of the separators, or to the end of the id."""

    prefix: str = ""
    separators: Separators = ":/#"
    limit: PageSize | None = None
    after: Cursor | None = None


async def count(call: SpaceCall[CountParams]) -> HttpReply:
    query = await moment_query(call, (Root(call.params.prefix + EVERY),), call.params)
    answer = await call.ask(CountRequest(id=1, query=query))
    return part_reply(answer, headers=(await call.version_header(answer.version),))


async def prefixes(call: SpaceCall[PrefixesParams]) -> HttpReply:
    params = call.params
    query = await moment_query(call, (), params)
    request = PrefixesRequest(
        id=1,
        prefix=params.prefix,
        separators=params.separators,
        branch=BranchName(query.branch),
        version=None if query.version is None else Version(query.version),
        time=None if query.time is None else TimeMs(query.time),
        after=params.after,
        limit=params.limit,
    )
    answer = await call.ask(request)
    return part_reply(answer, headers=(await call.version_header(answer.version), *next_link(call, answer.next)))
