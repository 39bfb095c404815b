"""A server that does not let us in: the app is told, what is pending is kept, and it works again when it may."""

from __future__ import annotations

import asyncio

import pytest

from session_worlds import App, Stage, staged, until
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.client.reading.access import Grant
from stemmadb.protocol.errors import Forbidden, NotInView, UnknownSpace
from stemmadb.protocol.model.values.ids import Did


async def give(stage: Stage, who: str, role: Grant | None) -> None:
    owner = await stage.app("alice", line="owner")
    did = stage.world.identity(who).did
    if role is None:
        await owner.space.acl.remove(did)
    else:
        await owner.space.acl.set(did, role)
    await owner.close()


async def shut_out(stage: Stage, app: App) -> None:
    """Takes its rights away, and its connection: the next one is refused."""
    await give(stage, app.name, None)
    app.line.cut()
    await until(lambda: app.space.status().connection == "refused")


@staged
async def test_a_stranger_is_told_at_once_and_not_whether_there_is_such_a_space(stage: Stage) -> None:
    with pytest.raises(UnknownSpace):
        await stage.app("dora")


@staged
async def test_a_space_that_is_not_there_is_told_at_once(stage: Stage) -> None:
    stage.did = Did(stage.world.identity("nobody").did)
    with pytest.raises(UnknownSpace):
        await stage.app("alice")


@pytest.mark.rule("NURSERY-7")
@staged
async def test_who_is_revoked_while_connected_keeps_what_is_pending_and_goes_on_when_let_in_again(
    stage: Stage,
) -> None:
    app = await stage.app("bob", disk=SimulatedJournal())
    await shut_out(stage, app)
    assert isinstance(app.space.status().error, UnknownSpace)
    tx = await app.set("urn:b", {"n": 1}, blind=True)
    await asyncio.sleep(30)
    assert (tx.status, app.space.status().pending) == ("pending", 1)
    await give(stage, "bob", "write")
    assert await until(lambda: tx.status == "confirmed") < 30
    assert stage.entities() == {"urn:b": {"n": 1}}


@staged
async def test_while_refused_questions_fail_at_once_with_the_reason(stage: Stage) -> None:
    app = await stage.app("bob")
    await shut_out(stage, app)
    loop = asyncio.get_running_loop()
    for _ in range(3):
        began = loop.time()
        with pytest.raises(UnknownSpace):
            await app.space.get("urn:a")
        with pytest.raises(NotInView):
            await app.increment("urn:a")
        assert loop.time() - began < 0.1
        await asyncio.sleep(20)
    await give(stage, "bob", "read")
    app.space.nudge()
    await app.space.connected()
    assert await app.space.get("urn:a") is None


@staged
async def test_a_question_that_waits_when_access_is_taken_away_fails_with_the_reason(stage: Stage) -> None:
    app = await stage.app("bob")
    app.line.offline()
    asking = asyncio.create_task(app.space.at(version=1).get("urn:a"))
    await asyncio.sleep(0.1)
    await give(stage, "bob", None)
    app.line.online()
    with pytest.raises(UnknownSpace):
        await asking


@pytest.mark.rule("NURSERY-7")
@staged
async def test_who_may_no_longer_write_is_refused_its_commits_and_goes_on_reading(stage: Stage) -> None:
    app = await stage.app("bob")
    await (await app.set("urn:a", {"n": 0})).confirmed()
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        app.line.offline()
        tx = await app.increment("urn:a")
        assert (await watch.next()).updated == {"urn:a": {"n": 1}}
        await give(stage, "bob", "read")
        app.line.online()
        with pytest.raises(Forbidden):
            await tx.confirmed()
        assert (await watch.next()).updated == {"urn:a": {"n": 0}}
        assert app.space.status().connection == "open"


@staged
async def test_who_is_revoked_while_connected_has_its_watches_ended_and_its_commits_refused(stage: Stage) -> None:
    app = await stage.app("bob")
    watch = app.space.watch("urn:*")
    await watch.next()
    await give(stage, "bob", None)
    with pytest.raises(Forbidden):
        await watch.next()
    with pytest.raises(Forbidden):
        await (await app.set("urn:a", 1, blind=True)).confirmed()
    with pytest.raises(Forbidden):
        await app.space.get("urn:a")
    await give(stage, "bob", "write")
    await (await app.space.rejected()[0].retry()).confirmed()
    assert stage.entities() == {"urn:a": 1}


@staged
async def test_a_watch_that_was_offline_while_its_reader_was_shut_out_goes_on_when_let_in_again(stage: Stage) -> None:
    app = await stage.app("bob")
    watch = app.space.watch("urn:*")
    await watch.next()
    app.line.offline()
    await give(stage, "bob", None)
    app.line.online()
    await until(lambda: app.space.status().connection == "refused")
    owner = await stage.app("alice", line="writer")
    await (await owner.set("urn:a", 1)).confirmed()
    await give(stage, "bob", "read")
    assert (await watch.next()).entered == {"urn:a": 1}
    watch.close()


@pytest.mark.rule("NURSERY-5")
@staged
async def test_an_app_that_starts_while_it_is_not_let_in_is_told_and_its_journal_is_untouched(stage: Stage) -> None:
    app = await stage.app("bob", disk=SimulatedJournal())
    app.line.offline()
    await app.set("urn:a", 1, blind=True)
    await app.kill()
    await give(stage, "bob", None)
    app.line.online()
    with pytest.raises(UnknownSpace):
        await app.start()
    assert len(app.disk.state().pending) == 1
    await give(stage, "bob", "write")
    await app.start()
    await app.space.settled()
    assert stage.entities() == {"urn:a": 1}
