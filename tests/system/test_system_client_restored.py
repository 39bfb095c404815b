"""A server that was restored from a backup: clients say what was lost, and never mix two histories."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from client_app import COUNT
from client_processes import Server, running, until
from client_proxy import Proxy
from client_stage import QUICK, settings_of
from command_line import here
from stemmadb.client import Conflict, Space, connect
from stemmadb.client.journal.port import ConfirmedCommit

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with running(tmp_path) as made:
        yield made


async def increment(space: Space, times: int) -> None:
    for _ in range(times):
        async with space.transaction() as tx:
            tx.increment(COUNT, "/n")
        await tx.confirmed()


async def restore(server: Server, backup: Path) -> None:
    """As an operator does it: stop, put the backup in place of the data, start."""
    assert await server.stop() == 0
    shutil.rmtree(server.data)
    assert here("restore", "--data", server.data, backup).code == 0
    await server.start()


@pytest.mark.rule("RESUME-4")
async def test_what_a_restored_server_lost_is_reported_and_what_is_undecided_is_rejected(
    server: Server, tmp_path: Path
) -> None:
    reported: list[ConfirmedCommit] = []
    async with (
        Proxy(server.address) as line,
        connect(
            line.url, config=tmp_path / "config", journal=tmp_path / "journal", settings=settings_of(QUICK)
        ) as db,
    ):
        space = await db.space("restored")
        space.on_lost(reported.append)
        async with space.transaction() as tx:
            tx.set(COUNT, {"n": 0})
        await tx.confirmed()
        async with space.watch("urn:*") as changes:
            await changes.next()
            await increment(space, 3)
            assert here("backup", "--data", server.data, tmp_path / "backup").code == 0
            await increment(space, 4)
            line.up.hold()
            async with space.transaction() as undecided:
                undecided.increment(COUNT, "/n")
            await undecided.journaled()
            assert await space.get(COUNT) == {"n": 8}
            await restore(server, tmp_path / "backup")
            line.up.release()
            line.cut()
            with pytest.raises(Conflict):
                await undecided.confirmed()
            await until(lambda: space.status().lost)
            assert space.status().lost == 4
            assert [one.version for one in reported] == [6, 7, 8, 9]
            assert await space.get(COUNT) == {"n": 3}
            (refused,) = space.rejected()
            await (await refused.retry()).confirmed()
            assert await space.get(COUNT) == {"n": 4}
    assert here("verify", "--data", server.data).code == 0


@pytest.mark.rule("RESUME-4", "NURSERY-5")
async def test_an_app_that_was_not_running_learns_when_it_starts_what_each_restore_lost(
    server: Server, tmp_path: Path
) -> None:
    config, journal, settings = tmp_path / "config", tmp_path / "journal", settings_of(QUICK)
    async with connect(server.url, config=config, journal=journal, settings=settings) as db:
        space = await db.space("restored")
        async with space.transaction() as tx:
            tx.set(COUNT, {"n": 0})
        await tx.confirmed()
        assert here("backup", "--data", server.data, tmp_path / "backup").code == 0
        await increment(space, 2)
    await restore(server, tmp_path / "backup")
    async with connect(server.url, config=config, journal=journal, settings=settings) as db:
        space = await db.space("restored")
        await until(lambda: space.status().lost == 2)
        await increment(space, 1)
        assert await space.get(COUNT) == {"n": 1}
    await restore(server, tmp_path / "backup")
    async with connect(server.url, config=config, journal=journal, settings=settings) as db:
        space = await db.space("restored")
        await until(lambda: space.status().lost)
        assert (space.status().lost, await space.get(COUNT)) == (1, {"n": 0})
