"""Clients that try to get around the access rules and the limits of the service, without sockets."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from blake3 import blake3

from service_peers import ALICE, BOB, CAROL, Key, Peer, ServiceHarness, put, read, service_harness
from stemmadb.protocol.errors import LimitExceeded, Unavailable
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.query import query
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Local
from stemmadb.protocol.wire.messages.base import Request
from stemmadb.protocol.wire.messages.blobs import BlobBegin, BlobChunk, BlobEnd
from stemmadb.protocol.wire.messages.commit import RejectedVerdict
from stemmadb.protocol.wire.messages.reading import QueryRequest, WatchRequest
from stemmadb.protocol.wire.messages.session import HeldWatch, Ping
from stemmadb.protocol.wire.messages.structure import MergeRequest, Resolution
from stemmadb.server.engine.base.executors import Executors, Inline
from stemmadb.server.engine.blobs.blobs import UPLOADS_EACH_MAX
from stemmadb.server.engine.read import store_queries
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.service.stream.session_watch import SessionWatch
from stemmadb.server.service.watch import evaluation, watch_groups

T = TypeVar("T")
MEBIBYTE = 1024 * 1024
WITHOUT_CAROL = {ALICE.did: "own", BOB.did: "write"}
OLDER = b"o" * 16


class Gated(Inline):
    """Workers that begin nothing while the gate is shut."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, work: Callable[[], T]) -> T:
        await self.gate.wait()
        return work()


class Marked(Inline):
    """Workers on the loop that say when it is their work that is done."""

    is_working = False

    async def run(self, work: Callable[[], T]) -> T:
        self.is_working = True
        try:
            return work()
        finally:
            self.is_working = False


def give(peer: Peer, request: Request) -> None:
    peer.give(peer.connection.request(request))


def told_of_entities(peer: Peer, since: int) -> list[Any]:
    return [item for frame in peer.frames[since:] for item in (*frame.entered, *frame.commits)]


def watched(peer: Peer) -> SessionWatch:
    (watch,) = peer.handler.outbox.watches.values()
    return watch


async def hide_from_carol(made: ServiceHarness, owner: Peer) -> None:
    await owner.commit(put(made.space, WITHOUT_CAROL))


# ---------------------------------------------------------------- rights that change meanwhile


@pytest.mark.rule("ACL-2")
async def test_a_reader_that_is_revoked_while_its_watch_is_evaluated_is_told_nothing_more() -> None:
    reading = Gated()
    async with service_harness(workers=Executors(Inline(), reading)) as made:
        alice, carol = await made.peer(ALICE).open(), await made.peer(CAROL).open()
        await alice.commit(put("urn:x", {"secret": 1}))
        reading.gate.clear()
        give(carol, WatchRequest(id=carol.connection.next_id(), watch=1, query=Query(roots=(Root("urn:x"),))))
        await made.settle()
        await hide_from_carol(made, alice)
        since = len(carol.frames)
        reading.gate.set()
        await made.settle()
        await alice.commit(put("urn:x", {"secret": 2}))
        await made.settle()
        assert told_of_entities(carol, since) == []


@pytest.mark.rule("ACL-2")
async def test_a_reader_that_is_revoked_while_its_session_is_opened_is_told_nothing_more() -> None:
    reading = Gated()
    async with service_harness(workers=Executors(Inline(), reading)) as made:
        alice = await made.peer(ALICE).open()
        await alice.commit(put("urn:x", {"secret": 1}))
        carol = made.peer(CAROL)
        reading.gate.clear()
        held = HeldWatch(watch=1, query=Query(roots=(Root("urn:x"),)))
        await carol.open(watches=(held,))
        reading.gate.set()
        for _ in range(3):  # as far as the evaluation of its watch
            await asyncio.sleep(0)
        reading.gate.clear()
        await hide_from_carol(made, alice)
        since = len(carol.frames)
        reading.gate.set()
        await made.settle()
        await alice.commit(put("urn:x", {"secret": 2}))
        await made.settle()
        assert [item for item in told_of_entities(carol, since) if getattr(item, "version", 0) > 3] == []


# ---------------------------------------------------------------- what others are told


