"""Two apps with the same journal: each notices, takes a new session, and nothing is lost or written twice."""

from __future__ import annotations

import asyncio

import pytest

from session_worlds import App, Stage, staged, staged_in, until
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.protocol.errors import IdentityClash, Overtaken
from stemmadb.server.service.base.settings import ServiceSettings


async def copied(stage: Stage, app: App) -> App:
    """A second app of the same principal, started on a copy of the first one's disk."""
    return await stage.app(app.name, disk=app.disk.copy(), line=f"{app.name}-copy")


@pytest.mark.rule("NURSERY-5", "WIRE-3")
@staged
async def test_an_app_that_was_taken_over_goes_on_in_a_new_session(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    before = app.core.session.id
    other = await copied(stage, app)
    await until(lambda: app.core.session.id != before)
    await app.space.connected()
    assert other.core.session.id == before
    for _ in range(5):
        await app.increment("urn:a")
        await other.increment("urn:a")
    await app.space.settled()
    await other.space.settled()
    assert stage.value("urn:a") == {"n": 10}
    assert not app.space.rejected()
    assert not other.space.rejected()
    assert app.disk.state().session == app.core.session.id


@pytest.mark.rule("NURSERY-5", "COMMIT-5")
@staged
async def test_undecided_commits_of_a_session_taken_over_keep_their_names(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    app.line.offline()
    await app.set("urn:b", 1, blind=True)
    waiting = await app.set("urn:c", 1, blind=True)
    session = app.core.session.id
    other = await copied(stage, app)
    await other.space.settled()
    assert stage.entities() == {"urn:a": {"n": 0}, "urn:b": 1, "urn:c": 1}
    app.line.online()
    await app.space.settled()
    assert waiting.status == "confirmed"
    assert [one.identity.session for one in stage.commits_of("alice")] == [session] * 3  # type: ignore[union-attr]
    assert not app.space.rejected()


@pytest.mark.rule("NURSERY-5", "COMMIT-5")
@staged
async def test_another_commit_under_the_same_name_is_rejected_and_is_written_when_retried(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    app.line.offline()
    other = await copied(stage, app)
    mine = await app.set("urn:mine", 1, blind=True)
    theirs = await other.set("urn:theirs", 1, blind=True)
    await theirs.confirmed()
    before = app.core.session.id
    app.line.online()
    with pytest.raises(IdentityClash):
        await mine.confirmed()
    await until(lambda: app.core.session.id != before)
    again = await app.space.rejected()[0].retry()
    await again.confirmed()
    assert stage.entities() == {"urn:a": {"n": 0}, "urn:mine": 1, "urn:theirs": 1}


@pytest.mark.rule("NURSERY-5", "COMMIT-5")
@staged
async def test_a_commit_that_came_too_late_in_its_session_is_rejected(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    other_disk = app.disk.copy()
    app.line.offline()
    mine = await app.set("urn:mine", 1, blind=True)
    other = await stage.app(disk=other_disk, line="copy")
    other.line.offline()
    await other.set("urn:a", "x")  # refused: bob was faster
    later = await other.set("urn:theirs", 1, blind=True)
    bob = await stage.app("bob")
    await (await bob.set("urn:a", {"n": 5})).confirmed()
    other.line.online()
    await later.confirmed()
    app.line.online()
    with pytest.raises(Overtaken):
        await mine.confirmed()
    again = await app.space.rejected()[0].retry()
    await again.confirmed()
    assert stage.entities() == {"urn:a": {"n": 5}, "urn:mine": 1, "urn:theirs": 1}


@pytest.mark.rule("NURSERY-5")
@staged
async def test_many_commits_that_came_too_late_take_one_new_session(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    app.line.offline()
    other = await copied(stage, app)
    for number in range(50):
        await app.set(f"urn:{number}", 1, blind=True)
    await asyncio.gather(*[(await other.set("urn:theirs", 1, blind=True)).confirmed() for _ in range(50)])
    dials, sessions = app.line.dials, {app.core.session.id}
    app.line.online()
    while app.space.status().pending:
        sessions.add(app.core.session.id)
        await asyncio.sleep(0.001)
    await asyncio.sleep(30)
    assert len(sessions | {app.core.session.id}) == 2
    assert [one.code for one in app.space.rejected()] == ["identity_clash"] * 50
    assert app.line.dials - dials < 5
    assert app.space.status().connection == "open"


@pytest.mark.rule("NURSERY-5", "NURSERY-7", "COMMIT-5")
@pytest.mark.parametrize("seed", range(6))
def test_two_apps_on_copies_of_one_journal_have_each_commit_decided_once(seed: int) -> None:
    @staged_in(seed=seed)
    async def scenario(stage: Stage) -> None:
        first = await stage.app(disk=SimulatedJournal())
        await (await first.set("urn:a", {"n": 0})).confirmed()
        first.line.offline()
        made = [await first.set(f"urn:before:{number}", 1, blind=True) for number in range(3)]
        second = await copied(stage, first)
        both = (first, second)
        for number in range(20):
            made += [await app.set(f"urn:{number}:{app.line.name}", 1, blind=True) for app in both]
            if number % 5 == 3:
                second.line.cut()
            if number == 8:
                await second.space.settled()
                first.line.online()
                await first.space.settled()
            await asyncio.sleep(0.01)
        for app in both:
            await app.space.settled()
        confirmed = [one for one in made if one.status == "confirmed"]
        rejected = [one for one in made if one.status == "rejected"]
        assert len(confirmed) + len(rejected) == len(made)
        assert {one.rejection.code for one in rejected if one.rejection} <= {"identity_clash", "overtaken"}
        versions = [one.version for one in confirmed]
        assert len(versions) == len(set(versions))
        for app in both:
            for refused in app.space.rejected():
                await (await refused.retry()).confirmed()
        assert len(stage.entities()) == 1 + 3 + 40

    scenario()


@pytest.mark.rule("COMMIT-4", "COMMIT-10", "NURSERY-5")
@staged_in(settings=ServiceSettings(commits_per_second=5))
async def test_a_commit_built_on_one_of_an_older_session_is_not_sent_before_that_is_decided(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    async with app.space.watch("urn:a") as watch:
        await watch.next()
        before, old = app.core.session.id, app.disk.copy()
        made = [await app.bump("urn:a") for _ in range(20)]
        await stage.app(disk=old, line="older-copy")
        await until(lambda: app.core.session.id != before)
        assert app.space.status().pending
        made += [await app.bump("urn:a") for _ in range(20)]
        await app.space.settled()
        assert [one.status for one in made] == ["confirmed"] * 40
    assert stage.value("urn:a") == {"n": 40}
    assert len(stage.commits_of("alice")) == 41
