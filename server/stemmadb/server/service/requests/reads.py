"""Requests that read state and history: query, history, log, diff, blame (QUERY-1..6, HISTORY-1, HISTORY-2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import astuple, replace

from stemmadb.protocol import identity
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.values import ids
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.wire.messages import reading
from stemmadb.protocol.wire.messages.reading import (
    BlameAnswer,
    BlameLine,
    BlameRequest,
    DiffAnswer,
    DiffRequest,
    HistoryAnswer,
    HistoryEntry,
    HistoryRequest,
    LogAnswer,
    LogRequest,
)
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.read.blame import BlamedLeaf
from stemmadb.server.engine.read.differences import Differences
from stemmadb.server.engine.read.history import AuthoredFact
from stemmadb.server.engine.read.past_states import BlameKey
from stemmadb.server.engine.read.reader import Reader
from stemmadb.server.service.base import cursors
from stemmadb.server.service.base.cursors import Cursors, place_of
from stemmadb.server.service.base.request_context import Caller, RequestContext, reader_for
from stemmadb.server.service.requests.readable_ids import lies_behind, prefixes_within
from stemmadb.server.storage.port import LogFilter

NOWHERE: Final = "."
"""A prefix that no id begins with: what is asked for is checked all the same, and nothing is found."""


async def history(request: HistoryRequest, caller: Caller, context: RequestContext) -> HistoryAnswer:
    """The facts of one entity; one that may not be read is `NotFound`, like one that was never written (ACL-2)."""
    reader = reader_for(caller, context)
    id_, branch = _entity(request.entity, context), ids.branch_name(request.branch)
    book = Cursors(cursors.HISTORY, context.space.did, (id_, branch, request.version, request.order))
    at = book.read(request.after)
    version = request.version if at is None else at.pinned[0]
    page = await reader.history(
        id_, ReadMoment(branch, version), order=request.order, after=place_of(at), limit=request.limit
    )
    next_ = book.write([page.version], page.next)
    return HistoryAnswer(version=page.version, next=next_, entries=tuple(map(_history_entry, page.entries)))


def _history_entry(authored: AuthoredFact) -> HistoryEntry:
    fact, made = authored.fact, authored.created_by
    by = made.identity
    return HistoryEntry(
        version=fact.version,
        index=fact.index,
        branch=fact.branch,
        kind=fact.kind,
        parent=fact.parent,
        hash=fact.hash,
        digest=fact.digest,
        salt=fact.salt,
        body=fact.body,
        author=made.author,
        time=made.time,
        session=by.session if isinstance(by, LocalIdentity) else None,
        local=by.local if isinstance(by, LocalIdentity) else None,
        operation=None if isinstance(by, LocalIdentity) else by.operation,
        note=made.note,
        made_by=made.kind,
    )


async def log(request: LogRequest, caller: Caller, context: RequestContext) -> LogAnswer:
    """Commits that pass every filter, as far as the caller may read them (ACL-2)."""
    reader = reader_for(caller, context)
    wanted = _filter(request, context)
    book = Cursors(
        cursors.LOG, context.space.did, (astuple(wanted), request.with_facts, request.with_ids, request.kinds)
    )
    at = book.read(request.after)
    if at is not None:
        wanted = replace(wanted, upto=at.pinned[0])
    page = await reader.log(
        wanted,
        with_facts=request.with_facts,
        with_ids=request.with_ids,
        kinds=request.kinds,
        after=place_of(at),
        limit=request.limit,
    )
    return LogAnswer(version=page.version, next=book.write([page.version], page.next), entries=page.entries)


def _filter(request: LogRequest, context: RequestContext) -> LogFilter:
    if request.author is not None:
        identity.public_key(request.author)
    return LogFilter(
        branch=None if request.branch is None else ids.branch_name(request.branch),
        author=request.author,
        session=request.session,
        prefix=None if request.prefix is None else ids.id_prefix(request.prefix, context.space.limits.id_bytes_max),
        since=request.since,
        until=request.until,
        upto=request.version,
        order=request.order,
    )


async def diff(request: DiffRequest, caller: Caller, context: RequestContext) -> DiffAnswer:
    """The entities that differ and that the caller may read, by id."""
    reader = reader_for(caller, context)
    left, right = _moment(request.left), _moment(request.right)
    prefix = ids.id_prefix(request.prefix, context.space.limits.id_bytes_max)
    book = Cursors(cursors.DIFF, context.space.did, (astuple(left), astuple(right), prefix))
    at = book.read(request.after)
    if at is not None:
        left, right = (ReadMoment(one.branch, pin) for one, pin in zip((left, right), at.pinned, strict=True))
    page = await _differences(reader, left, right, prefixes_within(caller, prefix), place_of(at), request.limit)
    return DiffAnswer(
        left=page.left,
        right=page.right,
        changes=tuple(changed.change for changed in page.changes),
        next=book.write([page.left, page.right], page.next),
    )


async def _differences(
    reader: Reader,
    left: ReadMoment,
    right: ReadMoment,
    prefixes: Sequence[str],
    after: EntityId | None,
    limit: int | None,
) -> Differences:
    """A page of what is under the prefixes, one after the other: they are in order, so what they hold is too.

    A page ends where a prefix does, unless nothing was found in it.
    """
    ahead = [prefix for prefix in prefixes if not lies_behind(prefix, after)] or [NOWHERE]
    for prefix in ahead:
        page = await reader.diff(left, right, prefix, after=after, limit=limit)
        if page.changes or page.next is not None:
            break
    if page.next is None and page.changes and prefix != ahead[-1]:
        return replace(page, next=page.changes[-1].id)
    return page


async def blame(request: BlameRequest, caller: Caller, context: RequestContext) -> BlameAnswer:
    """Who wrote each leaf last. All leaves are found for the first page; memory has them for those after it."""
    reader, past = reader_for(caller, context), context.space.past
    id_, branch = _entity(request.entity, context), ids.branch_name(request.branch)
    book = Cursors(cursors.BLAME, context.space.did, (id_, branch, request.version, request.path))
    at = book.read(request.after)
    version, skipped = (request.version, 0) if at is None else (at.pinned[0], at.place)
    known = None if at is None else past.blamed(BlameKey(branch, id_, at.pinned[0], request.path))
    generation = past.generation
    page = await reader.blame(
        id_, ReadMoment(branch, version), request.path, after=skipped, limit=request.limit, known=known
    )
    if page.next is not None and context.space.has_one_writer:  # else others may erase unknown to our memory
        key = BlameKey(branch, id_, page.version, request.path)
        past.keep_blamed(key, page.leaves, generation=generation)
    next_ = book.write([page.version], page.next)
    return BlameAnswer(version=page.version, next=next_, lines=tuple(map(_blame_line, page.lines)))


def _blame_line(line: BlamedLeaf) -> BlameLine:
    made = line.created_by
    if made is None:
        return BlameLine(path=line.path, compacted=True)
    return BlameLine(path=line.path, version=made.version, author=made.author, time=made.time, note=made.note)


def _entity(id_: str, context: RequestContext) -> EntityId:
    return ids.entity_id(id_, context.space.limits.id_bytes_max)


def _moment(moment: reading.Moment) -> ReadMoment:
    return ReadMoment(ids.branch_name(moment.branch), moment.version, moment.time)
