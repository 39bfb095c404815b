"""The checks of the simulation: each accepts what is right, and names what is wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from simulation.followers import Follower
from simulation.history import History
from simulation.ledger import Effect, Ledger, Record, check_decided, check_sums
from simulation.states import States
from simulation.wire import Stream, Tap
from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.reading.queries import roots_of
from stemmadb.client.space import Space
from stemmadb.client.testing import World
from stemmadb.client.watching import Change
from stemmadb.protocol.model.values.ids import MAIN, EntityId, Hash, Local, TimeMs, Version
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict
from stemmadb.protocol.wire.messages.sync import CommitItem, FactItem, Sync
from two_clients import in_a_world, put

X, Y = "urn:doc:x", "urn:doc:y"


def test_a_commit_with_a_wrong_fate_is_found() -> None:
    async def scenario(world: World, alice: Space, bob: Space) -> None:
        name, version = await put(alice, X, {"n": 2}, mark=1)
        states = States(world, alice.did)
        principal = world.identity("alice").did
        right = Record(principal, name, 1, (Effect("add", X, 2),), fate="confirmed", version=version)
        never = Record(principal, CommitName(name.session, Local(99)), 9)

        def ledger(*records: Record) -> Ledger:
            made = Ledger()
            made.records.extend(records)
            return made

        check_decided(ledger(right), states)
        assert check_sums(ledger(right), states) == 1
        wrong: dict[str, list[Record]] = {
            "nobody made": [],
            "never decided": [right, never],
            "in no log": [Record(principal, name, 1, fate="confirmed", version=Version(version + 1))],
            "is in the log": [Record(principal, name, 1, fate="rejected")],
            "in the log at": [Record(principal, name, 1, fate="unsent")],
            "and told as lost": [Record(principal, name, 1, fate="confirmed", version=version, is_lost=True)],
        }
        for why, records in wrong.items():
            with pytest.raises(AssertionError, match=why):
                check_decided(ledger(*records), states)
        with pytest.raises(AssertionError, match="was confirmed"):
            check_sums(ledger(Record(principal, name, 1, (Effect("add", X, 3),))), states)
        with pytest.raises(AssertionError, match="now rejected"):
            right.decide("rejected")

    in_a_world(scenario)


def test_a_change_that_is_wrong_is_found() -> None:
    async def scenario(world: World, alice: Space, bob: Space) -> None:
        _, first = await put(bob, X, 1)
        _, second = await put(bob, Y, 2)
        states = States(world, alice.did)

        def follower() -> Follower:
            return Follower(alice, alice.watch("urn:*"), roots_of("urn:*"), states, may_read=may_read)

        def may_read(_epoch: int, _version: Version) -> bool:
            return True

        def entered(version: Version, **values: int) -> Change:
            return Change(version, {EntityId(f"urn:doc:{one}"): value for one, value in values.items()}, {}, ())

        follower().take(entered(second, x=1, y=2))
        for change in (entered(first, x=1, y=2), entered(second, x=1), entered(second, x=1, y=3)):
            with pytest.raises(AssertionError, match="urn:doc:y"):
                follower().take(change)
        right = follower()
        right.take(entered(second, x=1, y=2))
        with pytest.raises(AssertionError, match="goes back"):
            right.take(Change(first, {}, {}, (EntityId(Y),)))
        with pytest.raises(AssertionError, match="enters what was there"):
            right.take(entered(second, x=1))

    in_a_world(scenario)


# ---------------------------------------------------------------- the wire


def frame(since: int, to: int, *places: tuple[int, int], **more: Any) -> Sync:
    """With these facts, each given by its version and its index."""
    items = tuple(
        CommitItem(
            version=Version(version),
            author=World(seed=1).identity("alice").did,
            time=TimeMs(1),
            branch=MAIN,
            facts=(FactItem(index=index, id=EntityId(X), kind="delete", parent=Hash(bytes(32))),),
        )
        for version, index in places
    )
    return Sync(from_=Version(since), to=Version(to), hash=Hash(bytes(32)), commits=items, **more)


def taken(*frames: Sync) -> None:
    """By one connection."""
    stream = Stream()
    for one in frames:
        stream.take(one)


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([frame(3, 5), frame(4, 6)], "a frame from 4 after 5"),
        ([frame(3, 5), frame(6, 7)], "a frame from 6 after 5"),
        ([frame(3, 5), frame(3, 5)], "a frame from 3 after 5"),
        ([frame(5, 3)], "goes back"),
        ([frame(3, 5, (3, 0))], "3 in a frame from 3 to 5"),
        ([frame(3, 5, (6, 0))], "6 in a frame from 3 to 5"),
        ([frame(3, 5, (5, 0), (4, 0))], "is told after"),
        ([frame(3, 5, (4, 1), (4, 1))], "is told after"),
        ([frame(3, 5, (4, 1), more=True), frame(3, 5, (4, 0))], "is told after"),
        ([frame(3, 5, more=True), frame(3, 6)], "a part of another frame"),
    ],
)
def test_a_stream_with_a_gap_or_a_repeat_is_found(frames: list[Sync], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        taken(*frames)


def test_a_stream_that_goes_on_or_starts_over_is_right() -> None:
    taken(
        frame(3, 5, (4, 0), (4, 1), (5, 0)),
        frame(5, 5),
        frame(5, 7, (6, 0), more=True),
        frame(5, 7, (6, 1), (7, 0)),
        frame(0, 4, (2, 0), reset="history"),
        frame(4, 5),
    )


def test_what_is_told_and_not_durable_is_found() -> None:
    async def scenario(world: World, alice: Space, bob: Space) -> None:
        tap = Tap(world, States(world, alice.did))
        _, version = await put(alice, X, 1)
        assert tap.violation is None
        (_, told, acknowledged) = tap.acknowledged[-1]
        assert (told.version, acknowledged.version) == (version, version)
        link = world.network["alice"].links[0]
        commit = world.truth.commits(alice.did)[-1]
        verdict = AcceptedVerdict(
            local=Local(1),
            version=version,
            time=commit.time,
            hash=commit.hash,
            request=commit.request,
            hashes=commit.facts,
            salts=(None,),
        )

        def violation(sync: Sync) -> str:
            fresh = Tap(world, States(world, alice.did))
            fresh.sent(link, fresh._codecs[link.client.subprotocol].encode(sync))
            return str(fresh.violation)

        right = Sync(from_=version, to=version, hash=commit.hash, verdicts=(verdict,))
        ahead = Version(version + 1)
        early = msgspec.structs.replace(verdict, version=ahead)
        other = msgspec.structs.replace(verdict, hash=Hash(bytes(32)))
        assert violation(right) == "None"
        assert f"only {version} is durable" in violation(msgspec.structs.replace(right, verdicts=(early,)))
        assert "is not Commit" in violation(msgspec.structs.replace(right, verdicts=(other,)))
        assert "is durable" in violation(Sync(from_=version, to=ahead, hash=commit.hash))
        assert "another hash" in violation(Sync(from_=version, to=version, hash=Hash(bytes(32))))

    in_a_world(scenario)


# ---------------------------------------------------------------- what is durable


def test_a_history_has_every_state_of_every_branch_also_after_an_erasure_and_a_restore() -> None:
    async def scenario(world: World, alice: Space, bob: Space) -> None:
        states = States(world, alice.did)
        _, first = await put(alice, X, 1)
        side = await alice.branch("side", create=True)
        _, second = await put(side, X, 2)
        backup = world.backup()
        await put(alice, X, 3)
        await alice.erase(X, [first])
        await alice.compact(int(states.now.tip))
        assert (states.at("main", first), states.at("side", first)) == ({X: 1}, {X: 1})
        assert (states.head("main"), states.head("side"), states.at("side", second)) == ({X: 3}, {X: 2}, {X: 2})
        assert states.at("main", Version(99)) is None
        assert states.at("other", first) is None
        await world.stop()
        await world.restore(backup)
        states.restored(backup.versions()[alice.did])
        await world.start()
        assert (states.epoch, states.head("main"), states.at("main", Version(second + 1), 0)) == (1, {X: 1}, {X: 3})
        assert states.now.role(world.identity("bob").did, first) == "write"

    in_a_world(scenario)


def test_a_history_with_a_gap_is_found() -> None:
    async def scenario(world: World, alice: Space, bob: Space) -> None:
        await put(alice, X, 1)
        commits = world.truth.commits(alice.did)
        with pytest.raises(AssertionError, match="2 follows 0"):
            History(alice.did).take(commits[1], ())

    in_a_world(scenario)
