"""Two spaces that differ only in what a delegate may not read look the same to it, whatever it asks (ACL-2)."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import count, product
from typing import Any

import msgspec
import pytest

from service_peers import ALICE, BOB, Key, Peer, ServiceHarness, patch, put, read, remove, service_harness
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.access import delegation
from stemmadb.protocol.model.access.delegation import Delegation
from stemmadb.protocol.model.commit.request import Operation, Read
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs, Version
from stemmadb.protocol.wire.connection.client_side import Answered
from stemmadb.protocol.wire.messages.access import AclRequest, RevokeRequest
from stemmadb.protocol.wire.messages.base import Request
from stemmadb.protocol.wire.messages.blobs import BlobRead
from stemmadb.protocol.wire.messages.overview import CountRequest, PrefixesRequest
from stemmadb.protocol.wire.messages.reading import (
    BlameRequest,
    DiffRequest,
    HistogramRequest,
    HistoryRequest,
    LogRequest,
    Moment,
    QueryRequest,
    WatchRequest,
)
from stemmadb.protocol.wire.messages.structure import (
    CompactRequest,
    CreateBranch,
    CreateTag,
    EraseRequest,
    ListBranches,
    ListTags,
    MergeRequest,
    Resolution,
    RevertRequest,
)
from stemmadb.server.service.base.cursor_cover import COVER_BYTES
from stemmadb.server.service.base.settings import ServiceSettings

HIDDEN = ("urn:s:one", "urn:s:two")
OTHER = ("urn:s:zzz", "urn:t:q")
ROOTS = (("*",), ("urn:*",), ("urn:s:*",), ("urn:s:one",), ("urn:a:*",), ("urn:a:2", "urn:s:one", "urn:t:q"))
MOMENTS: tuple[dict[str, Any], ...] = ({}, {"version": Version(4)}, {"branch": "b"})
PREFIXES = ("", "urn:s:", "urn:a:")
IDS = ("urn:s:one", "urn:s:two", "urn:none")
Asked = tuple[type[Request], dict[str, Any]]
RANDOM_SIZES = (16, 32)


def token(issuer: Key, audience: Key, space: str, *prefixes: str) -> bytes:
    said = Delegation(
        issuer=issuer.did, audience=audience.did, space=Key("space").did, role="write", prefixes=prefixes,
        not_before=TimeMs(0), expires=TimeMs(2**62), nonce=b"n" * 16,
    )  # fmt: skip
    assert said.space == space
    return delegation.issue(said, issuer.sign)


def plain(told: Any) -> Any:
    """What was told, without hashes, salts and ids that are random, and what covers hashes in cursors."""
    if isinstance(told, bytes):
        return b"(random)" if len(told) in RANDOM_SIZES else told
    if isinstance(told, StemmaError):
        return [type(told).__name__, str(told), plain(dict(told.facts))]
    if isinstance(told, Answered):
        return plain(told.result)
    if isinstance(told, msgspec.Struct):
        return [type(told).__name__, plain(msgspec.structs.asdict(told))]
    if isinstance(told, dict):
        return {name: uncovered(one) if name == "next" and one else plain(one) for name, one in told.items()}
    return [plain(one) for one in told] if isinstance(told, list | tuple) else told


def uncovered(cursor: str) -> bytes:
    return base64.urlsafe_b64decode(cursor)[COVER_BYTES:]


async def fill(owner: Peer, world: int) -> None:
    """As many versions in both worlds; what is under `urn:a:` is the same."""
    hidden, other = HIDDEN[world], OTHER[world]
    made = {"operation": b"1" * 16, "nonce": b"1" * 16}
    await owner.commit(put("urn:a:1", {"v": 1}), put(hidden, {"secret": "x" * (1 + 500 * world)}))
    await owner.commit(put("urn:a:2", {"to": "urn:s:one"}), put("urn:a:3", [1]))
    await owner.ask(CreateBranch, name="b", **made)
    await owner.commit(put((hidden, other)[world], 2))
    await owner.commit(put((hidden, other)[world], 3), branch="b")
    await owner.commit(put("urn:a:1", {"v": 2}), put(other, 5), branch="b")
    await owner.commit(put("urn:a:1", {"v": 3}))
    await owner.ask(CreateTag, name="t", **made | {"operation": b"2" * 16})
    await owner.commit(remove(hidden) if world else put(hidden, 9))
    await owner.commit(put(("urn:s:one", "urn:s:three")[world], 1), put("urn:a:9", 1))
    await owner.ask(EraseRequest, entity=hidden, versions=(Version(2),), **made | {"operation": b"3" * 16})


def readings(made: ServiceHarness, owner: Peer) -> Iterator[Asked]:
    for roots, moment in product(ROOTS, MOMENTS):
        listed = Query(roots=tuple(map(Root, roots)), **moment)
        yield QueryRequest, {"query": listed}
        yield QueryRequest, {"query": listed, "limit": 1}
        yield QueryRequest, {"query": listed, "shape": "ids"}
        yield QueryRequest, {"query": listed, "shape": "preview", "limit": 2}
        yield CountRequest, {"query": listed}
        yield QueryRequest, {"query": Query(roots=tuple(Root(one, schema=True) for one in roots), **moment)}
    for prefix, moment, limit in product(("", "urn:", "urn:s:", "urn:a:"), MOMENTS, (None, 1)):
        yield PrefixesRequest, {"prefix": prefix, "limit": limit, **moment}
    for id_, branch in product((*IDS, made.space, "urn:a:1"), ("main", "b")):
        yield HistoryRequest, {"entity": id_, "branch": branch}
        yield BlameRequest, {"entity": id_, "branch": branch}
    filters: list[dict[str, Any]] = [{"prefix": prefix} for prefix in PREFIXES]
    filters += [{}, {"author": ALICE.did}, {"branch": "b"}, {"order": "oldest"}, {"limit": 1}]
    filters += [{"session": owner.session}, {"version": Version(5)}]
    for wanted, with_facts in product(filters, (False, True)):
        yield LogRequest, {**wanted, "with_facts": with_facts}
        if with_facts:
            yield LogRequest, {**wanted, "with_ids": True, "kinds": ("commit", "branch.create", "erase")}
    asked: list[dict[str, Any]] = [{"prefix": prefix} for prefix in PREFIXES]
    asked += [{}, {"author": ALICE.did}, {"branch": "b"}, {"since": 0}, {"until": 2**60}]
    for wanted, by, buckets in product(asked, ("version", "time"), (1, 3, 400)):
        yield HistogramRequest, {**wanted, "by": by, "buckets": buckets}
    for (left, right), prefix in product(
        ((Moment(version=Version(2)), Moment()), (Moment(), Moment(branch=BranchName("b")))), PREFIXES
    ):
        yield DiffRequest, {"left": left, "right": right, "prefix": prefix}
        yield DiffRequest, {"left": left, "right": right, "prefix": prefix, "limit": 1}
    for kind in (ListBranches, ListTags, AclRequest):
        yield kind, {}
    yield BlobRead, {"blob": bytes(32), "offset": 0, "length": 10}


def writings() -> Iterator[Asked]:
    for dry_run, source in product((True, False), ("b", "main")):
        target = "main" if source == "b" else "b"
        yield MergeRequest, {"source": source, "target": target, "dry_run": dry_run}
    for id_ in ("urn:s:one", "urn:a:1"):
        resolution = Resolution(id=EntityId(id_), body=encode(1))
        yield MergeRequest, {"source": "b", "target": "main", "dry_run": True, "resolutions": (resolution,)}
    for version, branch, dry_run in product(range(1, 14), ("main", "b"), (True, False)):
        yield RevertRequest, {"versions": (Version(version),), "branch": branch, "dry_run": dry_run}
    yield RevertRequest, {"author": ALICE.did, "dry_run": True}
    yield RevertRequest, {"author": ALICE.did, "since": Version(9), "dry_run": True}
    for id_ in IDS:
        yield EraseRequest, {"entity": id_, "versions": (Version(2),)}
    yield CompactRequest, {"floor": Version(5)}
    yield CreateBranch, {"name": "b"}
    yield CreateBranch, {"name": "c"}
    yield RevokeRequest, {"delegation": bytes(32)}


def commits() -> Iterator[tuple[Operation, tuple[Read, ...]]]:
    for id_ in IDS:
        yield put(id_, 1), ()
        yield Operation(op="set", id=EntityId(id_), body=encode(1)), ()
        yield patch(id_, {"op": "test", "path": "", "value": 1}), ()
        yield remove(id_), ()
        yield put("urn:a:w", 1), (read(id_, 1),)
    for version, prefix in ((1, "urn:s:"), (9, "urn:")):
        yield put("urn:a:w", 1), (Read(version=Version(version), prefix=prefix),)


def watches() -> Iterator[Asked]:
    numbers = count(1)
    for roots, schema, since in product(ROOTS, (None, True), (None, Version(0), Version(3))):
        asked = Query(roots=tuple(Root(one, schema=schema) for one in roots))
        yield WatchRequest, {"watch": next(numbers), "query": asked, "since": since}


NEVER_MS = 24 * 60 * 60 * 1_000


async def told_in(world: int) -> list[Any]:
    """Everything that a delegate for `urn:a:` hears in one of the worlds; no frame comes by time (`quiet_ms`)."""
    async with service_harness(settings=ServiceSettings(quiet_ms=NEVER_MS)) as made:
        owner, bob = await made.peer(ALICE).open(), made.peer(BOB)
        await fill(owner, world)
        await bob.open(delegations=(token(ALICE, BOB, made.space, "urn:a:"),))
        operations = count(1)
        for kind, fields in readings(made, owner):
            await asked(bob, kind, fields)
        for kind, fields in writings():
            await asked(bob, kind, fields | {"operation": next(operations).to_bytes(16, "big"), "nonce": b"n" * 16})
        for operation, reads in commits():
            await bob.commit(operation, reads=reads)
        for kind, fields in watches():
            await asked(bob, kind, fields)
        hidden = HIDDEN[world]
        await owner.commit(put("urn:a:1", 5), put(hidden, 5))
        await owner.commit(put(hidden, 6))
        await owner.commit(remove(hidden), put("urn:a:new", 1))
        return [plain(event) for event in bob.events]


async def asked(peer: Peer, kind: type[Request], fields: dict[str, Any]) -> None:
    """What is answered is among the events."""
    try:
        await peer.ask(kind, **fields)
    except StemmaError:
        return


@pytest.mark.rule("ACL-2")
async def test_what_a_delegate_is_told_does_not_depend_on_what_it_may_not_read() -> None:
    one, two = await told_in(0), await told_in(1)
    assert len(one) > 200
    assert one == two


@pytest.mark.rule("ACL-2")
async def test_a_delegate_for_other_ids_is_not_told_the_access_list() -> None:
    async with service_harness() as made:
        bob = await made.peer(BOB).open(delegations=(token(ALICE, BOB, made.space, "urn:a:"),))
        answer: Any = await bob.ask(AclRequest)
        assert answer.roles == {}
