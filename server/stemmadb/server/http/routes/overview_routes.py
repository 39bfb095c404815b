"""Overviews of a space: how many entities and commits there are, and where (QUERY-10, QUERY-11, HISTORY-4)."""

from __future__ import annotations

from stemmadb.protocol.model.query.query import EVERY, Root
from stemmadb.protocol.model.values.ids import BranchName, Did, TimeMs, Version
from stemmadb.protocol.wire.messages.fields import Cursor, PageSize, WireTime
from stemmadb.protocol.wire.messages.overview import CountRequest, PrefixesRequest, Separators
from stemmadb.protocol.wire.messages.reading import BucketCount, HistogramBy, HistogramRequest
from stemmadb.server.http.base.parameters import MomentParams, Params
from stemmadb.server.http.base.replies import HttpReply, part_reply
from stemmadb.server.http.callers.calls import SpaceCall
from stemmadb.server.http.routes.entity_routes import moment_query, next_link


class CountParams(MomentParams, frozen=True, kw_only=True):
    """The entities whose ids begin with `prefix`, at a moment."""

    prefix: str = ""


class PrefixesParams(MomentParams, frozen=True, kw_only=True):
    """The children of `prefix` at a moment: up to the next of the separators, or to the end of the id."""

    prefix: str = ""
    separators: Separators = ":/#"
    limit: PageSize | None = None
    after: Cursor | None = None


class HistogramParams(Params, frozen=True, kw_only=True):
    """The commits that pass every filter, in at most so many buckets."""

    by: HistogramBy = "version"
    buckets: BucketCount = 100
    branch: str | None = None
    prefix: str | None = None
    author: str | None = None
    since: WireTime | None = None
    until: WireTime | None = None
    after: Cursor | None = None


async def histogram(call: SpaceCall[HistogramParams]) -> HttpReply:
    params = call.params
    request = HistogramRequest(
        id=1,
        by=params.by,
        buckets=params.buckets,
        branch=None if params.branch is None else BranchName(params.branch),
        prefix=params.prefix,
        author=None if params.author is None else Did(params.author),
        since=params.since,
        until=params.until,
        after=params.after,
    )
    answer = await call.ask(request)
    return part_reply(answer, headers=(await call.version_header(answer.version), *next_link(call, answer.next)))


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
