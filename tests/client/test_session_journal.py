"""The session and its journal: what is kept before it is sent or told, and what happens when the disk fails."""

from __future__ import annotations

import asyncio

import pytest

from session_worlds import Stage, staged, until
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.protocol.errors import Dependency, JournalFailed, Unconfirmed

BROKEN = JournalFailed(path="/disk", why="no space left")


@pytest.mark.rule("NURSERY-5")
@staged
async def test_a_write_is_applied_at_once_kept_when_it_is_on_disk_and_sent_only_then(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    app.disk.hold()
    tx = await app.set("urn:a", {"n": 1}, blind=True)
    await tx.applied()
    waiting = asyncio.create_task(tx.journaled())
    await asyncio.sleep(60)
    assert not waiting.done()
    assert stage.entities() == {}
    app.line.offline()
    await asyncio.sleep(1)
    assert await app.space.get("urn:a") == {"n": 1}
    app.line.online()
    await app.space.connected()
    await asyncio.sleep(60)
    assert stage.entities() == {}
    app.disk.release()
    await waiting
    await tx.confirmed()
    assert stage.entities() == {"urn:a": {"n": 1}}


@pytest.mark.rule("NURSERY-5", "NURSERY-7")
@staged
async def test_a_write_that_cannot_be_kept_fails_is_not_sent_and_leaves_the_view(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        app.disk.hold()
        first = await app.bump("urn:a")
        second = await app.bump("urn:a")
        assert (await watch.next()).updated == {"urn:a": {"n": 2}}
        app.disk.fail(BROKEN)
        app.disk.release()
        with pytest.raises(JournalFailed):
            await first.confirmed()
        with pytest.raises(Dependency):
            await second.confirmed()
        with pytest.raises(JournalFailed):
            await first.journaled()
        assert (await watch.next()).updated == {"urn:a": {"n": 0}}
        with pytest.raises(JournalFailed):
            await app.set("urn:b", 1)
        assert isinstance(app.space.status().error, JournalFailed)
        await asyncio.sleep(30)
        assert stage.entities() == {"urn:a": {"n": 0}}
        await app.space.settled()


@pytest.mark.rule("NURSERY-5")
@staged
async def test_reading_goes_on_after_the_disk_has_failed_and_a_restart_heals_it(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    bob = await stage.app("bob")
    app.disk.fail(BROKEN)
    with pytest.raises(JournalFailed):
        await (await app.set("urn:a", 1)).journaled()
    await (await bob.set("urn:b", 1)).confirmed()
    assert await app.space.get("urn:b") == 1
    assert app.space.status().connection == "open"
    await app.restart()
    await (await app.set("urn:a", 1, blind=True)).confirmed()
    assert app.space.status().error is None


@pytest.mark.rule("NURSERY-5", "COMMIT-5")
@staged
async def test_a_confirmation_that_cannot_be_kept_is_true_all_the_same(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    app.line.offline()
    tx = await app.set("urn:a", {"n": 1}, blind=True)
    await tx.journaled()
    app.disk.fail(BROKEN)
    app.line.online()
    assert await tx.confirmed() == 2
    await app.restart()
    await app.space.settled()
    assert len(stage.commits_of("alice")) == 1
    assert stage.value("urn:a") == {"n": 1}


@pytest.mark.rule("NURSERY-5")
@staged
async def test_a_rejected_commit_is_on_disk_before_the_app_is_notified(stage: Stage) -> None:
    app, bob = await stage.app(disk=SimulatedJournal()), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    app.line.offline()
    tx = await app.set("urn:a", 1)
    heard: list[str] = []
    app.space.on_rejected(lambda refused: heard.append(refused.code))
    await (await bob.set("urn:a", {"n": 1})).confirmed()
    app.disk.hold()
    app.line.online()
    await until(lambda: app.disk.waiting)
    await asyncio.sleep(30)
    assert (tx.status, heard, app.space.rejected()) == ("pending", [], [])
    app.disk.release()
    assert (tx.status, heard) == ("rejected", ["conflict"])
    assert len(app.disk.state().rejected) == 1
    assert not app.disk.state().pending


@pytest.mark.rule("NURSERY-7")
@staged
async def test_closing_waits_for_what_is_pending(stage: Stage) -> None:
    app = await stage.app()
    for number in range(50):
        await app.set(f"urn:{number}", number)
    await app.database.close()
    assert len(stage.entities()) == 50


@pytest.mark.rule("NURSERY-7")
@staged
async def test_closing_without_a_journal_and_a_server_reports_what_is_undecided(stage: Stage) -> None:
    app = await stage.app()
    app.line.offline()
    await asyncio.sleep(1)
    first = await app.set("urn:a", 1, blind=True)
    await app.set("urn:b", 1, blind=True)
    waiting = asyncio.create_task(first.confirmed())
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(Unconfirmed) as told:
        await app.database.close()
    assert told.value.facts["count"] == 2
    assert loop.time() - began <= app.settings.close_seconds + 0.1
    with pytest.raises(Exception, match="closed"):
        await waiting
    assert app.space.status().connection == "closed"


@pytest.mark.rule("NURSERY-7")
@staged
async def test_closing_right_after_a_cut_still_waits_for_the_verdict(stage: Stage) -> None:
    app = await stage.app()
    await app.set("urn:a", 1, blind=True)
    app.line.cut()
    await asyncio.sleep(0.03)
    await app.database.close()
    assert stage.entities() == {"urn:a": 1}


@pytest.mark.rule("NURSERY-5", "NURSERY-7")
@staged
async def test_closing_with_a_journal_offline_is_quick_and_quiet_and_the_next_life_goes_on(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    app.line.offline()
    await asyncio.sleep(1)
    await app.set("urn:a", 1, blind=True)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await app.database.close()
    assert loop.time() - began < 0.1
    app.line.online()
    await app.start()
    await app.space.settled()
    assert stage.entities() == {"urn:a": 1}


@pytest.mark.rule("NURSERY-7")
@staged
async def test_a_closed_client_gives_up_waiting_in_bounded_time_when_the_server_is_silent(stage: Stage) -> None:
    app = await stage.app()
    app.line.half_open()
    await app.set("urn:a", 1, blind=True)
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(Unconfirmed):
        await app.database.close()
    assert loop.time() - began == pytest.approx(app.settings.close_seconds, abs=0.1)
