"""Attacks by work: few messages that cost the server much, as `benchmarks.load.attacks` lists them.

Each takes what an attack has: the server's port, whether the time is over, and a space of the attacker's own.
"""

from __future__ import annotations

import contextlib
import select
import time
from typing import Any, Final, Protocol

from benchmarks.load.websocket import Gone, WebSocket
from benchmarks.ours.sessions import Key, Session, Space, query_of, write
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.wire.connection.client_side import ClientConnection
from stemmadb.protocol.wire.messages.base import Request
from stemmadb.protocol.wire.messages.reading import BlameRequest, DiffRequest, Moment, QueryRequest, WatchRequest
from stemmadb.protocol.wire.version import MSGPACK, space_path

COSTLY_SCHEMA: Final[dict[str, Any]] = {
    "items": {"anyOf": [*({"const": -number} for number in range(1, 13)), {"type": "integer"}]}
}
NUMBERS: Final = 60_000
DOCUMENT: Final = {f"key{number:06}": "x" * 32 for number in range(96_000)}
"""4.6 MB."""


class AttackTarget(Protocol):
    port: int
    space: Space

    def begin(self) -> None: ...

    def is_over(self) -> bool: ...


def costly_watches(target: AttackTarget) -> None:
    """Eight watches of a costly schema on an array of 60,000 numbers, one of which is patched again and again."""
    writer, watcher = _numbers(target), target.space.session()
    for number in range(8):
        root = Root(id="urn:numbers", schema=COSTLY_SCHEMA | {"minItems": number})
        watcher.link.send(write(WatchRequest(id=number + 1, watch=number + 1, query=Query(roots=(root,)))))
    _patch_on(target, writer, "urn:numbers", "/0", [watcher])


def costly_roots(target: AttackTarget) -> None:
    """Queries with 40 roots of a costly schema; the caller leaves and comes again."""
    _numbers(target)
    roots = tuple(Root(id="urn:numbers", schema=COSTLY_SCHEMA | {"minItems": number}) for number in range(40))
    target.begin()
    while not target.is_over():
        asking = target.space.session()
        asking.link.send(write(QueryRequest(id=1, query=Query(roots=roots))))
        time.sleep(0.3)
        asking.link.close()


def many_watches(target: AttackTarget) -> None:
    """200 sessions with 10 watches each, and commits of 1,000 operations that concern them all."""
    others = [Key() for _ in range(3)]
    space = Space.made(target.port, others=others)
    watchers = [Session(target.port, space.did, others[number % 3], number=number + 1) for number in range(200)]
    for watcher in watchers:
        watcher.open()
        for number in range(1, 11):
            watcher.watch(query_of(f"urn:note:{number}*"), number)
    writer, round_ = space.session(), 0
    target.begin()
    while not target.is_over():
        round_ += 1
        body = encode({"round": round_})
        ids = (EntityId(f"urn:note:{number % 10 + 1}:{number}") for number in range(1_000))
        writer.push([Operation(op="set", id=id_, body=body, blind=True) for id_ in ids])
        _drop_until_answered([writer, *watchers], 0.05)


def large_watched_document(target: AttackTarget) -> None:
    """One watch on a document of 4.6 MB, and small patches of it."""
    target.space.fill({"urn:large": DOCUMENT})
    watcher = target.space.session()
    watcher.watch(query_of("urn:large"))
    _patch_on(target, target.space.session(), "urn:large", "/key000000", [watcher])


def diff_pages(target: AttackTarget) -> None:
    """Pages of one change each, of a difference of 20,000."""
    target.space.fill({f"urn:many:{number}": number for number in range(20_000)})
    _ask_on(target, DiffRequest(id=1, left=Moment(version=Version(1)), right=Moment(), limit=1))


def blame_pages(target: AttackTarget) -> None:
    """Pages of one line each, of a document of 4.6 MB."""
    target.space.fill({"urn:large": DOCUMENT})
    _ask_on(target, BlameRequest(id=1, entity=EntityId("urn:large"), limit=1))


def unfounded_spaces(target: AttackTarget) -> None:
    """Sessions on spaces that are never founded, each of a new identity."""
    links: list[WebSocket] = []
    target.begin()
    while not target.is_over():
        key = Key()
        with contextlib.suppress(OSError, Gone):
            link = WebSocket(target.port, space_path(key.did), MSGPACK)
            connection = ClientConnection(subprotocol=MSGPACK, space=key.did)
            connection.receive(link.recv())
            opening = connection.open(principal=key.did, session=b"s" * 16, sign=key.sign)
            assert isinstance(opening, bytes)
            link.send(opening)
            links.append(link)
    for link in links:
        link.close()


# ---------------------------------------------------------------- helpers


def _numbers(target: AttackTarget) -> Session:
    target.space.fill({"urn:numbers": list(range(NUMBERS))})
    return target.space.session()


def _patch_on(target: AttackTarget, writer: Session, id_: str, path: str, readers: list[Session]) -> None:
    target.begin()
    number = 0
    while not target.is_over():
        number += 1
        operation = encode([{"op": "replace", "path": path, "value": number}])
        writer.push([Operation(op="patch", id=EntityId(id_), body=operation, blind=True)])
        _drop_until_answered([writer, *readers], 0.05)


def _ask_on(target: AttackTarget, request: Request) -> None:
    asking = target.space.session()
    target.begin()
    while not target.is_over():
        asking.link.send(write(request))
        _drop_until_answered([asking], 0.2)


def _drop_until_answered(sessions: list[Session], seconds: float) -> None:
    """Reads whatever has come for a while, and looks at nothing."""
    ends = time.perf_counter() + seconds
    while (left := ends - time.perf_counter()) > 0:
        for readable in select.select([one.link.sock for one in sessions], [], [], left)[0]:
            if not readable.recv(1 << 18):
                raise ConnectionResetError
