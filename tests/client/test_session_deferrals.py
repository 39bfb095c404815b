"""Commits that the server could not take now stay pending, and are sent again in their order (COMMIT-10)."""

from __future__ import annotations

import asyncio

import pytest

from session_worlds import Stage, staged, staged_in
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.protocol.errors import Conflict
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.storage.port import DiskFull, StorageFailed


@pytest.mark.rule("COMMIT-10", "NURSERY-7")
@pytest.mark.parametrize("error", [StorageFailed, DiskFull])
@pytest.mark.parametrize("written", [False, True])
def test_commits_that_were_deferred_are_confirmed_once_and_in_order(
    error: type[StorageFailed], written: bool
) -> None:
    @staged
    async def scenario(stage: Stage) -> None:
        app = await stage.app()
        await (await app.set("urn:a", {"n": 0})).confirmed()
        stage.world.fail_append(error, times=3, written=written)
        made = []
        for _ in range(20):
            made.append(await app.increment("urn:a"))
            await asyncio.sleep(0.01)
        assert made[-1].status == "pending"
        versions = [await one.confirmed() for one in made]
        assert versions == list(range(3, 23))
        assert stage.value("urn:a") == {"n": 20}
        assert not app.space.rejected()

    scenario()


@pytest.mark.rule("COMMIT-10")
@staged
async def test_a_full_disk_keeps_work_pending_until_there_is_room(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    stage.world.fail_append(DiskFull, times=100_000)
    tx = await app.increment("urn:a")
    await asyncio.sleep(60)
    assert (tx.status, app.space.status().connection) == ("pending", "open")
    assert app.line.dials == 1
    await app.restart()
    await asyncio.sleep(10)
    assert app.space.status().pending == 1
    stage.world.calm()
    await app.space.settled()
    assert stage.value("urn:a") == {"n": 1}


@pytest.mark.rule("COMMIT-10", "NURSERY-3")
@staged
async def test_a_conflict_among_deferred_commits_takes_only_its_dependents(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    await (await bob.set("urn:b", {"n": 0})).confirmed()
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        app.line.offline()
        first = await app.bump("urn:a")
        second = await app.bump("urn:a")
        third = await app.bump("urn:b")
        await (await bob.set("urn:a", {"n": 50})).confirmed()
        stage.world.fail_append(times=2)
        app.line.online()
        with pytest.raises(Conflict):
            await first.confirmed()
        await app.space.settled()
        assert [second.status, third.status] == ["rejected", "confirmed"]
    assert stage.entities() == {"urn:a": {"n": 50}, "urn:b": {"n": 1}}


@pytest.mark.rule("COMMIT-10")
@staged_in(settings=ServiceSettings(commits_per_second=10))
async def test_a_client_that_is_too_fast_is_slowed_down_and_loses_nothing(stage: Stage) -> None:
    app = await stage.app()
    await (await app.set("urn:a", {"n": 0})).confirmed()
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(100):
        await app.increment("urn:a")
    await app.space.settled()
    assert stage.value("urn:a") == {"n": 100}
    assert 5 < loop.time() - began < 60
    assert not app.space.rejected()


@pytest.mark.rule("COMMIT-10", "RESUME-2")
@staged_in(settings=ServiceSettings(commits_per_second=10))
async def test_deferred_commits_survive_reconnects_and_restarts(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    for number in range(60):
        await app.increment("urn:a")
        if number % 20 == 5:
            app.line.cut()
        if number % 20 == 15:
            await app.restart()
            await app.space.connected()
        await asyncio.sleep(0.02)
    await app.space.settled()
    assert stage.value("urn:a") == {"n": 60}
    assert len(stage.commits_of("alice")) == 61


@staged_in(settings=ServiceSettings(requests_per_second=10))
async def test_questions_that_come_too_fast_wait_their_turn(stage: Stage) -> None:
    app = await stage.app()
    await (await app.set("urn:a", {"n": 0})).confirmed()
    answers = await asyncio.gather(*[app.space.get("urn:a") for _ in range(60)])
    assert answers == [{"n": 0}] * 60
