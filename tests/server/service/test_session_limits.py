"""What a session may not do, or not now: failures, floods, bounds, lost rights, internal errors, stopping."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from blake3 import blake3

from service_peers import ALICE, BOB, CAROL, put, read, service_harness
from stemmadb.protocol import errors
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import Hash, Local
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.messages.blobs import BlobBegin, BlobChunk, BlobOffset
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict
from stemmadb.protocol.wire.messages.reading import QueryRequest
from stemmadb.protocol.wire.messages.session import Ping, Pong
from stemmadb.server.engine.blobs.blobs import UPLOAD_KEEP_MS
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import StorageFailed

EVERYTHING = Query(roots=(Root("urn:*"),))


@pytest.mark.rule("COMMIT-10")
async def test_when_the_storage_fails_a_commit_is_deferred_and_so_is_all_that_follows_it() -> None:
    failures = ["append"]

    def fail(operation: str) -> None:
        if is_armed and operation in failures:
            failures.remove(operation)
            raise StorageFailed

    is_armed = False
    async with service_harness(storage=MemoryStorage(fail)) as home:
        alice = await home.peer(ALICE).open()
        is_armed = True
        alice.send(put("urn:x", 1))
        await home.settle()
        assert [(one.local, one.code) for one in alice.deferred] == [(1, "unavailable")]
        alice.send(put("urn:x", 2))
        await home.settle()
        assert [one.local for one in alice.deferred] == [1, 2], "it may not pass the one before it"
        assert isinstance(await alice.commit(put("urn:x", 1), local=Local(1)), AcceptedVerdict)
        assert isinstance(await alice.commit(put("urn:x", 2), local=Local(2)), AcceptedVerdict)


@pytest.mark.rule("COMMIT-10")
async def test_a_flood_of_commits_is_deferred_in_order() -> None:
    async with service_harness(settings=ServiceSettings(commits_per_second=3)) as home:
        home.clock.now += 1_000
        alice = await home.peer(ALICE).open()
        for number in range(5):
            alice.send(put("urn:x", number))
        await home.settle()
        assert [(one.local, one.code) for one in alice.deferred] == [(4, "rate_limited"), (5, "rate_limited")]
        assert alice.deferred[0].retry_after_ms == 333
        home.clock.now += 1_000
        for local in (4, 5):
            assert isinstance(await alice.commit(put("urn:x", local), local=Local(local)), AcceptedVerdict)


async def test_a_flood_of_requests_is_refused_with_the_time_to_wait() -> None:
    async with service_harness(settings=ServiceSettings(requests_per_second=2)) as home:
        alice = await home.peer(ALICE).open()
        await alice.ask(Ping)
        await alice.ask(Ping)
        with pytest.raises(errors.RateLimited) as caught:
            await alice.ask(Ping)
        home.clock.now += caught.value.facts["retry_after_ms"]
        await alice.ask(Ping)


@pytest.mark.rule("WIRE-7")
@pytest.mark.parametrize(("size", "allowed"), [(1, 16), (4_096, 8), (1_000_000, 8)])
async def test_a_client_of_which_too_many_messages_are_refused_is_sent_away(size: int, allowed: int) -> None:
    """The rate is 16, so a message costs 2 at most."""
    async with service_harness(settings=ServiceSettings(refusals_per_second=16)) as home:
        alice = await home.peer(ALICE).open()
        for _ in range(allowed):
            alice.handler.received(b"\xc1" * size)
        await home.settle()
        assert not alice.closed
        home.clock.now += 1_000
        for _ in range(allowed + 1):
            alice.handler.received(b"\xc1" * size)
        await home.settle()
        assert alice.closed is not None
        assert isinstance(alice.closed.error, errors.RateLimited)
        assert alice.closed.close_code == 1013


async def test_a_principal_has_only_so_many_connections() -> None:
    async with service_harness(settings=ServiceSettings(connections_per_principal_max=2)) as home:
        kept = [await home.peer(ALICE).open() for _ in range(2)]
        third = await home.peer(ALICE).open()
        assert third.closed is not None
        assert third.closed.error.facts["bound"] == "connections_per_principal_max"
        kept[0].lose()
        assert (await home.peer(ALICE).open()).closed is None


async def test_a_session_has_only_so_many_watches() -> None:
    async with service_harness(limits=msgspec.structs.replace(DEFAULTS, watches_max=2)) as home:
        alice = await home.peer(ALICE).open()
        await alice.watch(1, "urn:1")
        await alice.watch(2, "urn:2")
        with pytest.raises(errors.LimitExceeded) as caught:
            await alice.watch(3, "urn:3")
        assert caught.value.facts["bound"] == "watches_max"
        await alice.watch(2, "urn:3")


@pytest.mark.rule("ACL-2", "ACL-1")
async def test_a_revoked_reader_gets_nothing_more() -> None:
    async with service_harness() as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        await carol.watch(1, "urn:*")
        await alice.commit(put(home.space, {ALICE.did: "own"}))
        assert [(one.watch, one.code) for one in carol.frames[-1].ended] == [(1, "forbidden")]
        count = len(carol.events)
        await alice.commit(put("urn:x", 1))
        assert len(carol.events) == count
        with pytest.raises(errors.Forbidden):
            await carol.ask(QueryRequest, query=EVERYTHING)
        again = await home.peer(CAROL).open()
        assert again.closed is not None
        assert again.closed.error.code == "unknown_space"


@pytest.mark.rule("ACL-1")
async def test_a_revoked_writer_still_learns_its_verdicts() -> None:
    async with service_harness() as home:
        alice, bob = await home.peer(ALICE).open(), await home.peer(BOB, session=b"b" * 16).open()
        await bob.commit(put("urn:x", 1))
        alice.send(put(home.space, {ALICE.did: "own"}))
        bob.send(put("urn:x", 2))
        await home.settle()
        assert bob.verdict(2).code == "forbidden"
        again = await home.peer(BOB, session=b"b" * 16).open(lowest=Local(1))
        assert again.verdict(1).version == 2
        assert (await again.commit(put("urn:x", 3), local=Local(3))).code == "forbidden"
        with pytest.raises(errors.Forbidden):
            await again.ask(QueryRequest, query=EVERYTHING)


async def test_stopping_tells_what_is_durable_and_asks_to_come_back() -> None:
    async with service_harness() as home:
        alice = await home.peer(ALICE).open()
        alice.send(put("urn:x", 1))
        await home.service.stop()
        alice.take()
        assert isinstance(alice.verdict(1), AcceptedVerdict)
        assert alice.closed is not None
        assert alice.closed.error.code == "going_away"
        assert alice.closed.retry_after_ms == 500


async def test_an_internal_error_with_one_session_ends_that_one_and_harms_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with service_harness() as home:
        alice, bob, carol = [await home.peer(key).open() for key in (ALICE, BOB, CAROL)]
        await bob.watch(1, "urn:*")
        await carol.watch(1, "urn:*")
        bob.handler.outbox.owe()  # so that it has a frame of its own to send
        monkeypatch.setattr(bob.handler.outbox, "flush", _break)
        assert isinstance(await alice.commit(put("urn:x", 1)), AcceptedVerdict)
        assert bob.closed is not None
        assert bob.closed.error.code == "internal"
        assert [one.id for one in carol.frames[-1].entered] == ["urn:x"]


def _break() -> None:
    raise ZeroDivisionError


async def test_what_happens_is_counted() -> None:
    async with service_harness() as home:
        founding = home.counts.space(home.space).messages_out
        alice = await home.peer(ALICE).open()
        await alice.watch(1, "urn:*")
        await alice.commit(put("urn:x", 1))
        await alice.commit(put("urn:x", 2), reads=(read("urn:x", 1),))
        with pytest.raises(errors.UnknownBranch):
            await alice.ask(QueryRequest, query=Query(roots=(Root("urn:*"),), branch="nowhere"))
        counts = home.counts.space(home.space)
        assert (counts.commits, counts.rejections, counts.failures) == (2, {"conflict": 1}, {"unknown_branch": 1})
        assert (counts.sessions, counts.watches, counts.groups, counts.queued) == (1, 1, 1, 0)
        assert counts.messages_in >= 4
        assert counts.messages_out - founding == len(alice.events) - 1, (
            "everything but hello: frames, answers and errors"
        )
        assert counts.bytes_out > counts.messages_out
        assert sum(counts.append_seconds.counts) >= 2
        assert counts.cache_hits > 0
        alice.lose()
        assert (counts.sessions, counts.watches) == (0, 0)


async def test_all_watches_of_a_space_together_hold_only_so_many_entities() -> None:
    async with service_harness(settings=ServiceSettings(watched_entities_max=10)) as home:
        alice = await home.peer(ALICE).open()
        for number in range(6):
            await alice.commit(put(f"urn:{number}", number))
        await alice.watch(1, "urn:*")
        await alice.watch(2, "urn:*", "urn:none")
        with pytest.raises(errors.LimitExceeded) as caught:
            await alice.watch(3, "urn:*", "urn:other")
        assert caught.value.facts["bound"] == "watched_entities_max"
        await alice.watch(3, "urn:*")  # an equal one costs nothing


@pytest.mark.rule("SYNC-5")
async def test_a_rejection_is_told_without_values_that_were_compacted_away_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with service_harness() as home:
        alice, bob = await home.peer(ALICE).open(), await home.peer(BOB).open()
        await alice.commit(put("urn:x", 1))
        await bob.commit(put("urn:x", 2))
        monkeypatch.setattr("stemmadb.server.service.session.verdicts.moments.resolve", _compacted)
        verdict = await alice.commit(put("urn:x", 3), reads=(read("urn:x", 2),))
        assert (verdict.code, verdict.current) == ("conflict", ())
        assert alice.closed is None


def _compacted(*_: object) -> None:
    raise errors.Compacted(version=3, oldest=9)


@pytest.mark.rule("ACL-2")
async def test_a_revoked_reader_does_not_get_the_rest_of_a_frame_in_parts() -> None:
    limits = msgspec.structs.replace(DEFAULTS, part_bytes_max=2_000)
    async with service_harness(limits=limits, settings=ServiceSettings(unsent_bytes_max=3_000)) as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        await carol.watch(1, "urn:*")
        carol.stop_reading()
        await alice.commit(*[put(f"urn:{number:02}", "x" * 900) for number in range(20)])
        assert carol.handler.outbox.is_in_parts
        await alice.commit(put(home.space, {ALICE.did: "own"}))
        sent = len(carol.wire.sent)
        carol.wire.unsent = 1 << 20
        carol.read_on()
        await home.settle()
        assert carol.closed is not None
        assert carol.closed.error.code == "going_away"
        assert sent < 12, "the parts that were sent before, and the goodbye"
        assert not any(frame.entered for frame in carol.frames), "a frame is applied at its last part"


@pytest.mark.rule("ACL-2")
async def test_one_without_rights_is_not_even_told_how_the_space_goes_on() -> None:
    async with service_harness(limits=msgspec.structs.replace(DEFAULTS, quiet_versions_max=10)) as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        await alice.commit(put(home.space, {ALICE.did: "own"}))
        count = len(carol.events)
        for number in range(30):
            await alice.commit(put("urn:x", number))
        assert len(carol.events) == count
        assert await carol.ask(Ping) == Pong(version=carol.connection.to)


async def test_uploads_that_nobody_goes_on_with_are_swept_while_the_space_is_open() -> None:
    async with service_harness(settings=ServiceSettings(sweep_ms=1)) as home:
        alice = await home.peer(ALICE).open()
        data = b"half of it"
        blob = Hash(blake3(data + data).digest())
        await alice.ask(BlobBegin, blob=blob, size=20)
        assert await alice.ask(BlobChunk, blob=blob, offset=0, data=data) == BlobOffset(offset=10)
        home.clock.now += UPLOAD_KEEP_MS + 1
        for _ in range(1_000):
            await asyncio.sleep(0.001)
            if await alice.ask(BlobBegin, blob=blob, size=20) == BlobOffset(offset=0):
                return
        pytest.fail("it was not swept")
