"""A server that stops: every commit it took has its verdict first."""

from __future__ import annotations

import asyncio

import pytest

from engines import Held
from service_peers import BOB, put, service_harness
from stemmadb.protocol.wire.messages.commit import Accepted
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
        assert isinstance(bob.verdict(local), Accepted)
        assert bob.wire.closed == 1001
