"""A session in process: opened, served, taken over, deferred, revoked, and ended."""

from __future__ import annotations

import msgspec
import pytest

from service_peers import ALICE, BOB, CAROL, SPACE, House, Key, Peer, house, patch, put, read, remove
from stemmadb.protocol import errors
from stemmadb.protocol.model.ids import Local, Version
from stemmadb.protocol.model.limits import DEFAULTS
from stemmadb.protocol.model.query import Query, Root
from stemmadb.protocol.wire.messages.commit import Accepted, Rejected
from stemmadb.protocol.wire.messages.reading import QueryRequest, WatchAnswer
from stemmadb.protocol.wire.messages.session import HeldWatch, Ping, Pong
from stemmadb.protocol.wire.messages.structure import CompactRequest
from stemmadb.protocol.wire.version import JSON
from stemmadb.server.service.settings import ServiceSettings
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import StorageFailed

EVERYTHING = Query(roots=(Root("urn:*"),))


@pytest.mark.rule("WIRE-2", "RESUME-1")
async def test_the_first_frame_says_that_the_session_is_open() -> None:
    async with house() as home:
        peer = await home.peer(ALICE).open()
        assert [(frame.from_, frame.to) for frame in peer.frames] == [(0, 1)]


@pytest.mark.rule("ACL-2")
async def test_a_stranger_and_a_space_that_is_not_there_look_alike() -> None:
    async with house() as home:
        stranger = await home.peer(Key("stranger")).open()
        nowhere = await home.peer(ALICE, space=Key("no space").did).open()
        assert stranger.closed is not None
        assert nowhere.closed is not None
        assert type(stranger.closed.error) is type(nowhere.closed.error) is errors.UnknownSpace


@pytest.mark.rule("ACL-3")
async def test_only_the_key_of_a_space_can_make_it_and_only_where_that_is_allowed() -> None:
    async with house(bare=True, settings=ServiceSettings(make_spaces=frozenset())) as home:
        peer = await home.peer(SPACE).open()
        assert peer.closed is not None
        assert isinstance(peer.closed.error, errors.UnknownSpace)
    async with house(bare=True, settings=ServiceSettings(make_spaces=frozenset({SPACE.did}))) as home:
        peer = await home.peer(SPACE).open()
        assert peer.closed is None
        refused = await peer.commit(put("urn:x", 1))
        assert isinstance(refused, Rejected)
        assert refused.code == "forbidden"


@pytest.mark.rule("WIRE-3")
async def test_a_new_connection_takes_the_session_over_and_the_old_one_is_told() -> None:
    async with house() as home:
        old = await home.peer(ALICE, session=bytes(16)).open()
        new = await home.peer(ALICE, session=bytes(16)).open()
        assert old.closed is not None
        assert old.closed.error.code == "taken_over"
        assert old.wire.closed == 4001
        verdict = await new.commit(put("urn:x", 1))
        assert isinstance(verdict, Accepted)


@pytest.mark.rule("WIRE-3")
async def test_the_same_session_id_of_another_principal_is_another_session() -> None:
    async with house() as home:
        alice = await home.peer(ALICE, session=bytes(16)).open()
        bob = await home.peer(BOB, session=bytes(16)).open()
        assert alice.closed is None
        assert isinstance(await bob.commit(put("urn:x", 1)), Accepted)
        assert not any(frame.verdicts for frame in alice.frames)


@pytest.mark.rule("SYNC-2")
async def test_own_facts_are_left_out_and_the_verdict_brings_hashes_and_salts() -> None:
    async with house() as home:
        alice = await home.peer(ALICE).open()
        await alice.watch(1, "urn:*")
        await alice.commit(put("urn:x", {"n": 1}))
        verdict = await alice.commit(patch("urn:x", {"op": "replace", "path": "/n", "value": 2}), remove("urn:y"))
        assert verdict.code == "not_found"
        verdict = await alice.commit(patch("urn:x", {"op": "replace", "path": "/n", "value": 2}))
        assert len(verdict.hashes) == len(verdict.salts) == 1
        assert alice.frames[-1].commits == ()