@pytest.mark.rule("SYNC-3")
async def test_a_frame_without_what_its_own_client_sent_is_given_to_nobody_else() -> None:
    async with service_harness() as made:
        older, newer = await made.peer(BOB, session=OLDER).open(), await made.peer(BOB).open()
        carol, alice = await made.peer(CAROL).open(), await made.peer(ALICE).open()
        await alice.commit(put("urn:x", 0))
        await newer.watch(1, "urn:x")
        await carol.watch(1, "urn:x")
        await older.commit(put("urn:x", 1))
        newer.send(put("urn:y", 1), session=OLDER, local=Local(1), nonce=b"1" * 16)
        newer.send(put(made.space, 1), session=OLDER, local=Local(1_000_000), nonce=b"2" * 16)
        await made.settle()
        since = len(carol.frames)
        await older.commit(put("urn:x", 2))
        assert [commit.version for frame in carol.frames[since:] for commit in frame.commits] == [4]


# ---------------------------------------------------------------- what is kept, and for how long


async def test_a_hub_that_every_session_left_while_it_was_opened_is_closed() -> None:
    reading = Gated()
    settings = ServiceSettings(hub_idle_ms=1)
    async with service_harness(bare=True, workers=Executors(Inline(), reading), settings=settings) as made:
        reading.gate.clear()
        for number in range(3):
            key = Key(f"space {number}")
            handler = await made.peer(key, space=key.did).open()
            handler.lose()
        reading.gate.set()
        async with asyncio.timeout(5):
            await made.settle()
            while any(hub not in made.service._closing for hub in made.service.hubs.values()):
                assert made.service._users, "nobody is in a served_space that nothing will close"
                await asyncio.sleep(0.01)


@pytest.mark.rule("WATCH-2")
async def test_a_watch_group_that_nobody_needs_is_not_kept_by_the_batches_it_was_stepped_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch_groups, "HANDED_S", 0.0)
    async with service_harness() as made:
        alice = await made.peer(ALICE).open()
        await alice.commit(put("urn:x", 0))
        made_for = []
        for number in range(100):
            await alice.watch(1, "urn:x", f"urn:y{number}")
            made_for.append(weakref.ref(watched(alice).group))
            await alice.commit(put("urn:x", number))
        gc.collect()
        alive = sum(group() is not None for group in made_for)
        assert alive <= made.service.hubs[made.space].feed.groups.count + 1


# ---------------------------------------------------------------- clients that send and do not read


@pytest.mark.rule("SYNC-6")
@pytest.mark.parametrize("what", ["unreadable", "too many requests", "too many commits"])
async def test_a_client_that_does_not_read_the_answers_is_not_read_from(what: str) -> None:
    settings = ServiceSettings(unsent_bytes_max=64 * 1024, requests_per_second=1, commits_per_second=1)
    async with service_harness(settings=settings) as made:
        bob = await made.peer(BOB).open()
        bob.stop_reading()
        for _ in range(5_000):
            if bob.wire.is_paused:
                break
            if what == "unreadable":
                bob.give(b"\x81\xa1a\x01")
            elif what == "too many requests":
                give(bob, Ping(id=bob.connection.next_id()))
            else:
                bob.send(put("urn:x", 1))
        await made.settle()
        assert bob.wire.is_paused
        assert bob.wire.unsent < 128 * 1024


@pytest.mark.rule("SYNC-5")
async def test_verdicts_that_a_slow_client_does_not_take_do_not_fill_the_memory_with_current_values() -> None:
    settings = ServiceSettings(unsent_bytes_max=MEBIBYTE)
    async with service_harness(settings=settings) as made:
        alice, bob = await made.peer(ALICE).open(), await made.peer(BOB).open()
        await alice.commit(put("urn:big", "x"))
        await alice.commit(put("urn:big", "x" * (240 * 1024)))
        bob.stop_reading()
        for number in range(64):  # as they come in one read from the socket
            bob.send(put(f"urn:{number}", 1), reads=(read("urn:big", 2),))
        await made.settle(10)
        waiting = [one for one in gc.get_objects() if type(one) is RejectedVerdict]
        held = sum(len(one.body or b"") for verdict in waiting for one in verdict.current)
        assert held + bob.wire.unsent <= 8 * MEBIBYTE


