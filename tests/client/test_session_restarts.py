"""An app that starts again goes on where it stopped, with a server or without one (NURSERY-5)."""

from __future__ import annotations

import pytest

from session_worlds import Stage, staged
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.protocol.errors import Conflict, Dependency, NotInView, Unreachable


@pytest.mark.rule("NURSERY-5")
@staged
async def test_a_restarted_app_shows_its_pending_patches_without_a_server(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0, "title": "x"})).confirmed()
    await (await app.set("urn:b", {"n": 0})).confirmed()
    async with app.space.watch("urn:a") as watch:
        await watch.next()
        app.line.offline()
        await app.increment("urn:a")
        await app.increment("urn:a")
        await app.set("urn:c", {"n": 9}, blind=True)
        await app.restart()
    assert app.space.status().connection == "offline"
    assert await app.space.get("urn:a") == {"n": 2, "title": "x"}
    assert await app.space.get("urn:c") == {"n": 9}
    assert [(one.ids, one.is_journaled, one.applies) for one in app.space.pending()] == [
        (("urn:a",), True, True),
        (("urn:a",), True, True),
        (("urn:c",), True, True),
    ]
    app.line.online()
    await app.space.settled()
    assert stage.entities() == {"urn:a": {"n": 2, "title": "x"}, "urn:b": {"n": 0}, "urn:c": {"n": 9}}


@pytest.mark.rule("NURSERY-5")
@staged
async def test_an_app_goes_on_writing_on_what_it_wrote_before_its_restart(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    app.line.offline()
    await app.set("urn:a", {"n": 0}, blind=True)
    await app.restart()
    for _ in range(3):
        await app.bump("urn:a")
        await app.restart()
    assert await app.space.get("urn:a") == {"n": 3}
    assert app.space.status().pending == 4
    app.line.online()
    await app.space.settled()
    assert stage.value("urn:a") == {"n": 3}
    assert len(stage.commits_of("alice")) == 4


@pytest.mark.rule("NURSERY-5")
@staged
async def test_a_commit_of_an_earlier_life_can_be_awaited(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    bob = await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    async with app.space.watch("urn:a") as watch:
        await watch.next()
        app.line.offline()
        await app.bump("urn:a")
        await app.bump("urn:a")
        await app.set("urn:b", {"n": 1}, blind=True)
    await (await bob.set("urn:a", {"n": 100})).confirmed()
    await app.restart()
    first, second, third = app.space.pending()
    app.line.online()
    with pytest.raises(Conflict):
        await first.confirmed()
    with pytest.raises(Dependency):
        await second.confirmed()
    assert await third.confirmed() == 4
    assert app.space.pending() == []


@pytest.mark.rule("NURSERY-5", "NURSERY-7")
@staged
async def test_rejected_commits_survive_restarts_and_can_be_retried(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    bob = await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    app.line.offline()
    tx = await app.set("urn:a", {"n": 1})
    await (await bob.set("urn:a", {"n": 100, "by": "bob"})).confirmed()
    app.line.online()
    with pytest.raises(Conflict):
        await tx.confirmed()
    await app.restart()
    (refused,) = app.space.rejected()
    assert (refused.code, refused.operations) == ("conflict", [{"op": "set", "id": "urn:a", "value": {"n": 1}}])
    assert refused.current == {"urn:a": {"n": 100, "by": "bob"}}
    assert refused.stale[0].author == stage.world.identity("bob").did
    again = await refused.retry()
    await again.confirmed()
    assert stage.value("urn:a") == {"n": 1}
    await app.restart()
    assert not app.space.rejected()


@pytest.mark.rule("NURSERY-5")
@staged
async def test_a_refused_commit_that_was_dropped_stays_dropped(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    app.line.offline()
    tx = await app.set("urn:a", {"n": 1})
    bob = await stage.app("bob")
    await (await bob.set("urn:a", {"n": 2})).confirmed()
    app.line.online()
    with pytest.raises(Conflict):
        await tx.confirmed()
    app.space.rejected()[0].drop()
    assert not app.space.rejected()
    await app.restart()
    assert not app.space.rejected()


@pytest.mark.rule("NURSERY-5")
@staged
async def test_a_space_that_was_opened_once_is_opened_without_a_server(stage: Stage) -> None:
    disk = SimulatedJournal()
    app = await stage.app(disk=disk)
    await app.kill()
    app.line.offline()
    await app.start()
    assert app.space.status().connection == "offline"
    tx = await app.set("urn:a", {"n": 1}, blind=True)
    await tx.journaled()
    app.line.online()
    await tx.confirmed()
    app.line.offline()
    with pytest.raises(Unreachable):
        await stage.app("bob", line="alice", disk=SimulatedJournal())


@pytest.mark.rule("NURSERY-8")
@staged
async def test_after_a_restart_without_a_server_only_what_pending_work_lies_on_is_in_view(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    app.line.offline()
    await app.restart()
    with pytest.raises(NotInView):
        await app.increment("urn:a")
    assert app.space.pending() == []


@pytest.mark.rule("COMMIT-5")
@staged
async def test_numbers_of_commits_are_never_used_twice_over_restarts(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    for _ in range(4):
        await app.restart()
        await (await app.increment("urn:a")).confirmed()
    assert stage.value("urn:a") == {"n": 4}
    assert len({one.identity for one in stage.commits_of("alice")}) == 5


@pytest.mark.rule("NURSERY-5", "NURSERY-3")
@staged
async def test_a_commit_made_on_one_that_is_decided_after_the_restart_is_accepted_with_it(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    async with app.space.watch("urn:a") as watch:
        await watch.next()
        app.line.offline()
        await app.bump("urn:a")
        await app.restart()
    app.line.online()
    await app.space.connected()
    await app.bump("urn:a")
    assert await app.space.get("urn:a") == {"n": 2}
    await app.space.settled()
    assert stage.value("urn:a") == {"n": 2}
