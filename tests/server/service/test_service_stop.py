"""A server that stops: every commit it took has its verdict first. A node that lost all spaces keeps none."""

from __future__ import annotations

import asyncio

import pytest

from engines import Held
from service_peers import ALICE, BOB, put, service_harness
from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict
from stemmadb.server.engine.base.executors import Executors, Inline


@pytest.mark.rule("RESUME-2", "COMMIT-10")
async def test_a_server_that_stops_first_tells_the_verdict_of_what_it_took() -> None:
    writing = Held()
    async with service_harness(workers=Executors(writing, Inline())) as home:
        bob = await home.peer(BOB).open()
        writing.is_held = True
        local = bob.send(put("urn:x", 1))
        await home.settle()
        stopping = asyncio.get_running_loop().create_task(home.service.stop())
        await home.settle()
        was_closed = bob.wire.closed is not None
        writing.release()  # before anything can fail: nobody could leave the harness otherwise
        await stopping
        assert not was_closed
        bob.take()
        assert isinstance(bob.verdict(local), AcceptedVerdict)
        assert bob.wire.closed == 1001


async def test_a_space_that_is_being_opened_for_a_session_when_all_are_lost_is_lost_too() -> None:
    reading = Held()
    async with service_harness(workers=Executors(Inline(), reading)) as home:
        service = home.service
        for hub in tuple(service.hubs.values()):
            service.lose(hub.space.did)
        reading.is_held = True
        entering = asyncio.ensure_future(service.enter_hub(home.space, create=False))
        await home.settle()
        waited = len(reading)
        service.lose_all()
        reading.release()
        with pytest.raises(Unavailable):
            await entering
        assert waited
        assert not service.hubs
        hub = await service.enter_hub(home.space, create=False)
        service.leave_hub(hub)


@pytest.mark.rule("STORE-8", "RESUME-2", "COMMIT-10")
async def test_a_space_is_given_back_once_all_is_decided_and_its_sessions_end_after_that() -> None:
    writing = Held()
    seen: list[tuple[bool, bool]] = []
    async with service_harness(workers=Executors(writing, Inline())) as home:
        bob = await home.peer(BOB).open()
        writing.is_held = True
        local = bob.send(put("urn:x", 1))
        await home.settle()

        async def given_back() -> None:
            bob.take()
            seen.append((isinstance(bob.verdict(local), AcceptedVerdict), bob.wire.closed is not None))

        giving = asyncio.create_task(home.service.give_up([home.space], given_back, lambda: 7))
        await home.settle()
        was_given = bool(seen)
        writing.is_held = False
        writing.release()
        await giving
        assert not was_given
        assert seen == [(True, False)]
        assert bob.wire.closed == 1001
        assert not home.service.open_spaces


@pytest.mark.rule("STORE-8")
async def test_a_session_that_opens_while_its_space_is_given_back_ends_with_the_others() -> None:
    """Its connection was there before the node began to stop; afterwards nothing would come to it any more."""
    writing = Held()
    async with service_harness(workers=Executors(writing, Inline())) as home:
        bob = await home.peer(BOB).open()
        writing.is_held = True
        bob.send(put("urn:x", 1))
        await home.settle()

        async def given_back() -> None: ...

        giving = asyncio.create_task(home.service.give_up([home.space], given_back, lambda: 7))
        await home.settle()
        late = await home.peer(ALICE).open()
        writing.is_held = False
        writing.release()
        await giving
        assert (bob.wire.closed, late.wire.closed) == (1001, 1001)
