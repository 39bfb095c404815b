"""One regression for each bug class of watches that stores of this kind are known for, named after it."""

from __future__ import annotations

import asyncio

import pytest

from check_log import fallen
from engines import Wandering
from faults_following import Follower
from graphs import link
from service_peers import ALICE, BOB, CAROL, Key, Peer, ServiceHarness, patch, put, remove, service_harness
from stemmadb.protocol.errors import FutureVersion
from stemmadb.protocol.model.query.query import Root
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.wire.messages.structure import CompactRequest
from stemmadb.server.engine.base import executors
from stemmadb.server.storage.memory import MemoryStorage
from violations import expect_none

ALL = Root("urn:*")
GRAPH = Root("urn:list", "", {"properties": {"items": {"items": True}}})


async def opened(home: ServiceHarness, key: Key = ALICE) -> Peer:
    return await home.peer(key).open()


async def follower(home: ServiceHarness, root: Root = ALL) -> Follower:
    """Bob, whose watch is filled."""
    made = Follower(home, BOB)
    await made.connect()
    made.follow(root)
    await home.settle(5)
    await made.check()
    return made


@pytest.mark.rule("SYNC-1", "SYNC-6", "RESUME-1")
async def test_watch_gap_one_who_was_slow_or_away_is_told_all_it_missed() -> None:
    """A watcher that was slow, cut off, or met a restarted server is told all that it missed."""
    storage = MemoryStorage()
    async with service_harness(storage=storage) as home:
        alice, bob = await opened(home), await follower(home)
        assert bob.peer is not None
        bob.peer.stop_reading()
        bob.peer.wire.unsent = 1 << 30
        for number in range(5):
            await alice.commit(put(f"urn:{number}", number), put("urn:last", number))
        bob.peer.read_on()
        await home.settle()
        await bob.check()
        bob.disconnect()
        await alice.commit(put("urn:1", "changed"), remove("urn:2"))
        await bob.returns()
        await bob.check()
        bob.disconnect()
        await alice.commit(put("urn:away", 1))
        await alice.commit(remove("urn:3"))
    async with service_harness(storage=storage, bare=True) as home:
        await bob.returns(home)
        await bob.check()
        assert bob.held() == {"urn:0": 0, "urn:1": "changed", "urn:4": 4, "urn:last": 4, "urn:away": 1}


@pytest.mark.rule("SYNC-1")
async def test_watch_going_back_one_who_moves_to_a_node_that_is_behind_is_told_nothing_older() -> None:
    """Who moves to a node that is behind is told nothing older than it holds, and everything newer."""
    storage = MemoryStorage()
    async with service_harness(storage=storage) as first, service_harness(storage=storage, bare=True) as second:
        alice, carol = await opened(first), await opened(second, CAROL)
        await carol.watch(1, "urn:*")
        bob = await follower(first)
        for number in range(3):
            await alice.commit(put("urn:x", number))
        await bob.check()
        await bob.returns(second)
        unwatching = await second.peer(ALICE, session=b"u" * 16).open(to=bob.holder.to, hash=bob.holder.hash)
        await second.settle(3)
        assert (unwatching.closed, unwatching.frames) == (None, [])
        await bob.check()
        late = await second.peer(ALICE, session=b"l" * 16).open()
        await late.commit(put("urn:x", "new"))
        await bob.check()
        assert bob.held() == {"urn:x": "new"}
        expect_none(fallen(bob.seen, who="bob"))


@pytest.mark.rule("SYNC-1", "SYNC-2")
@pytest.mark.parametrize("seed", range(4))
async def test_progress_told_ahead_of_events_a_frame_has_all_up_to_where_it_reaches(seed: int) -> None:
    """A frame that says "up to here" has all events up to there, also while a watch is still being evaluated."""
    workers = executors.Executors(executors.Inline(), Wandering(seed))
    async with service_harness(workers=workers) as home:
        alice, bob = await opened(home), await follower(home, GRAPH)
        for number in range(8):
            items = [link(f"urn:item:{one}") for one in range(number + 1)]
            alice.send(put(f"urn:item:{number}", number), put("urn:list", {"items": items}))
            bob.commit(put("urn:own", number), branch="main")
            for _ in range(seed + number):
                await asyncio.sleep(0)
                await bob.check()
        await home.settle(5)
        await bob.check()
        assert len(bob.held()) == 9


@pytest.mark.rule("RESUME-1", "COMPACT-1")
@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_delete_lost_at_a_compaction_edge_who_was_away_does_not_hold_what_is_gone(
    beyond: int, is_restarted: bool
) -> None:
    """Wherever the floor lies, and whether or not the server remembers what the watcher was told."""
    storage = MemoryStorage()
    async with service_harness(storage=storage) as home:
        alice = await opened(home)
        await alice.commit(put("urn:stays", 1), put("urn:goes", 1))
        bob = await follower(home)
        bob.disconnect()
        deleted = (await alice.commit(remove("urn:goes"))).version
        await alice.commit(put("urn:stays", 2))
        await alice.ask(CompactRequest, operation=b"o" * 16, nonce=bytes(16), floor=Version(deleted + beyond))
        if not is_restarted:
            await returned(bob, home)
    if is_restarted:
        async with service_harness(storage=storage, bare=True) as home:
            await returned(bob, home)
    assert bob.held() == {"urn:stays": 2}


async def returned(bob: Follower, home: ServiceHarness) -> None:
    await bob.returns(home)
    await home.settle(3)
    await bob.check()


@pytest.mark.rule("WATCH-3", "RESUME-4")
async def test_watch_from_a_future_version_is_refused_and_waits_for_nothing() -> None:
    """It is refused, and one who claims to be there already starts over; neither waits for that version silently."""
    async with service_harness() as home:
        alice = await opened(home)
        await alice.commit(put("urn:x", 1))
        with pytest.raises(FutureVersion):
            await alice.watch(1, "urn:*", since=Version(3))
        await alice.watch(1, "urn:*", since=Version(2))
        ahead = await home.peer(BOB).open(to=Version(9), hash=bytes(32))
        assert [(frame.reset, frame.to) for frame in ahead.frames] == [("history", 2)]


@pytest.mark.rule("WATCH-1", "SYNC-3")
@pytest.mark.parametrize("root", [ALL, GRAPH], ids=["prefix", "graph"])
@pytest.mark.parametrize("seed", range(6))
async def test_updates_lost_in_the_subscribe_window_none_is(seed: int, root: Root) -> None:
    """What is committed while a watch is being set up is in its first answer or comes after it."""
    async with service_harness(workers=executors.Executors(Wandering(seed), Wandering(seed + 100))) as home:
        alice = await opened(home)
        await alice.commit(
            *[put(f"urn:item:{number}", 0) for number in range(-8, 20)], put("urn:list", {"items": []})
        )
        bob = Follower(home, BOB)
        await bob.connect()
        for number in range(20):
            if number == 5:
                bob.follow(root)
            item = {"op": "add", "path": "/items/-", "value": link(f"urn:item:{number}")}
            alice.send(patch("urn:list", item), put(f"urn:item:{number - 8}", number - 8))
            for _ in range(seed):
                await asyncio.sleep(0)
                await bob.check()
        await home.settle(5)
        await bob.check()
        linked = range(0 if root is GRAPH else -8, 20)
        items = {f"urn:item:{number}": number if number < 12 else 0 for number in linked}
        assert {id_: value for id_, value in bob.held().items() if id_ != "urn:list"} == items
