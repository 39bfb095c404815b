"""A session that watches nothing of what happens hears of it all the same, a while later."""

from __future__ import annotations

import asyncio

import pytest

from service_peers import ALICE, BOB, put, service_harness
from stemmadb.server.service.base.settings import ServiceSettings


@pytest.mark.rule("SYNC-1")
async def test_a_quiet_session_hears_of_new_versions_soon() -> None:
    async with service_harness(settings=ServiceSettings(quiet_ms=1)) as made:
        quiet, busy = await made.peer(ALICE).open(), await made.peer(BOB).open()
        for number in range(3):
            await busy.commit(put(f"urn:a:{number}", number))
        async with asyncio.timeout(10):
            while quiet.connection.to < busy.connection.to:
                await asyncio.sleep(0.001)
                quiet.take()
        assert all(not frame.commits and not frame.entered for frame in quiet.frames)


@pytest.mark.rule("SYNC-1")
async def test_it_is_one_frame_for_many_commits() -> None:
    async with service_harness(settings=ServiceSettings(quiet_ms=50)) as made:
        quiet, busy = await made.peer(ALICE).open(), await made.peer(BOB).open()
        before = len(quiet.frames)
        for number in range(20):
            await busy.commit(put(f"urn:a:{number}", number))
        told = busy.connection.to
        async with asyncio.timeout(10):
            while quiet.connection.to < told:
                await asyncio.sleep(0.001)
                quiet.take()
        assert len(quiet.frames) - before <= 20
        await asyncio.sleep(0.2)
        quiet.take()
        assert quiet.frames[-1].to == told, "where nothing is written, nothing is told"
