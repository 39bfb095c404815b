"""Frames of a session as events of a stream: `reset`, `change`, `ready`, `ended` (HTTP-10).

A frame brings facts, of which some are patches; an event brings whole values, so that its reader needs no patches. A
frame that many streams get is turned into its event once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Final, NamedTuple

import msgspec

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.codec.json_form import form_of
from stemmadb.protocol.wire.codec.msgpack_codec import Codec
from stemmadb.protocol.wire.messages import ServerMessage
from stemmadb.protocol.wire.messages.reading import QueryAnswer, QueryRequest
from stemmadb.protocol.wire.messages.sync import CommitItem, Entered, Sync
from stemmadb.server.http.callers.calls import SpaceCall

CACHED_MAX: Final = 64
"""Events that are kept for other streams; those of one frame come at the same time."""
CACHED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of frames, of values read for them and of events that are kept; what is larger is shared while it is made."""
_COMMIT_FIELDS: Final = ("version", "author", "time", "note")


class StreamEvent(NamedTuple):
    """One event; `id` is the state to resume from, where there is one."""

    name: str
    data: dict[str, Any]
    id: str | None = None
    text: bytes | None = None
    """The data as JSON, where many streams have it in common."""

    def encoded(self) -> bytes:
        """As `text/event-stream` writes it."""
        mark = f"id: {self.id}\n" if self.id is not None else ""
        text = msgspec.json.encode(self.data) if self.text is None else self.text
        return b"%bdata: %b\n\n" % (f"event: {self.name}\n{mark}".encode(), text)


class ChangeMade(NamedTuple):
    """An event, and whether it has every value it should: one made while rights ended may lack some."""

    event: StreamEvent
    is_whole: bool
    kept_bytes: int
    """Of the values that were read for it, and of its text."""


class ChangeEvents:
    """The events of frames, shared by all streams of a server that get the same ones.

    Values are read with the rights of the stream that comes first. Where these ended meanwhile, the others, which may
    have theirs, read for themselves: an event without a value would be a state to resume from that lacks it.
    """

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[Did, str, bytes], asyncio.Future[ChangeMade]] = OrderedDict()

    @property
    def held_bytes(self) -> int:
        """Of frames, and of events that are made."""
        return sum(len(data) + _kept_bytes(made) for (_, _, data), made in self._made.items())

    async def of(self, call: SpaceCall[Any], branch: str, data: bytes, frame: Sync) -> StreamEvent:
        key = (call.hub.space.did, branch, data)
        made = self._made.get(key)
        if made is not None and not _has_failed(made):
            found = made.result() if made.done() else await asyncio.shield(made)
            return found.event if found.is_whole else (await change_of(call, branch, frame)).event
        made = self._made[key] = asyncio.ensure_future(change_of(call, branch, frame))
        made.add_done_callback(lambda _: self._trim())
        self._trim()
        return (await asyncio.shield(made)).event

    def _trim(self) -> None:
        while len(self._made) > CACHED_MAX or self.held_bytes > CACHED_BYTES_MAX:
            self._made.popitem(last=False)


def _has_failed(made: asyncio.Future[ChangeMade]) -> bool:
    return made.done() and (made.cancelled() or made.exception() is not None)


def _kept_bytes(made: asyncio.Future[ChangeMade]) -> int:
    return made.result().kept_bytes if made.done() and not _has_failed(made) else 0


class LastMessage:
    """The message that was read last: many streams get the same one, one after the other."""

    def __init__(self) -> None:
        self._data = b""
        self._message: ServerMessage | None = None

    def read(self, codec: Codec, data: bytes) -> ServerMessage:
        if data is not self._data or self._message is None:
            self._message, self._data = codec.read_server(data), data
        return self._message


def is_empty(frame: Sync) -> bool:
    """Whether it says nothing but how far it reaches."""
    return not (frame.commits or frame.entered or frame.left)


async def change_of(call: SpaceCall[Any], branch: str, frame: Sync) -> ChangeMade:
    """The event of a frame, or of a part of one; each stream gives it an id of its own."""
    entered = {one.id: one for one in frame.entered}
    left = [one.id for one in frame.left]
    known: dict[str, dict[str, Any]] = {}
    unread: dict[str, None] = dict.fromkeys(one.id for one in frame.entered if one.body is None)
    for commit in frame.commits:
        for fact in commit.facts:
            if (fact.branch or commit.branch) != branch or fact.kind == "checkpoint":
                continue
            known.pop(fact.id, None)
            unread.pop(fact.id, None)
            if fact.kind == "set" and fact.body is not None:
                known[fact.id] = {"id": fact.id, "version": commit.version, "value": body.read_stored(fact.body)}
            elif fact.kind != "delete":
                unread[fact.id] = None
    removed = {*left, *(id_ for id_, one in entered.items() if one.body is not None)}
    wanted = [id_ for id_ in unread if id_ not in removed]
    values = await _values(call, branch, frame, wanted)
    known |= values.found
    said = {
        "version": frame.to,
        "entered": [_entered(one, known) for one in frame.entered],
        "updated": [one for id_, one in known.items() if id_ not in removed and id_ not in entered],
        "left": left,
        "commits": _commits(frame.commits),
    }
    is_whole = all(id_ in values.found or id_ in values.erased for id_ in wanted)
    text = msgspec.json.encode(said)
    return ChangeMade(StreamEvent("change", said, text=text), is_whole, values.read_bytes + len(text))


def _entered(one: Entered, known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if one.body is None:
        return known.get(one.id, {"id": one.id, "version": one.version})
    return {"id": one.id, "version": one.version, "value": body.read_stored(one.body)}


def _commits(commits: tuple[CommitItem, ...]) -> list[dict[str, Any]]:
    form = form_of(CommitItem)
    written = (form.write(msgspec.structs.replace(one, facts=())) for one in commits)
    return [{name: one[name] for name in _COMMIT_FIELDS if name in one} for one in written]


class _Values:
    """What was read; what was erased has no value for anybody."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        self.erased: set[str] = set()
        self.read_bytes = 0

    def take(self, answer: QueryAnswer) -> None:
        self.erased.update(answer.erased)
        for one in answer.entities:
            stored = records.whole_body(one)
            self.read_bytes += len(stored)
            self.found[one.id] = {"id": one.id, "version": one.version, "value": body.read_stored(stored)}


async def _values(call: SpaceCall[Any], branch: str, frame: Sync, ids: list[str]) -> _Values:
    """The values of patched entities at the end of the frame; what is gone by now comes with a later frame."""
    values = _Values()
    for at in range(0, len(ids), call.limits.roots_max):
        roots = tuple(Root(id_) for id_ in ids[at : at + call.limits.roots_max])
        after: str | None = None
        while True:
            query = Query(roots, branch=branch, version=frame.to)
            try:
                answer: QueryAnswer = await call.ask(QueryRequest(id=1, query=query, after=after))
            except StemmaError:
                return values
            values.take(answer)
            after = answer.next
            if after is None:
                break
    return values
