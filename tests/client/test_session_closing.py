"""Closing, cancelling and going on after the end leave nothing behind and nobody waiting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from session_worlds import Stage, staged
from stemmadb.client import connect
from stemmadb.client.database import Database
from stemmadb.client.journal.memory import MemoryJournal, SimulatedJournal
from stemmadb.client.journal.port import Journal
from stemmadb.client.session.settings import DEFAULT_SETTINGS
from stemmadb.client.testing.line import URL
from stemmadb.protocol.errors import Conflict, GoingAway, StemmaError, TimedOut, Unconfirmed, Unreachable
from stemmadb.protocol.model.values.ids import Did


class Counted(MemoryJournal):
    """A journal that says whether it was let go."""

    def __init__(self) -> None:
        self.is_open = True

    async def close(self) -> None:
        self.is_open = False


def database(stage: Stage, made: list[Counted]) -> Database:
    """A client of alice whose journals are counted."""

    def journal(_space: Did, _principal: Did) -> Journal:
        made.append(Counted())
        return made[-1]

    world = stage.world
    return connect(
        URL,
        dial=world.dial("alice"),
        identity=world.identity("alice"),
        names=world.names,
        keys=world.keys,
        random=world.random("alice"),
        now=world.clock,
        journal=journal,
    )


def links(tasks: set[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    """Those among the tasks that keep a space connected."""
    return [one for one in tasks if "Link.run" in repr(one.get_coro())]


@pytest.mark.rule("NURSERY-7")
@pytest.mark.parametrize("has_journal", [False, True])
def test_a_closed_space_takes_no_commit_and_says_so(has_journal: bool) -> None:
    @staged
    async def scenario(stage: Stage) -> None:
        app = await stage.app(disk=SimulatedJournal() if has_journal else None)
        await app.close()
        with pytest.raises(GoingAway):
            await app.set("urn:a", 1)
        assert app.space.status().pending == 0

    scenario()


@staged
async def test_a_question_to_a_closed_space_fails_at_once(stage: Stage) -> None:
    app = await stage.app()
    await app.close()
    began = asyncio.get_running_loop().time()
    with pytest.raises(GoingAway):
        await app.space.get("urn:a")
    assert asyncio.get_running_loop().time() - began < 1


@staged
async def test_whoever_waits_for_a_connection_is_told_when_the_client_is_closed(stage: Stage) -> None:
    app = await stage.app()
    app.line.offline()
    await asyncio.sleep(1)
    waiting = asyncio.create_task(app.space.connected())
    await asyncio.sleep(1)
    await app.close()
    async with asyncio.timeout(60):
        with pytest.raises(StemmaError):
            await waiting
        with pytest.raises(StemmaError):
            await app.space.connected()


@staged
async def test_what_was_pending_can_be_looked_at_after_the_end(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    app.line.offline()
    await app.set("urn:a", 1, blind=True)
    await app.close()
    assert len(app.space.pending()) == app.space.status().pending


@staged
async def test_opening_a_space_that_is_given_up_leaves_nothing_behind(stage: Stage) -> None:
    made: list[Counted] = []
    db = database(stage, made)
    stage.world.network["alice"].offline(silent=True)
    before = asyncio.all_tasks()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await db.space(stage.did)
    assert not links(asyncio.all_tasks() - before)
    assert [one.is_open for one in made] == [False]


@staged
async def test_closing_a_client_ends_a_space_that_is_being_opened(stage: Stage) -> None:
    made: list[Counted] = []
    db = database(stage, made)
    stage.world.network["alice"].offline(silent=True)
    before = asyncio.all_tasks()
    opening = asyncio.create_task(db.space(stage.did))
    await asyncio.sleep(1)
    await db.close()
    assert opening.done()
    with pytest.raises(GoingAway):
        await opening
    assert not links(asyncio.all_tasks() - before)
    assert [one.is_open for one in made] == [False]


@staged
async def test_closing_that_is_cancelled_lets_everything_go(stage: Stage) -> None:
    made: list[Counted] = []
    db = database(stage, made)
    before = asyncio.all_tasks()
    space = await db.space(stage.did)
    stage.world.network["alice"].offline()
    async with space.transaction() as tx:
        tx.set("urn:a", 1, blind=True)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await db.close(wait_seconds=100)
    assert not links(asyncio.all_tasks() - before)
    assert [one.is_open for one in made] == [False]


@staged
async def test_making_a_space_fails_in_bounded_time_when_the_server_falls_silent(stage: Stage) -> None:
    world = stage.world
    db = database(stage, [])
    making = asyncio.create_task(db.space("mine"))
    while world.network["alice"].dials == 0 or not world.network["alice"].links:
        await asyncio.sleep(0.001)
    world.network["alice"].drop_after(2)
    world.fail_append(times=1_000_000)
    async with asyncio.timeout(DEFAULT_SETTINGS.ask_seconds + 30):
        with pytest.raises((Unreachable, TimedOut)):
            await making
    world.calm()
    space = await db.space("mine")
    async with space.transaction() as tx:
        tx.set("urn:a", 1)
    await tx.confirmed()
    await db.close()


@pytest.mark.rule("NURSERY-7")
@staged
async def test_a_rejection_that_somebody_ceased_to_wait_for_is_told_to_the_callback(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    told: list[str] = []
    app.space.on_rejected(lambda one: told.append(one.code))
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        app.line.offline()
        tx = await app.bump("urn:a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await tx.confirmed()
        await (await bob.set("urn:a", {"n": 5})).confirmed()
        app.line.online()
        await app.space.settled()
    assert (tx.status, told) == ("rejected", ["conflict"])


@staged
async def test_closing_a_client_is_prompt_although_several_spaces_wait_to_be_opened(stage: Stage) -> None:
    db = database(stage, [])
    stage.world.network["alice"].offline(silent=True)
    dids = [stage.did, *(stage.world.identity(name).did for name in ("one", "two", "three"))]
    opening = [asyncio.create_task(db.space(did)) for did in dids]
    await asyncio.sleep(1)
    async with asyncio.timeout(1):
        await db.close()
    for one in opening:
        with pytest.raises(GoingAway):
            await one


@pytest.mark.rule("NURSERY-7")
@staged
async def test_who_waits_for_a_commit_that_nothing_keeps_is_not_told_that_it_is_kept(stage: Stage) -> None:
    app = await stage.app()
    app.line.offline()
    tx = await app.set("urn:a", 1, blind=True)
    with pytest.raises(Unconfirmed):
        await app.close()
    with pytest.raises(GoingAway, match="no journal keeps"):
        await tx.confirmed()


@pytest.mark.rule("NURSERY-5")
@staged
async def test_a_refused_commit_is_not_dropped_once_the_journal_is_closed(stage: Stage) -> None:
    app, bob = await stage.app(disk=SimulatedJournal()), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    async with app.space.transaction() as tx:
        await tx.get("urn:a")
        tx.set("urn:a", 1)
        await (await bob.set("urn:a", {"n": 5})).confirmed()
    with pytest.raises(Conflict):
        await tx.confirmed()
    (refused,) = app.space.rejected()
    await app.close()
    with pytest.raises(GoingAway):
        refused.drop()
    assert app.space.rejected() == [refused]
    assert len(app.disk.state().rejected) == 1