@pytest.mark.rule("SYNC-6")
async def test_answers_that_nobody_takes_are_not_all_made_at_once() -> None:
    async with service_harness() as made:
        alice = await made.peer(ALICE).open()
        await alice.commit(put("urn:big", "x" * (7 * MEBIBYTE)))
        alice.stop_reading()
        for _ in range(8):
            asked = Query(roots=(Root("urn:big", schema=True),))
            give(alice, QueryRequest(id=alice.connection.next_id(), query=asked))
        await made.settle(4)
        assert alice.wire.unsent <= 4 * MEBIBYTE + made.limits.message_bytes_max


# ---------------------------------------------------------------- what waits on the way in


async def test_requests_that_wait_are_bounded_by_their_bytes_too() -> None:
    reading = Gated()
    async with service_harness(workers=Executors(Inline(), reading)) as made:
        alice = await made.peer(ALICE).open()
        reading.gate.clear()
        body = encode("x" * (7 * MEBIBYTE))
        given = 0
        while not alice.wire.is_paused and given < 40:
            merge = MergeRequest(
                id=alice.connection.next_id(),
                operation=given.to_bytes(16, "big"),
                nonce=b"n" * 16,
                source=BranchName("b"),
                resolutions=(Resolution(id=EntityId("urn:a"), body=body),),
                dry_run=True,
            )
            give(alice, merge)
            given += 1
            await made.settle()
        reading.gate.set()
        await made.settle()
        assert given < 40, "280 MiB of requests wait"


async def test_commits_that_wait_are_bounded_by_their_bytes_too() -> None:
    writing = Gated()
    async with service_harness(workers=Executors(writing, Inline())) as made:
        alice = await made.peer(ALICE).open()
        writing.gate.clear()
        value = "x" * (7 * MEBIBYTE)
        given = 0
        while not alice.wire.is_paused and given < 40:
            alice.send(put(f"urn:{given}", value))
            given += 1
            await made.settle()
        writing.gate.set()
        await made.settle(4)
        assert given < 40, "280 MiB of commits wait"