@pytest.mark.rule("SYNC-2", "RESUME-2")
async def test_a_commit_that_was_accepted_while_its_author_was_away_is_decided_by_the_first_frame() -> None:
    async with house() as home:
        alice = await home.peer(ALICE, session=b"s" * 16).open()
        alice.stop_reading()
        alice.send(put("urn:x", 1))
        await home.settle()
        alice.lose()
        again = await home.peer(ALICE, session=b"s" * 16).open(to=Version(1), hash=alice.connection.hash)
        assert again.verdict(1).version == 2
        space = await home.store.space(home.space)
        assert space.version == 2


@pytest.mark.rule("RESUME-2")
async def test_a_commit_that_is_sent_again_is_decided_as_before() -> None:
    async with house() as home:
        alice = await home.peer(ALICE, session=b"s" * 16).open()
        first = await alice.commit(put("urn:x", 1))
        alice.lose()
        again = await home.peer(ALICE, session=b"s" * 16).open(
            to=alice.connection.to, hash=alice.connection.hash, lowest=Local(1)
        )
        assert again.frames[0].verdicts == ()
        assert await again.commit(put("urn:x", 1)) == first


@pytest.mark.rule("SYNC-5")
async def test_a_rejection_brings_what_is_there_now_and_its_frame_reaches_that_version() -> None:
    async with house() as home:
        alice, bob = await home.peer(ALICE).open(), await home.peer(BOB).open()
        await alice.commit(put("urn:x", {"n": 1}))
        await bob.commit(put("urn:x", {"n": 2}))
        verdict = await alice.commit(put("urn:x", {"n": 3}), reads=(read("urn:x", 2),))
        assert verdict.code == "conflict"
        assert [(one.id, one.head, one.author) for one in verdict.stale] == [("urn:x", 3, BOB.did)]
        assert [(one.id, one.version) for one in verdict.current] == [("urn:x", 3)]
        assert alice.frames[-1].to == 3


@pytest.mark.rule("SYNC-6")
async def test_a_slow_reader_gets_one_frame_when_it_reads_on_and_nobody_waits_for_it() -> None:
    async with house() as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        await carol.watch(1, "urn:*")
        carol.stop_reading()
        carol.wire.unsent = 5 * 2**20
        before = len(carol.frames)
        for number in range(20):
            assert isinstance(await alice.commit(put(f"urn:{number % 3}", number)), Accepted)
        assert not carol.wire.sent, "nothing is built for one who does not read"
        carol.read_on()
        await home.settle()
        (frame,) = carol.frames[before:]
        assert (frame.from_, frame.to) == (1, 21)
        assert {one.id for one in frame.entered} == {"urn:0", "urn:1", "urn:2"}


@pytest.mark.rule("SYNC-1")
async def test_a_quiet_session_gets_an_empty_frame_in_time() -> None:
    async with house(limits=msgspec.structs.replace(DEFAULTS, quiet_versions_max=10)) as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        for number in range(40):
            await alice.commit(put("urn:x", number))
        gaps = [frame.to - frame.from_ for frame in carol.frames[1:]]
        assert gaps
        assert max(gaps) <= 10
        assert 41 - carol.frames[-1].to <= 10


@pytest.mark.rule("SYNC-7")
async def test_a_query_is_answered_after_the_frame_that_reaches_its_version() -> None:
    async with house() as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        await alice.commit(put("urn:x", 1))
        assert carol.connection.to == 1
        answer = await carol.ask(QueryRequest, query=EVERYTHING)
        assert answer.version == 2  # type: ignore[attr-defined]
        assert carol.connection.to == 2


