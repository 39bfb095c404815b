"""Sessions in rare moments: revoked, expired, stopped or lost while something is under way; a queue that is full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import pytest

from engines import turns
from service_peers import ALICE, BOB, CAROL, SPACE, Key, Peer, put, service_harness
from stemmadb.protocol import errors
from stemmadb.protocol.model.access import delegation
from stemmadb.protocol.model.access.delegation import Delegation
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.protocol.wire.connection.client_side import SessionPosition
from stemmadb.protocol.wire.messages.reading import WatchRequest
from stemmadb.protocol.wire.messages.session import HeldWatch
from stemmadb.server.engine.base.executors import Executors, Inline
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.service.session.read_throttle import PauseReason
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import StorageFailed

EVERYTHING = Query(roots=(Root("urn:*"),))
T = TypeVar("T")


class Gated(Inline):
    """Workers that begin nothing while the gate is closed."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, work: Callable[[], T]) -> T:
        await self.gate.wait()
        return work()


def knock(peer: Peer, **standing: object) -> None:
    """Sends `session.open` and waits for nothing."""
    peer.take()
    said = SessionPosition(**standing)  # type: ignore[arg-type]
    peer.give(peer.connection.open(principal=peer.key.did, session=peer.session, sign=peer.key.sign, standing=said))


@pytest.mark.rule("ACL-2")
async def test_a_reader_that_is_revoked_while_its_watch_is_evaluated_is_told_nothing() -> None:
    reading = Gated()
    async with service_harness(workers=Executors(Inline(), reading)) as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        reading.gate.clear()
        request = WatchRequest(id=carol.connection.next_id(), watch=1, query=EVERYTHING)
        carol.give(carol.connection.request(request))
        await home.settle()
        alice.send(put(home.space, {ALICE.did: "own"}))
        await home.settle()
        reading.gate.set()
        await home.settle()
        await alice.commit(put("urn:x", "secret"))
        assert [type(error) for error in carol.answers(request)] == [errors.Forbidden]
        assert not any(frame.entered or frame.commits for frame in carol.frames)


@pytest.mark.rule("ACL-4")
async def test_a_delegation_that_ends_while_its_session_opens_delegates_nothing() -> None:
    reading, dave = Gated(), Key("dave")
    async with service_harness(workers=Executors(Inline(), reading)) as home:
        delegated = Delegation(
            issuer=ALICE.did,
            audience=dave.did,
            space=home.space,
            role="read",
            prefixes=("urn:",),
            not_before=TimeMs(home.clock.now),
            expires=TimeMs(home.clock.now + 1_000),
            nonce=bytes(16),
        )
        alice, peer = await home.peer(ALICE).open(), home.peer(dave)
        reading.gate.clear()
        knock(peer, delegations=(delegation.issue(delegated, ALICE.sign),))
        await home.settle()
        home.clock.now += 1_000
        reading.gate.set()
        await home.settle()
        with suppress(errors.StemmaError, AssertionError):  # refused, or the session is over
            await peer.watch(1, "urn:*")
        await alice.commit(put("urn:x", "secret"))
        assert not any(frame.entered for frame in peer.frames)


@pytest.mark.rule("ACL-1", "RESUME-1")
async def test_one_who_comes_back_without_rights_is_told_that_its_watches_are_over() -> None:
    async with service_harness() as home:
        alice, bob = await home.peer(ALICE).open(), await home.peer(BOB, session=b"b" * 16).open()
        await bob.commit(put("urn:x", 1))
        await bob.watch(1, "urn:*")
        to, hash_ = bob.connection.to, bob.connection.hash
        bob.lose()
        await alice.commit(put(home.space, {ALICE.did: "own"}))
        held = HeldWatch(watch=1, query=EVERYTHING, filled=True)
        again = await home.peer(BOB, session=b"b" * 16).open(to=to, hash=hash_, watches=(held,))
        assert [(one.watch, one.code) for frame in again.frames for one in frame.ended] == [(1, "forbidden")]


async def test_two_watches_of_one_number_in_an_opening_leave_nothing_behind() -> None:
    async with service_harness() as home:
        await home.peer(ALICE).open()
        counts = home.service.hubs[home.space].counts
        twice = tuple(HeldWatch(watch=1, query=Query(roots=(Root(id_),))) for id_ in ("urn:a", "urn:b"))
        carol = await home.peer(CAROL).open(watches=twice)
        if not carol.is_lost:
            carol.lose()
        assert counts.watches == 0


async def test_a_hub_that_no_session_entered_after_all_closes() -> None:
    async with service_harness(bare=True, settings=ServiceSettings(hub_idle_ms=1)) as home:
        peer = home.peer(SPACE)
        knock(peer)
        await turns(2)
        peer.lose()
        await home.settle()
        await asyncio.sleep(0.05)
        assert not home.service.hubs


async def test_a_hub_that_is_opened_while_the_server_stops_closes_too() -> None:
    reading = Gated()
    async with service_harness(workers=Executors(Inline(), reading), bare=True) as home:
        reading.gate.clear()
        knock(home.peer(SPACE))
        await home.settle()
        await home.service.stop()
        reading.gate.set()
        await home.settle()
        assert not home.service.hubs


@pytest.mark.rule("COMMIT-10")
async def test_a_session_that_waits_for_capacity_is_read_again_also_if_the_queue_empties_without_a_verdict() -> None:
    def fail(operation: str) -> None:
        if is_armed and operation == "append":
            raise StorageFailed

    is_armed = False
    async with service_harness(storage=MemoryStorage(fail)) as home:
        alice = await home.peer(ALICE).open()
        hub, session = home.service.hubs[home.space], home.service.sessions
        is_armed = True
        alice.send(put("urn:x", 1))
        (mine,) = [one for one in session if one.connection is alice.handler.connection]
        mine._throttle.pause(PauseReason.FULL)  # as if the queue were full behind it
        hub.wait(mine)
        await home.settle(3)
        assert [one.local for one in alice.deferred] == [1]
        assert not alice.wire.is_paused