@pytest.mark.rule("QUERY-6")
@pytest.mark.parametrize("leaves", [False, True])
async def test_a_query_ends_when_its_caller_has_left(leaves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query with 40 costly roots worked for 36 seconds more after its caller had left."""
    reading, real, walked = Gated(), store_queries.run, list[bool]()

    def noted(*given: Any, **more: Any) -> Any:
        walked.append(True)
        return real(*given, **more)

    monkeypatch.setattr(store_queries, "run", noted)
    async with service_harness(workers=Executors(Inline(), reading)) as made:
        alice = await made.peer(ALICE).open()
        await alice.commit(put("urn:numbers", list(range(100))))
        reading.gate.clear()
        roots = tuple(Root("urn:numbers", schema={"items": {"minimum": -number}}) for number in range(40))
        give(alice, QueryRequest(id=alice.connection.next_id(), query=Query(roots=roots)))
        await made.settle()
        if leaves:
            alice.lose()
            await made.settle()
        reading.gate.set()
        await made.settle(2)
        assert walked == ([] if leaves else [True])


# ---------------------------------------------------------------- the event loop


async def test_the_large_schema_of_a_watch_is_not_compiled_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, real, where = Marked(), query.prepare, list[bool]()

    def noted(asked: Query, **given: Any) -> Any:
        where.append(reading.is_working)
        return real(asked, **given)

    async with service_harness(workers=Executors(Inline(), reading)) as made:
        alice = await made.peer(ALICE).open()
        monkeypatch.setattr(query, "prepare", noted)
        schema = {"anyOf": [{"const": number} for number in range(20_000)]}
        await alice.watch(1, Root("urn:x", schema=schema))
        assert where == [True]


@pytest.mark.rule("WATCH-2", "SYNC-6")
async def test_large_frames_for_many_sessions_take_many_turns_of_the_loop() -> None:
    """200 sessions with ten watches each, and a commit of 1,000 operations, stopped all other spaces for seconds."""
    async with service_harness() as made:
        alice = await made.peer(ALICE).open()
        watchers = [await made.peer(BOB if number % 2 else CAROL).open() for number in range(12)]
        for watcher in watchers:
            await watcher.watch(1, "urn:a*")
            await watcher.watch(2, "urn:b*")
        alice.send(*(put(f"urn:{'ab'[number % 2]}:{number}", "x" * 200) for number in range(800)))
        sent, turns = {watcher: len(watcher.wire.sent) for watcher in watchers}, []
        for _ in range(200):
            await asyncio.sleep(0)
            now = {watcher: len(watcher.wire.sent) for watcher in watchers}
            turns.append(sum(now[watcher] > sent[watcher] for watcher in watchers))
            sent = now
        assert max(turns) == 1
        assert sum(turns) == len(watchers)


@pytest.mark.rule("WATCH-2")
async def test_a_small_patch_of_a_large_watched_value_costs_no_look_at_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A watch on a document of 4.6 MB cost 190 ms of CPU for each small patch: it was read, and encoded, anew."""
    encoded, read_anew, real = list[int](), list[int](), body.encode

    def noted(value: Any) -> bytes:
        encoded.append(len(made_of := real(value)))
        return made_of

    async def difference(*_given: Any, **_more: Any) -> Any:
        read_anew.append(1)
        raise Unavailable

    document = {f"key{number:06}": "x" * 32 for number in range(40_000)}
    async with service_harness() as made:
        alice, bob = await made.peer(ALICE).open(), await made.peer(BOB).open()
        await alice.commit(put("urn:large", document))
        await bob.watch(1, "urn:large")
        await made.settle(2)
        monkeypatch.setattr(body, "encode", noted)
        monkeypatch.setattr(evaluation, "difference", difference)
        since = len(bob.frames)
        for number in range(3):
            steps = encode([{"op": "replace", "path": "/key000000", "value": number}])
            await alice.commit(Operation(op="patch", id=EntityId("urn:large"), body=steps, blind=True))
        await made.settle()
        assert [commit.version for frame in bob.frames[since:] for commit in frame.commits] == [3, 4, 5]
        assert (read_anew, [size for size in encoded if size > 10_000]) == ([], [])


@pytest.mark.rule("WATCH-2")
async def test_a_batch_with_many_entities_is_not_stepped_on_the_event_loop() -> None:
    reading = Marked()
    worked: list[int] = []

    async def run(work: Callable[[], T]) -> T:
        worked.append(1)
        return work()

    reading.run = run  # type: ignore[method-assign]  # counts what workers do
    async with service_harness(workers=Executors(Inline(), reading)) as made:
        alice, carol = await made.peer(ALICE).open(), await made.peer(CAROL).open()
        await carol.watch(1, "urn:*")
        for count, is_large in ((10, False), (900, True)):
            worked.clear()
            await alice.commit(*(put(f"urn:{number}", count) for number in range(count)))
            await made.settle()
            assert bool(worked) is is_large
        assert carol.frames[-1].to == made.service.hubs[made.space].feed.version


@pytest.mark.rule("BLOB-1", "ACL-2")
async def test_a_writer_cannot_block_the_uploads_of_others_and_loses_its_own_with_its_role() -> None:
    async with service_harness() as made:
        alice, bob = await made.peer(ALICE).open(), await made.peer(BOB).open()
        data = b"what alice uploads"
        blob = Hash(blake3(data).digest())
        await bob.ask(BlobBegin, blob=blob, size=3)
        await bob.ask(BlobChunk, blob=blob, offset=0, data=b"bad")
        for number in range(UPLOADS_EACH_MAX - 1):
            await bob.ask(BlobBegin, blob=Hash(blake3(bytes([number])).digest()), size=9)
        with pytest.raises(LimitExceeded) as refused:
            await bob.ask(BlobBegin, blob=Hash(blake3(b"one more").digest()), size=9)
        assert refused.value.facts["bound"] == "uploads_per_principal_max"
        await alice.ask(BlobBegin, blob=blob, size=len(data))
        await alice.ask(BlobChunk, blob=blob, offset=0, data=data)
        await alice.ask(BlobEnd, blob=blob)
        blobs = made.service.hubs[made.space].context.blobs
        assert len(blobs.uploads) == UPLOADS_EACH_MAX
        await alice.commit(put(made.space, {ALICE.did: "own", BOB.did: "read"}))
        await made.settle()
        assert blobs.uploads == []