@pytest.mark.rule("SYNC-7")
async def test_a_large_watch_is_filled_in_pages_and_verdicts_pass_between_them() -> None:
    async with house(limits=msgspec.structs.replace(DEFAULTS, part_bytes_max=2_000)) as home:
        alice = await home.peer(ALICE).open()
        for number in range(30):
            await alice.commit(put(f"urn:{number:02}", "x" * 300))
        bob = await home.peer(BOB).open()
        await bob.watch(1, "urn:*")
        await home.settle(5)
        pages = [frame for frame in bob.frames if frame.entered]
        assert len(pages) > 3
        assert sum(len(frame.entered) for frame in pages) == 30
        assert [frame.filled for frame in bob.frames if frame.filled] == [(1,)]
        assert pages[-1].filled == (1,)


@pytest.mark.rule("WATCH-3")
async def test_a_watch_that_starts_in_the_past_brings_the_facts_from_there_in_pages() -> None:
    async with house(limits=msgspec.structs.replace(DEFAULTS, part_bytes_max=2_000)) as home:
        alice = await home.peer(ALICE).open()
        for number in range(30):
            await alice.commit(put(f"urn:{number % 4}", f"{number}" + "x" * 300), put(f"other:{number}", 1))
        bob = await home.peer(BOB).open()
        versions, after, pages = [], None, 0
        while True:
            page = await bob.watch(1, "urn:*", since=Version(10), after=after)
            assert isinstance(page, WatchAnswer)
            pages += 1
            versions += [(item.version, fact.id) for item in page.commits for fact in item.facts]
            if (after := page.next) is None:
                break
        assert pages > 3
        assert versions == [(number + 2, f"urn:{number % 4}") for number in range(9, 30)]
        await home.settle(5)
        assert bob.frames[-1].filled == (1,)


@pytest.mark.rule("WATCH-3")
async def test_a_watch_cannot_start_in_the_future_or_below_the_floor() -> None:
    async with house() as home:
        alice = await home.peer(ALICE).open()
        for number in range(5):
            await alice.commit(put("urn:x", number))
        with pytest.raises(errors.FutureVersion):
            await alice.watch(1, "urn:*", since=Version(99))
        await alice.ask(CompactRequest, operation=b"o" * 16, nonce=bytes(16), floor=Version(4))
        with pytest.raises(errors.Compacted):
            await alice.watch(1, "urn:*", since=Version(2))


@pytest.mark.rule("WIRE-4")
async def test_a_ping_tells_the_version_and_json_is_spoken_too() -> None:
    async with house() as home:
        peer = await home.peer(ALICE, subprotocol=JSON).open()
        assert await peer.ask(Ping) == Pong(version=Version(1))
        await peer.watch(1, "urn:*")
        await peer.commit(put("urn:x", {"a": [1, None]}))
        assert [one.id for one in peer.frames[-1].entered] == ["urn:x"]


@pytest.mark.rule("RESUME-1")
async def test_one_who_comes_back_is_told_what_changed_and_no_more() -> None:
    async with house() as home:
        alice = await home.peer(ALICE).open()
        for number in range(50):
            await alice.commit(put(f"urn:{number}", number))
        bob = await home.peer(BOB, session=b"b" * 16).open()
        await bob.watch(1, "urn:*")
        bob.lose()
        await alice.commit(put("urn:7", "changed"), remove("urn:8"))
        again = await home.peer(BOB, session=b"b" * 16).open(
            to=bob.connection.to,
            hash=bob.connection.hash,
            watches=(HeldWatch(watch=1, query=EVERYTHING, filled=True),),
        )
        (frame,) = again.frames
        told = {one.id for one in frame.entered} | {fact.id for one in frame.commits for fact in one.facts}
        assert told == {"urn:7"}
        assert [one.id for one in frame.left] == ["urn:8"]


