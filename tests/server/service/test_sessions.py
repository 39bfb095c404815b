"""A session in process: opened, taken over, resumed; its verdicts, its stream and its watches."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from service_peers import (
    ALICE,
    BOB,
    CAROL,
    SPACE,
    Key,
    Peer,
    ServiceHarness,
    patch,
    put,
    read,
    remove,
    service_harness,
)
from stemmadb.protocol import errors
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import Local, Version
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict, RejectedVerdict
from stemmadb.protocol.wire.messages.reading import QueryRequest, WatchAnswer
from stemmadb.protocol.wire.messages.session import HeldWatch, Ping, Pong
from stemmadb.protocol.wire.messages.structure import CompactRequest
from stemmadb.protocol.wire.version import JSON
from stemmadb.server.service.base.settings import ServiceSettings

EVERYTHING = Query(roots=(Root("urn:*"),))


@pytest.mark.rule("WIRE-2", "RESUME-1")
async def test_the_first_frame_says_that_the_session_is_open() -> None:
    async with service_harness() as home:
        peer = await home.peer(ALICE).open()
        assert [(frame.from_, frame.to) for frame in peer.frames] == [(0, 1)]


@pytest.mark.rule("ACL-2")
async def test_a_stranger_and_a_space_that_is_not_there_look_alike() -> None:
    async with service_harness() as home:
        stranger = await home.peer(Key("stranger")).open()
        nowhere = await home.peer(ALICE, space=Key("no space").did).open()
        assert stranger.closed is not None
        assert nowhere.closed is not None
        assert type(stranger.closed.error) is type(nowhere.closed.error) is errors.UnknownSpace


@pytest.mark.rule("ACL-3")
async def test_only_the_key_of_a_space_can_make_it_and_only_where_that_is_allowed() -> None:
    async with service_harness(bare=True, settings=ServiceSettings(make_spaces=frozenset())) as home:
        peer = await home.peer(SPACE).open()
        assert peer.closed is not None
        assert isinstance(peer.closed.error, errors.UnknownSpace)
    async with service_harness(bare=True, settings=ServiceSettings(make_spaces=frozenset({SPACE.did}))) as home:
        peer = await home.peer(SPACE).open()
        assert peer.closed is None
        refused = await peer.commit(put("urn:x", 1))
        assert isinstance(refused, RejectedVerdict)
        assert refused.code == "forbidden"


@pytest.mark.rule("STORE-7")
async def test_unfounded_spaces_are_bounded_and_closed_with_their_last_session() -> None:
    async with service_harness(bare=True, settings=ServiceSettings(unfounded_spaces_max=2)) as home:
        keys = [Key(f"unfounded {number}") for number in range(3)]
        first, second, third = [await home.peer(key, space=key.did).open() for key in keys]
        assert first.closed is None
        assert second.closed is None
        assert third.closed is not None
        assert third.closed.error.code == "unavailable"
        first.lose()
        assert list(home.service.hubs) == [keys[1].did]
        again = await home.peer(keys[2], space=keys[2].did).open()
        assert again.closed is None


@pytest.mark.rule("WIRE-3")
async def test_a_new_connection_takes_the_session_over_and_the_old_one_is_told() -> None:
    async with service_harness() as home:
        old = await home.peer(ALICE, session=bytes(16)).open()
        new = await home.peer(ALICE, session=bytes(16)).open()
        assert old.closed is not None
        assert old.closed.error.code == "taken_over"
        assert old.wire.closed == 4001
        verdict = await new.commit(put("urn:x", 1))
        assert isinstance(verdict, AcceptedVerdict)


@pytest.mark.rule("WIRE-3")
async def test_the_same_session_id_of_another_principal_is_another_session() -> None:
    async with service_harness() as home:
        alice = await home.peer(ALICE, session=bytes(16)).open()
        bob = await home.peer(BOB, session=bytes(16)).open()
        assert alice.closed is None
        assert isinstance(await bob.commit(put("urn:x", 1)), AcceptedVerdict)
        assert not any(frame.verdicts for frame in alice.frames)


@pytest.mark.rule("SYNC-2")
async def test_own_facts_are_left_out_and_the_verdict_brings_hashes_and_salts() -> None:
    async with service_harness() as home:
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
    async with service_harness() as home:
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
    async with service_harness() as home:
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
    async with service_harness() as home:
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
    async with service_harness() as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        await carol.watch(1, "urn:*")
        carol.wire.clog(5 * 2**20)
        before = len(carol.frames)
        for number in range(20):
            assert isinstance(await alice.commit(put(f"urn:{number % 3}", number)), AcceptedVerdict)
        assert not carol.wire.sent, "nothing is built for one who does not read"
        carol.read_on()
        await home.settle()
        (frame,) = carol.frames[before:]
        assert (frame.from_, frame.to) == (1, 21)
        assert {one.id for one in frame.entered} == {"urn:0", "urn:1", "urn:2"}


@pytest.mark.rule("SYNC-1")
async def test_a_quiet_session_gets_an_empty_frame_in_time() -> None:
    async with service_harness(limits=msgspec.structs.replace(DEFAULTS, quiet_versions_max=10)) as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        for number in range(40):
            await alice.commit(put("urn:x", number))
        gaps = [frame.to - frame.from_ for frame in carol.frames[1:]]
        assert gaps
        assert max(gaps) <= 10
        assert 41 - carol.frames[-1].to <= 10


@pytest.mark.rule("SYNC-7")
async def test_a_query_is_answered_after_the_frame_that_reaches_its_version() -> None:
    async with service_harness() as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        await alice.commit(put("urn:x", 1))
        assert carol.connection.to == 1
        answer = await carol.ask(QueryRequest, query=EVERYTHING)
        assert answer.version == 2  # type: ignore[attr-defined]
        assert carol.connection.to == 2


@pytest.mark.rule("SYNC-7")
async def test_a_large_watch_is_filled_in_pages_and_verdicts_pass_between_them() -> None:
    async with service_harness(limits=msgspec.structs.replace(DEFAULTS, part_bytes_max=2_000)) as home:
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
    async with service_harness(limits=msgspec.structs.replace(DEFAULTS, part_bytes_max=2_000)) as home:
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


@pytest.mark.rule("WATCH-3", "QUERY-6")
async def test_pages_of_a_watch_do_not_go_on_in_another_history() -> None:
    limits = msgspec.structs.replace(DEFAULTS, part_bytes_max=2_000)
    async with service_harness(limits=limits) as lost, service_harness(limits=limits) as kept:
        for home, size in ((lost, 300), (kept, 301)):
            alice = await home.peer(ALICE).open()
            for _ in range(15):
                await alice.commit(put("urn:x", "x" * size))
        bob, carol = await lost.peer(BOB).open(), await kept.peer(BOB).open()
        page = await bob.watch(1, "urn:*", since=Version(3))
        assert isinstance(page, WatchAnswer)
        assert page.next is not None
        assert isinstance(await bob.watch(1, "urn:*", since=Version(3), after=page.next), WatchAnswer)
        with pytest.raises(errors.Malformed):
            await carol.watch(1, "urn:*", since=Version(3), after=page.next)


@pytest.mark.rule("WATCH-3")
async def test_a_watch_cannot_start_in_the_future_or_below_the_floor() -> None:
    async with service_harness() as home:
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
    async with service_harness() as home:
        peer = await home.peer(ALICE, subprotocol=JSON).open()
        assert await peer.ask(Ping) == Pong(version=Version(1))
        await peer.watch(1, "urn:*")
        await peer.commit(put("urn:x", {"a": [1, None]}))
        assert [one.id for one in peer.frames[-1].entered] == ["urn:x"]


@pytest.mark.rule("RESUME-1")
async def test_one_who_comes_back_is_told_what_changed_and_no_more() -> None:
    async with service_harness() as home:
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
    async with service_harness() as home:
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


async def _back(home: ServiceHarness, peer: Peer) -> Peer:
    return await home.peer(peer.key, session=peer.session).open(
        to=peer.connection.to,
        hash=peer.connection.hash,
        watches=(HeldWatch(watch=1, query=EVERYTHING, filled=True),),
    )


@pytest.mark.rule("RESUME-4")
async def test_one_who_saw_another_history_starts_over_and_is_told_what_is_kept() -> None:
    async with service_harness() as lost:
        bob = await lost.peer(BOB, session=b"b" * 16).open()
        await bob.commit(put("urn:kept", 1))
        kept = bob.verdict(1)
        await bob.commit(put("urn:lost", 1))
    async with service_harness() as home:  # restored to version 2, and gone on from there
        again = await home.peer(BOB, session=b"b" * 16).open()
        assert (await again.commit(put("urn:kept", 1))).version == kept.version
        alice = await home.peer(ALICE).open()
        await alice.commit(put("urn:other", 1))
        again.lose()
        back = await _back(home, bob)
        (frame, *_) = back.frames
        assert frame.reset == "history"
        assert [(one.local, one.version) for one in frame.kept] == [(1, 2)]


@pytest.mark.rule("ACL-2")
async def test_a_space_that_is_there_is_not_told_from_one_that_is_not_by_time() -> None:
    """A cold space took six times as long to refuse as one that does not exist."""
    async with service_harness(settings=ServiceSettings(refusal_ms=20)) as made:
        strange = Key("stranger")
        loop = asyncio.get_running_loop()
        for space in (made.space, Key("missing").did):
            peer = made.peer(strange, space=space)
            began = loop.time()
            await peer.open()
            assert peer.wire.closed is None, "not at once"
            while peer.closed is None:
                await asyncio.sleep(0.001)
                peer.take()
            assert peer.closed.error.code == "unknown_space"
            assert loop.time() - began >= 0.02
