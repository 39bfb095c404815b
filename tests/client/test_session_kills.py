"""Kill -9 of the app, of the server and of both, at every step of a commit: it is written once or never."""

from __future__ import annotations

import asyncio

import pytest

from session_worlds import Stage, staged, until
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.client.testing import Towards


@pytest.mark.rule("NURSERY-5", "NURSERY-7")
@staged
async def test_an_app_killed_before_its_write_was_kept_has_lost_it_and_never_called_it_kept(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    app.disk.hold()
    tx = await app.set("urn:b", {"n": 1})
    waiting = asyncio.create_task(tx.journaled())
    await asyncio.sleep(60)
    assert (tx.status, waiting.done()) == ("pending", False)
    await app.restart()
    await app.space.connected()
    await asyncio.sleep(60)
    assert not waiting.done()
    assert app.space.pending() == []
    assert stage.entities() == {"urn:a": {"n": 0}}
    waiting.cancel()


@pytest.mark.rule("NURSERY-5", "RESUME-2")
@staged
async def test_an_app_killed_between_keep_and_send_sends_its_write_when_it_starts_again(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    app.line.offline()
    tx = await app.set("urn:a", {"n": 1}, blind=True)
    await tx.journaled()
    assert stage.entities() == {}
    await app.kill()
    app.line.online()
    await app.start()
    await app.space.settled()
    assert stage.entities() == {"urn:a": {"n": 1}}
    assert len(stage.commits_of("alice")) == 1


@pytest.mark.rule("COMMIT-5", "RESUME-2")
@pytest.mark.parametrize("after", [0.0, 0.002, 0.006, 0.01, 0.014, 0.02, 0.03])
def test_an_app_killed_at_any_moment_after_it_sent_has_its_write_once(after: float) -> None:
    @staged
    async def scenario(stage: Stage) -> None:
        app = await stage.app(disk=SimulatedJournal())
        await (await app.set("urn:a", {"n": 0})).confirmed()
        for _ in range(3):
            await app.increment("urn:a")
        await asyncio.sleep(after)
        await app.restart()
        await app.space.settled()
        assert stage.value("urn:a") == {"n": 3}
        assert len(stage.commits_of("alice")) == 4

    scenario()


@pytest.mark.rule("COMMIT-5", "COMMIT-10", "RESUME-3")
@staged
async def test_a_server_killed_between_append_and_answer_gives_the_same_verdict_afterwards(stage: Stage) -> None:
    app = await stage.app()
    await (await app.set("urn:a", {"n": 0})).confirmed()
    stage.world.crash_after_append(down=3)
    tx = await app.increment("urn:a")
    await stage.world.crashed()
    assert tx.status == "pending"
    assert await tx.confirmed() == 3
    assert stage.value("urn:a") == {"n": 1}


@pytest.mark.rule("COMMIT-10", "RESUME-2")
@staged
async def test_a_server_killed_before_its_append_decides_the_commit_anew(stage: Stage) -> None:
    app = await stage.app()
    await (await app.set("urn:a", {"n": 0})).confirmed()
    stage.world.crash_before_append(down=3)
    tx = await app.increment("urn:a")
    await stage.world.crashed()
    assert stage.value("urn:a") == {"n": 0}
    assert await tx.confirmed() == 3
    assert stage.value("urn:a") == {"n": 1}


@pytest.mark.rule("COMMIT-5", "RESUME-2")
@pytest.mark.parametrize("is_after", [True, False])
def test_app_and_server_killed_together_several_times_write_each_commit_once(is_after: bool) -> None:
    @staged
    async def scenario(stage: Stage) -> None:
        app = await stage.app(disk=SimulatedJournal())
        await (await app.set("urn:a", {"n": 0})).confirmed()
        for made in range(1, 6):
            if is_after:
                stage.world.crash_after_append(down=1)
            else:
                stage.world.crash_before_append(down=1)
            tx = await app.increment("urn:a")
            await tx.journaled()
            await stage.world.crashed()
            await app.restart()
            assert [one.ids for one in app.space.pending()] == [("urn:a",)]
            await app.space.settled()
            assert stage.value("urn:a") == {"n": made}

    scenario()


@pytest.mark.rule("COMMIT-5", "SYNC-2")
@staged
async def test_a_verdict_that_is_lost_on_the_wire_again_and_again_is_told_once(stage: Stage) -> None:
    app = await stage.app()
    await (await app.set("urn:a", {"n": 0})).confirmed()
    for made in range(1, 6):
        app.line.drop_after(0)
        tx = await app.increment("urn:a")
        await until(lambda made=made: stage.value("urn:a") == {"n": made})  # type: ignore[misc]
        assert tx.status == "pending"
        assert await tx.confirmed() == 2 + made
    assert len(stage.commits_of("alice")) == 6


@pytest.mark.rule("RESUME-2")
@staged
async def test_a_commit_that_is_lost_on_its_way_up_is_sent_again(stage: Stage) -> None:
    app = await stage.app()
    app.line.drop_after(0, towards=Towards.SERVER)
    tx = await app.set("urn:a", {"n": 1})
    assert await tx.confirmed() == 2
    assert app.line.traffic[Towards.SERVER].lost >= 1


@pytest.mark.rule("NURSERY-5")
@staged
async def test_a_verdict_is_on_disk_before_anyone_is_told(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    app.line.offline()
    tx = await app.set("urn:a", {"n": 1}, blind=True)
    waiting = asyncio.create_task(tx.confirmed())
    app.disk.hold()
    app.line.online()
    await until(lambda: app.disk.waiting)
    await asyncio.sleep(60)
    assert stage.value("urn:a") == {"n": 1}
    assert (tx.status, waiting.done(), app.space.status().pending) == ("pending", False, 1)
    app.disk.release()
    assert await waiting == 2
    assert [one.version for one in app.disk.state().confirmed] == [2]


@pytest.mark.rule("NURSERY-5", "COMMIT-5")
@staged
async def test_an_app_killed_before_a_verdict_was_on_disk_is_told_the_same_in_its_next_life(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    app.line.offline()
    await (await app.set("urn:a", {"n": 0}, blind=True)).journaled()
    app.disk.hold()
    app.line.online()
    await until(lambda: app.disk.waiting)
    await app.kill()
    app.line.offline()
    await app.start()
    (restored,) = app.space.pending()
    app.line.online()
    assert await restored.confirmed() == 2
    assert len(stage.commits_of("alice")) == 1