@pytest.mark.rule("RESUME-1")
async def test_one_who_stands_below_the_floor_starts_over() -> None:
    async with house() as home:
        alice = await home.peer(ALICE).open()
        bob = await home.peer(BOB, session=b"b" * 16).open()
        await bob.watch(1, "urn:*")
        bob.lose()
        for number in range(5):
            await alice.commit(put("urn:x", number))
        await alice.ask(CompactRequest, operation=b"o" * 16, nonce=bytes(16), floor=Version(5))
        again = await _back(home, bob)
        assert [(frame.reset, frame.from_) for frame in again.frames[:1]] == [("floor", 0)]
        assert [one.id for frame in again.frames for one in frame.entered] == ["urn:x"]


async def _back(home: House, peer: Peer) -> Peer:
    return await home.peer(peer.key, session=peer.session).open(
        to=peer.connection.to,
        hash=peer.connection.hash,
        watches=(HeldWatch(watch=1, query=EVERYTHING, filled=True),),
    )


@pytest.mark.rule("RESUME-4")
async def test_one_who_saw_another_history_starts_over_and_is_told_what_is_kept() -> None:
    async with house() as lost:
        bob = await lost.peer(BOB, session=b"b" * 16).open()
        await bob.commit(put("urn:kept", 1))
        kept = bob.verdict(1)
        await bob.commit(put("urn:lost", 1))
    async with house() as home:  # restored to version 2, and gone on from there
        again = await home.peer(BOB, session=b"b" * 16).open()
        assert (await again.commit(put("urn:kept", 1))).version == kept.version
        alice = await home.peer(ALICE).open()
        await alice.commit(put("urn:other", 1))
        again.lose()
        back = await _back(home, bob)
        (frame, *_) = back.frames
        assert frame.reset == "history"
        assert [(one.local, one.version) for one in frame.kept] == [(1, 2)]


@pytest.mark.rule("COMMIT-10")
async def test_when_the_storage_fails_a_commit_is_deferred_and_so_is_all_that_follows_it() -> None:
    failures = ["append"]

    def fail(operation: str) -> None:
        if is_armed and operation in failures:
            failures.remove(operation)
            raise StorageFailed

    is_armed = False
    async with house(storage=MemoryStorage(fail)) as home:
        alice = await home.peer(ALICE).open()
        is_armed = True
        alice.send(put("urn:x", 1))
        await home.settle()
        assert [(one.local, one.code) for one in alice.deferred] == [(1, "unavailable")]
        alice.send(put("urn:x", 2))
        await home.settle()
        assert [one.local for one in alice.deferred] == [1, 2], "it may not pass the one before it"
        assert isinstance(await alice.commit(put("urn:x", 1), local=Local(1)), Accepted)
        assert isinstance(await alice.commit(put("urn:x", 2), local=Local(2)), Accepted)


@pytest.mark.rule("COMMIT-10")
async def test_a_flood_of_commits_is_deferred_in_order() -> None:
    async with house(settings=ServiceSettings(commits_per_second=3)) as home:
        home.clock.now += 1_000
        alice = await home.peer(ALICE).open()
        for number in range(5):
            alice.send(put("urn:x", number))
        await home.settle()
        assert [(one.local, one.code) for one in alice.deferred] == [(4, "rate_limited"), (5, "rate_limited")]
        assert alice.deferred[0].retry_after_ms == 333
        home.clock.now += 1_000
        for local in (4, 5):
            assert isinstance(await alice.commit(put("urn:x", local), local=Local(local)), Accepted)


async def test_a_flood_of_requests_is_refused_with_the_time_to_wait() -> None:
    async with house(settings=ServiceSettings(requests_per_second=2)) as home:
        alice = await home.peer(ALICE).open()
        await alice.ask(Ping)
        await alice.ask(Ping)
        with pytest.raises(errors.RateLimited) as caught:
            await alice.ask(Ping)
        home.clock.now += caught.value.facts["retry_after_ms"]
        await alice.ask(Ping)


async def test_a_principal_has_only_so_many_connections() -> None:
    async with house(settings=ServiceSettings(connections_per_principal_max=2)) as home:
        kept = [await home.peer(ALICE).open() for _ in range(2)]
        third = await home.peer(ALICE).open()
        assert third.closed is not None
        assert third.closed.error.facts["bound"] == "connections_per_principal_max"
        kept[0].lose()
        assert (await home.peer(ALICE).open()).closed is None


