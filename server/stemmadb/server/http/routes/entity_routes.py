"""One entity: reading it at any moment, with tags, and writing it under a condition (HTTP-7, HTTP-8)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import msgspec

from stemmadb.protocol.errors import AlreadyExists, Erased, NotFound, UnknownTag
from stemmadb.protocol.model.commit.request import Content, Operation, Read
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.query.query import EVERY, Query, Root
from stemmadb.protocol.model.values import body as bodies
from stemmadb.protocol.model.values import ids, pointer, reference
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Hash, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.codec import untyped
from stemmadb.protocol.wire.messages.fields import WireVersion
from stemmadb.protocol.wire.messages.reading import QueriedEntity, QueryAnswer, QueryRequest, Shape
from stemmadb.protocol.wire.messages.structure import ListTags
from stemmadb.server.engine.base import moments, states
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.http.base.conditions import Condition, StateMark, etag, is_known, mark_of, read_condition
from stemmadb.server.http.base.error_table import HttpProblem
from stemmadb.server.http.base.parameters import MomentParams, PageParams, Params, read_time
from stemmadb.server.http.base.replies import PRIVATE, HttpReply, json_reply, part_reply
from stemmadb.server.http.callers.calls import SpaceCall
from stemmadb.server.http.writes.commits import CommitWriter, DoneCommit, accepted_at, lost_state
from stemmadb.server.storage.port import LogReader

NO_CONDITION: Final = (
    "Say what the write replaces: If-Match with the entity's ETag, or If-None-Match: * for a new entity. "
    "With blind=true the last writer wins."
)
MARKS_MAX: Final = 10_000
_PATCH_DEPTH: Final = 3


class EntityParams(MomentParams, frozen=True, kw_only=True):
    """One entity at a moment, or the part of its value at `path`, a JSON Pointer."""

    id: str
    path: str = ""


class EntityWriteParams(Params, frozen=True, kw_only=True):
    """One entity of a branch. With `blind` nothing is claimed about what was there."""

    id: str
    branch: str = MAIN
    blind: bool = False


class EntitiesParams(PageParams, frozen=True, kw_only=True):
    """The entities whose ids begin with `prefix`, whole, without their values or shortened to a preview."""

    prefix: str = ""
    branch: str = MAIN
    version: WireVersion | None = None
    shape: Shape = "whole"


class EntityRoutes:
    """Answers requests about entities."""

    def __init__(self, writer: CommitWriter) -> None:
        self._writer = writer
        self._marks: OrderedDict[Hash, StateMark] = OrderedDict()
        """The tags of states that were asked for lately, by the hash of their last fact, which never changes."""
        self._known: OrderedDict[tuple[Did, str, str, StateMark], None] = OrderedDict()
        """States of entities on branches that this server has shown lately: a write on top of one needs no reader."""

    async def get(self, call: SpaceCall[EntityParams]) -> HttpReply:
        params = call.params
        ids.entity_id(params.id, call.limits.id_bytes_max)
        tokens = pointer.parse(params.path)
        query = _at_known_head(call, await moment_query(call, (Root(params.id),), params))
        answer: QueryAnswer = await call.ask(QueryRequest(id=1, query=query))
        if answer.erased:
            raise Erased(id=params.id)
        if not answer.entities:
            raise NotFound(id=params.id, branch=query.branch, version=answer.version)
        (entity,) = answer.entities
        mark = await self._mark(call, BranchName(query.branch), entity)
        self._shown(call, query.branch, entity.id, mark)
        headers = (PRIVATE, ("ETag", etag(mark)), await call.version_header(answer.version))
        if is_known(call.head.all("if-none-match"), mark) and call.head.all("if-none-match"):
            return HttpReply(status=304, headers=headers)
        value = bodies.read_stored(records.whole_body(entity))
        for token in tokens:
            value = _member(value, token, params.id, query.branch)
        return HttpReply(body=msgspec.json.encode(value), headers=headers)

    async def _mark(self, call: SpaceCall[Any], branch: BranchName, entity: QueriedEntity) -> StateMark:
        mark = self._marks.get(entity.hash)
        if mark is None:
            mark = await call.hub.space.read(lambda reader: _last_change(reader, branch, entity))
            self._marks[entity.hash] = mark
            _forget_oldest(self._marks)
        return mark

    async def list(self, call: SpaceCall[EntitiesParams]) -> HttpReply:
        params = call.params
        query = Query((Root(params.prefix + EVERY),), branch=params.branch, version=params.version)
        request = QueryRequest(id=1, query=query, after=params.after, limit=params.limit, shape=params.shape)
        answer: QueryAnswer = await call.ask(request)
        return part_reply(answer, headers=(await call.version_header(answer.version), *next_link(call, answer.next)))

    async def put(self, call: SpaceCall[EntityWriteParams]) -> HttpReply:
        body = untyped.encoded(call.body, "", depth_max=call.limits.depth_max)
        return await self._write(call, "set", body)

    async def patch(self, call: SpaceCall[EntityWriteParams]) -> HttpReply:
        body = untyped.encoded(call.body, "", depth_max=call.limits.depth_max + _PATCH_DEPTH)
        return await self._write(call, "patch", body)

    async def delete(self, call: SpaceCall[EntityWriteParams]) -> HttpReply:
        return await self._write(call, "delete", None)

    async def _write(self, call: SpaceCall[EntityWriteParams], op: Any, body: bytes | None) -> HttpReply:
        params = call.params
        id_ = ids.entity_id(params.id, call.limits.id_bytes_max)
        branch = ids.branch_name(params.branch)
        condition = read_condition(call.head.all("if-match"), call.head.all("if-none-match"))
        is_free = params.blind or (op == "patch" and _only_increments(call.body))
        if not condition.is_given and not is_free:
            raise HttpProblem(428, NO_CONDITION)
        named, secret = await self._writer.identity(call)
        if condition.match is not None and self._is_shown(call, branch, id_, condition.match):
            reads: tuple[Read, ...] = (Read(id=id_, version=condition.match.version),)
        else:
            before = None if named is None else await accepted_at(call, named)
            reads = await _declared(call, id_, branch, condition, before)
        operation = Operation(op=op, id=id_, body=body, blind=params.blind)
        content = Content(operations=(operation,), reads=reads, branch=branch)
        done = await self._writer.write_as(call, content, named, secret)
        if done.facts:
            fact = done.facts[-1]
            mark = self._marks[fact.hash] = mark_of(fact.version, fact.hash)
            _forget_oldest(self._marks)
            self._shown(call, branch, id_, mark)
        return _written(done)

    def _shown(self, call: SpaceCall[Any], branch: str, id_: str, mark: StateMark) -> None:
        self._known[call.hub.space.did, branch, id_, mark] = None
        _forget_oldest(self._known)

    def _is_shown(self, call: SpaceCall[Any], branch: str, id_: str, mark: StateMark) -> bool:
        """Whether the state is known to be one of the branch. A reader would wait for the log to be checkpointed."""
        return (call.hub.space.did, branch, id_, mark) in self._known and call.caller().rights.may_read(id_)


def _forget_oldest(cache: OrderedDict[Any, Any]) -> None:
    if len(cache) > MARKS_MAX:
        cache.popitem(last=False)


def next_link(call: SpaceCall[Any], next_: str | None) -> tuple[tuple[str, str], ...]:
    """The next page as a link, for clients that follow those."""
    if next_ is None:
        return ()
    kept = "&".join(one for one in call.head.query.split("&") if one and not one.startswith("after="))
    return (("Link", f'<{call.head.path}?{kept}{"&" if kept else ""}after={next_}>; rel="next"'),)


async def moment_query(call: SpaceCall[Any], roots: tuple[Root, ...], params: MomentParams) -> Query:
    """The query of roots at a moment; two moments together are refused."""
    named = [one for one in (params.version, params.time, params.tag) if one is not None]
    if len(named) > 1:
        raise HttpProblem(400, "Give one of version, time and tag, not two.")
    if params.tag is not None:
        branch, version = await tagged(call, params.tag)
        return Query(roots, branch=branch, version=version)
    time = None if params.time is None else read_time(params.time)
    return Query(roots, branch=params.branch, version=params.version, time=time)


def _at_known_head(call: SpaceCall[Any], query: Query) -> Query:
    """The head as the version that it is now: memory may have the state of that version, which saves a read."""
    space = call.hub.space
    if query.version is not None or query.time is not None or not space.has_one_writer:
        return query
    return msgspec.structs.replace(query, version=space.version)


async def tagged(call: SpaceCall[Any], name: str) -> tuple[str, Version]:
    """The branch and the version that a tag names."""
    ids.branch_name(name)
    after: str | None = None
    while True:
        page = await call.ask(ListTags(id=1, after=after))
        found = next((one for one in page.tags if one.name == name), None)
        if found is not None:
            return found.branch, found.version
        if page.next is None:
            raise UnknownTag(tag=name)
        after = page.next


def _last_change(reader: LogReader, branch: BranchName, entity: QueriedEntity) -> StateMark:
    """The last fact of the entity that is no checkpoint: only a compaction writes those, and they change nothing."""
    if not reader.floor():
        return mark_of(entity.version, entity.hash)
    spans = moments.resolve(reader, ReadMoment(branch, entity.version)).spans
    for fact in reader.facts_of(entity.id, spans, order="newest", limit=8):
        if fact.kind != "checkpoint":
            return mark_of(fact.version, fact.hash)
    return mark_of(entity.version, entity.hash)


async def _declared(
    call: SpaceCall[Any], id_: EntityId, branch: BranchName, condition: Condition, before: Version | None
) -> tuple[Read, ...]:
    """The declared read that the condition means; checks first that the state it names was ever there (HTTP-8)."""
    if not condition.is_given:
        return ()
    if condition.match is not None:
        if before is None:
            await _check_match(call, id_, branch, condition.match)
        return (Read(id=id_, version=condition.match.version),)
    if not call.caller().rights.may_read(id_):
        return (Read(id=id_, version=Version(0)),)
    found = await call.hub.space.read(lambda reader: _last_before(reader, id_, branch, before))
    version, has_value = found
    if has_value:
        raise AlreadyExists(id=id_, branch=branch)
    return (Read(id=id_, version=version),)


async def _check_match(call: SpaceCall[Any], id_: EntityId, branch: BranchName, mark: StateMark) -> None:
    def ask(reader: LogReader) -> Hash | None:
        if mark.version > reader.tip().version:
            return None
        spans = moments.resolve(reader, ReadMoment(branch)).spans
        seen = {span.branch for span in spans if span.after < mark.version <= span.upto}
        facts = reader.facts([mark.version]).get(mark.version, ())
        return next((fact.hash for fact in reversed(facts) if fact.id == id_ and fact.branch in seen), None)

    found = await call.hub.space.read(ask) if call.caller().rights.may_read(id_) else None
    if found is None or mark_of(mark.version, found) != mark:
        raise await lost_state(call, id_, branch, mark.version)


def _last_before(
    reader: LogReader, id_: EntityId, branch: BranchName, before: Version | None
) -> tuple[Version, bool]:
    """The version of the id's last fact, and whether it has a value; of a retry, just before its first try."""
    version = None if before is None else Version(before - 1)
    spans = moments.resolve(reader, ReadMoment(branch, version)).spans
    found = states.load(reader, spans, [id_]).get(id_)
    if found is None:
        return Version(0), False
    return found.place.version, before is None and found.value is not Missing.ABSENT


def _written(done: DoneCommit) -> HttpReply:
    commit = done.commit
    headers = done.headers
    if done.facts:
        fact = done.facts[-1]
        headers = (*headers, ("ETag", etag(mark_of(fact.version, fact.hash))))
    return commit_reply(done, headers=(*headers, ("Stemma-Version", str(mark_of(commit.version, commit.hash)))))


def commit_reply(done: DoneCommit, *, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> HttpReply:
    """Version, hash and time of a commit: the same each time its key is sent."""
    commit = done.commit
    said = {"version": commit.version, "hash": reference.write(commit.hash), "time": commit.time}
    return json_reply(said, status=status, headers=headers)


def _member(value: Value, token: str, id_: str, branch: str) -> Value:
    if isinstance(value, dict) and token in value:
        return value[token]
    if isinstance(value, list) and (at := pointer.index(token, len(value))) is not None and at < len(value):
        return value[at]
    raise NotFound(f"{id_!r} has nothing at this path on branch {branch!r}.", id=id_, branch=branch)


def _only_increments(patch: Any) -> bool:
    if not isinstance(patch, list) or not patch:
        return False
    return all(isinstance(one, dict) and one.get("op") == "increment" for one in patch)
