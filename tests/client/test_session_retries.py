"""Refused commits are kept apart, and tried again once, on the current values."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from session_worlds import App, Stage, staged
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.client.transactions import Transaction
from stemmadb.protocol.errors import Conflict, NotInView, StemmaError


async def refused_at(app: App, bob: App) -> Transaction:
    """Bob is faster with one of the two."""
    async with app.space.transaction() as tx:
        for id_ in ("urn:a", "urn:b"):
            found: Any = await tx.get(id_)
            tx.patch(id_, [{"op": "replace", "path": "/n", "value": found["n"] + 1}])
        await (await bob.set("urn:a", {"n": 50})).confirmed()
    with pytest.raises(Conflict):
        await tx.confirmed()
    return tx


@pytest.mark.rule("NURSERY-5", "NURSERY-8")
@staged
async def test_a_retry_reads_what_the_refusal_did_not_bring(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    await (await bob.set("urn:b", {"n": 0})).confirmed()
    await refused_at(app, bob)
    again = await app.space.rejected()[0].retry()
    await again.confirmed()
    assert stage.entities() == {"urn:a": {"n": 1}, "urn:b": {"n": 1}}


@pytest.mark.rule("NURSERY-5")
@staged
async def test_a_retry_is_on_top_of_the_current_values(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    await app.space.get("urn:a")
    async with app.space.transaction() as tx:
        await tx.get("urn:a")
        await (await bob.set("urn:a", {"n": 50})).confirmed()
        tx.patch("urn:a", [{"op": "replace", "path": "/n", "value": 1}])
    with pytest.raises(Conflict):
        await tx.confirmed()
    await (await bob.set("urn:a", {"n": 60})).confirmed()
    await (await app.set("urn:else", 1)).confirmed()
    again = await app.space.rejected()[0].retry()
    await again.confirmed()
    assert stage.value("urn:a") == {"n": 1}


@pytest.mark.rule("RESUME-4")
@staged
async def test_a_retry_after_a_restore_does_not_stand_on_the_history_that_is_gone(stage: Stage) -> None:
    app, bob = await stage.app(disk=SimulatedJournal()), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    backup = stage.world.backup()
    async with app.space.transaction() as tx:
        await tx.get("urn:a")
        await (await bob.set("urn:a", {"n": 50})).confirmed()
        tx.patch("urn:a", [{"op": "replace", "path": "/n", "value": 1}])
    with pytest.raises(Conflict):
        await tx.confirmed()
    await stage.world.restore(backup)
    await asyncio.sleep(30)
    await app.space.connected()
    assert await app.space.get("urn:a") == {"n": 0}
    for number in range(5):
        await (await bob.set(f"urn:x{number}", 1, blind=True)).confirmed()
    app.line.offline()
    await asyncio.sleep(1)
    with pytest.raises(NotInView):
        await app.space.rejected()[0].retry()
    await app.restart()
    with pytest.raises(NotInView):
        await app.space.rejected()[0].retry()
    assert not app.space.pending()
    app.line.online()
    await app.space.connected()
    await (await app.space.rejected()[0].retry()).confirmed()
    assert stage.value("urn:a") == {"n": 1}


@pytest.mark.rule("NURSERY-5")
@staged
async def test_a_refused_commit_that_is_retried_twice_at_once_is_written_once(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    await (await bob.set("urn:b", {"n": 0})).confirmed()
    async with app.space.transaction() as tx:
        await tx.get("urn:b")
        tx.increment("urn:a", "/n")
        await (await bob.set("urn:b", {"n": 50})).confirmed()
    with pytest.raises(Conflict):
        await tx.confirmed()
    (refused,) = app.space.rejected()
    results = await asyncio.gather(refused.retry(), refused.retry(), return_exceptions=True)
    await app.space.settled()
    assert stage.value("urn:a") == {"n": 1}
    assert sum(isinstance(one, StemmaError) for one in results) == 1
    with pytest.raises(StemmaError):
        await refused.retry()
    assert stage.value("urn:a") == {"n": 1}


@pytest.mark.rule("NURSERY-5", "COMMIT-5")
@staged
async def test_the_number_of_a_commit_that_was_refused_at_once_is_not_used_again_after_a_restart(
    stage: Stage,
) -> None:
    app, bob = await stage.app(disk=SimulatedJournal()), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        app.line.offline()
        first = await app.bump("urn:a")
        async with app.space.transaction() as tx:
            await tx.get("urn:a")
            tx.set("urn:fell", 1)
            await (await bob.set("urn:a", {"n": 5})).confirmed()
            app.line.online()
            with pytest.raises(Conflict):
                await first.confirmed()
        assert tx.status == "rejected"
    kept = {one.name for one in app.space.rejected()}
    assert len(kept) == 2
    await app.restart()
    assert {one.name for one in app.space.rejected()} == kept
    await app.set("urn:new", 1)
    (new,) = app.core.session.nursery.pending()
    assert new.name not in kept