async def test_a_session_has_only_so_many_watches() -> None:
    async with house(limits=msgspec.structs.replace(DEFAULTS, watches_max=2)) as home:
        alice = await home.peer(ALICE).open()
        await alice.watch(1, "urn:1")
        await alice.watch(2, "urn:2")
        with pytest.raises(errors.LimitExceeded) as caught:
            await alice.watch(3, "urn:3")
        assert caught.value.facts["bound"] == "watches_max"
        await alice.watch(2, "urn:3")


@pytest.mark.rule("ACL-2", "ACL-1")
async def test_a_revoked_reader_gets_nothing_more() -> None:
    async with house() as home:
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
    async with house() as home:
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
    async with house() as home:
        alice = await home.peer(ALICE).open()
        alice.send(put("urn:x", 1))
        await home.service.stop()
        alice.take()
        assert isinstance(alice.verdict(1), Accepted)
        assert alice.closed is not None
        assert alice.closed.error.code == "going_away"
        assert alice.closed.retry_after_ms == 500


async def test_a_mistake_with_one_session_ends_that_one_and_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async with house() as home:
        alice, bob, carol = [await home.peer(key).open() for key in (ALICE, BOB, CAROL)]
        await bob.watch(1, "urn:*")
        await carol.watch(1, "urn:*")
        monkeypatch.setattr(bob.visitor.outbox, "flush", _break)
        assert isinstance(await alice.commit(put("urn:x", 1)), Accepted)
        assert bob.closed is not None
        assert bob.closed.error.code == "internal"
        assert [one.id for one in carol.frames[-1].entered] == ["urn:x"]


def _break() -> None:
    raise ZeroDivisionError


async def test_what_happens_is_counted() -> None:
    async with house() as home:
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
        assert counts.bytes_out > counts.messages_out > 0
        assert sum(counts.append_seconds.counts) >= 2
        assert counts.cache_hits > 0
        alice.lose()
        assert (counts.sessions, counts.watches) == (0, 0)


async def test_all_watches_of_a_space_together_hold_only_so_many_entities() -> None:
    async with house(settings=ServiceSettings(watched_entities_max=10)) as home:
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
    async with house() as home:
        alice, bob = await home.peer(ALICE).open(), await home.peer(BOB).open()
        await alice.commit(put("urn:x", 1))
        await bob.commit(put("urn:x", 2))
        monkeypatch.setattr("stemmadb.server.service.verdicts.moments.resolve", _compacted)
        verdict = await alice.commit(put("urn:x", 3), reads=(read("urn:x", 2),))
        assert (verdict.code, verdict.current) == ("conflict", ())
        assert alice.closed is None


def _compacted(*_: object) -> None:
    raise errors.Compacted(version=3, oldest=9)


@pytest.mark.rule("ACL-2")
async def test_a_revoked_reader_does_not_get_the_rest_of_a_frame_in_parts() -> None:
    limits = msgspec.structs.replace(DEFAULTS, part_bytes_max=2_000)
    async with house(limits=limits, settings=ServiceSettings(unsent_bytes_max=3_000)) as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        await carol.watch(1, "urn:*")
        carol.stop_reading()
        await alice.commit(*[put(f"urn:{number:02}", "x" * 900) for number in range(20)])
        assert carol.visitor.outbox.is_in_parts
        await alice.commit(put(home.space, {ALICE.did: "own"}))
        sent = len(carol.wire.sent)
        carol.wire.unsent = 1 << 20
        carol.read_on()
        await home.settle()
        assert carol.closed is not None
        assert carol.closed.error.code == "going_away"
        assert sent < 12, "the parts that were sent before, and the goodbye"
        assert not any(frame.entered for frame in carol.frames), "a frame is applied at its last part"
