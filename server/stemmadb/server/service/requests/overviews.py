"""Requests that look at much and bring little: count, prefixes, log.histogram (QUERY-10, QUERY-11, HISTORY-4)."""

from __future__ import annotations

from typing import Final

from msgspec.structs import asdict, astuple, replace

from stemmadb.protocol import identity
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.query import query as queries
from stemmadb.protocol.model.values import ids
from stemmadb.protocol.wire.messages.overview import (
    CountAnswer,
    CountRequest,
    PrefixEntry,
    PrefixesAnswer,
    PrefixesRequest,
)
from stemmadb.protocol.wire.messages.reading import HistogramAnswer, HistogramBucket, HistogramRequest
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.read import counting, log_histogram
from stemmadb.server.engine.read.log_histogram import HistogramWanted
from stemmadb.server.service.base import cursors
from stemmadb.server.service.base.cursors import Cursors, place_of
from stemmadb.server.service.base.request_context import Caller, RequestContext, check_reads
from stemmadb.server.service.requests.readable_ids import limit_to_readable, prefixes_within
from stemmadb.server.storage.port import LogFilter, LogReader

WALK_MS: Final = 100
"""How long a histogram walks through commits before it says how far it came."""


async def count(request: CountRequest, caller: Caller, context: RequestContext) -> CountAnswer:
    """How many entities the pages of the query would have together."""
    check_reads(caller)
    space = context.space

    def ask(log: LogReader) -> CountAnswer:
        prepared = queries.prepare(request.query, limits=space.limits, space=space.did)
        found = counting.count(log, limit_to_readable(caller, prepared), may_read=caller.may_read)
        return CountAnswer(version=found.version, entities=found.entities, exact=found.exact)

    return await space.read(ask)


async def histogram(request: HistogramRequest, caller: Caller, context: RequestContext) -> HistogramAnswer:
    """The commits that `log` would show, counted."""
    check_reads(caller)
    if request.author is not None:
        identity.public_key(request.author)
    space = context.space
    commits = LogFilter(
        branch=None if request.branch is None else ids.branch_name(request.branch),
        author=request.author,
        prefix=None if request.prefix is None else ids.id_prefix(request.prefix, space.limits.id_bytes_max),
        since=request.since,
        until=request.until,
    )
    book = Cursors(cursors.HISTOGRAM, space.did, (astuple(commits), request.by, request.buckets))
    at = book.read(request.after)
    wanted = HistogramWanted(
        commits=commits if at is None else replace(commits, upto=at.pinned[0]),
        by=request.by,
        buckets=request.buckets,
        within=prefixes_within(caller, commits.prefix or ""),
        after=place_of(at),
    )

    def ask(log: LogReader) -> HistogramAnswer:
        end = context.now() + WALK_MS
        found = log_histogram.histogram(log, wanted, may_read=caller.may_read, is_late=lambda: context.now() > end)
        return HistogramAnswer(
            version=found.version,
            next=book.write([found.version], found.next),
            exact=found.next is None,
            buckets=tuple(HistogramBucket(**asdict(one)) for one in found.buckets),
        )

    return await space.read(ask)


async def prefixes(request: PrefixesRequest, caller: Caller, context: RequestContext) -> PrefixesAnswer:
    """The children of a prefix under which the caller may read something."""
    check_reads(caller)
    limits = context.space.limits
    prefix, branch = ids.id_prefix(request.prefix, limits.id_bytes_max), ids.branch_name(request.branch)
    asked = (prefix, request.separators, branch, request.version, request.time)
    book = Cursors(cursors.PREFIXES, context.space.did, asked)
    at = book.read(request.after)
    limit = limits.page_max if request.limit is None else request.limit
    if limit > limits.page_max:
        raise LimitExceeded(bound="page_max", maximum=limits.page_max, actual=limit)
    moment = ReadMoment(branch, request.version, request.time)
    if at is not None:
        moment = ReadMoment(branch, at.pinned[0])

    def ask(log: LogReader) -> PrefixesAnswer:
        page = counting.children(
            log,
            prefix,
            moment,
            within=prefixes_within(caller, prefix),
            separators=request.separators,
            after=place_of(at),
            limit=limit,
        )
        entries = tuple(
            PrefixEntry(prefix=one.prefix, entities=one.entities, exact=one.exact) for one in page.children
        )
        return PrefixesAnswer(version=page.version, next=book.write([page.version], page.next), prefixes=entries)

    return await context.space.read(ask)
