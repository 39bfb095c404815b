"""Stacked commits over a real connection: what falls, what stays, and what is shown meanwhile (NURSERY-3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from session_worlds import App, Stage, staged, staged_in
from stemmadb.client.transactions import Transaction
from stemmadb.protocol.errors import Conflict, Dependency


async def derive(app: App, source: str, target: str) -> Transaction:
    """Writes what it read there, plus one, somewhere else."""
    async with app.space.transaction() as tx:
        found: Any = await tx.get(source)
        tx.set(target, {"n": found["n"] + 1}, blind=True)
    return tx


@pytest.mark.rule("NURSERY-3", "COMMIT-4")
@staged
async def test_a_rejection_takes_three_levels_of_dependents_and_nothing_else(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        app.line.offline()
        first = await app.bump("urn:a")
        second = await derive(app, "urn:a", "urn:b")
        third = await derive(app, "urn:b", "urn:c")
        free = await app.set("urn:d", {"n": 7})
        on_free = await derive(app, "urn:d", "urn:e")
        await (await bob.set("urn:a", {"n": 50})).confirmed()
        assert [await app.space.get(f"urn:{one}") for one in "abcde"] == [{"n": n} for n in (1, 2, 3, 7, 8)]
        app.line.online()
        with pytest.raises(Conflict):
            await first.confirmed()
        for one in (second, third):
            with pytest.raises(Dependency):
                await one.confirmed()
            assert one.rejection is not None
            assert one.rejection.rejected_because_of == first.rejection.name  # type: ignore[union-attr]
        assert [await free.confirmed(), await on_free.confirmed()] == [4, 5]
        assert [await app.space.get(f"urn:{one}") for one in "abcde"] == [{"n": 50}, None, None, {"n": 7}, {"n": 8}]
    assert stage.entities() == {"urn:a": {"n": 50}, "urn:d": {"n": 7}, "urn:e": {"n": 8}}


@pytest.mark.rule("NURSERY-3", "NURSERY-4")
@staged
async def test_a_stacked_rollback_never_shows_a_value_again_that_was_taken_back(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    seen: list[Any] = []
    async with app.space.watch("urn:a") as watch:
        await watch.next()

        async def look() -> None:
            async for change in watch:
                seen.extend(change.updated.values())

        looking = asyncio.create_task(look())
        app.line.offline()
        for number in (1, 2, 3):
            async with app.space.transaction() as tx:
                await tx.get("urn:a")
                tx.set("urn:a", {"mine": number})
            await asyncio.sleep(0)
        await (await bob.set("urn:a", {"n": 50})).confirmed()
        app.line.online()
        await app.space.settled()
        await asyncio.sleep(10)
        looking.cancel()
    assert seen == [{"mine": 1}, {"mine": 2}, {"mine": 3}, {"n": 50}]
    assert [one.code for one in app.space.rejected()] == ["conflict", "dependency", "dependency"]


@pytest.mark.rule("NURSERY-3")
@staged
async def test_removing_the_middle_one_of_three_shows_the_other_two(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:a", {"x": 0, "y": 0, "z": 0})).confirmed()
    async with app.space.watch("urn:a") as watch:
        await watch.next()
        app.line.offline()
        made = []
        for key in ("x", "y", "z"):
            async with app.space.transaction() as tx:
                tx.patch("urn:a", [{"op": "replace", "path": f"/{key}", "value": 1}])
            made.append(tx)
        assert await app.space.get("urn:a") == {"x": 1, "y": 1, "z": 1}
        async with bob.space.transaction() as theirs:
            theirs.patch("urn:a", [{"op": "replace", "path": "/y", "value": 9}])
        await theirs.confirmed()
        app.line.online()
        await app.space.settled()
        assert [one.status for one in made] == ["confirmed", "rejected", "confirmed"]
        assert await app.space.get("urn:a") == {"x": 1, "y": 9, "z": 1}
    assert stage.value("urn:a") == {"x": 1, "y": 9, "z": 1}


@pytest.mark.rule("NURSERY-3", "COMMIT-4")
@pytest.mark.parametrize("seed", range(4))
def test_dependents_that_were_sent_before_the_rejection_came_are_never_confirmed(seed: int) -> None:
    @staged_in(seed=seed)
    async def scenario(stage: Stage) -> None:
        app, bob = await stage.app(), await stage.app("bob")
        await (await bob.set("urn:a", {"n": 0})).confirmed()
        async with app.space.watch("urn:a") as watch:
            await watch.next()
            theirs = await bob.set("urn:a", {"n": 50})
            mine = [await app.bump("urn:a") for _ in range(4)]
            await bob.space.settled()
            await app.space.settled()
            assert {mine[0].status, theirs.status} == {"confirmed", "rejected"}
            for tx in mine[1:]:
                assert tx.status == mine[0].status
            assert await app.space.get("urn:a") == stage.value("urn:a")
        if mine[0].status == "rejected":
            assert len(stage.commits_of("alice")) == 0

    scenario()


@pytest.mark.rule("NURSERY-3", "RESUME-2", "COMMIT-5")
@staged
async def test_a_cascade_over_a_lost_verdict_and_a_reconnect_is_the_same(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        app.line.offline()
        first = await app.bump("urn:a")
        second = await derive(app, "urn:a", "urn:b")
        free = await app.set("urn:d", {"n": 7})
        await (await bob.set("urn:a", {"n": 50})).confirmed()
        app.line.drop_after(2)  # hello and the first frame come, the verdicts do not
        app.line.online()
        third = await derive(app, "urn:b", "urn:c")
        await app.space.settled()
        assert [one.status for one in (first, second, third)] == ["rejected"] * 3
        assert free.status == "confirmed" or free.rejection.code == "overtaken"  # type: ignore[union-attr]
        assert await app.space.get("urn:c") is None
    assert "urn:b" not in stage.entities()
    assert "urn:c" not in stage.entities()


@pytest.mark.rule("NURSERY-3", "NURSERY-7")
@staged
async def test_a_transaction_that_ends_after_what_it_read_through_fell_is_rejected_with_it(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        app.line.offline()
        first = await app.bump("urn:a")
        await (await bob.set("urn:a", {"n": 50})).confirmed()
        async with app.space.transaction() as late:
            assert await late.get("urn:a") == {"n": 1}
            app.line.online()
            with pytest.raises(Conflict):
                await first.confirmed()
            assert await late.get("urn:a") == {"n": 1}
            late.set("urn:b", {"n": 2})
        with pytest.raises(Dependency):
            await late.confirmed()
        assert await app.space.get("urn:b") is None
    assert stage.entities() == {"urn:a": {"n": 50}}


@pytest.mark.rule("NURSERY-7")
@staged
async def test_a_rejection_nobody_awaits_reaches_the_callback_and_one_that_is_awaited_does_not(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    heard: list[str] = []
    stop = app.space.on_rejected(lambda refused: heard.append(refused.operations[0]["id"]))  # type: ignore[arg-type]
    app.line.offline()
    awaited = await app.set("urn:a", 1)
    waiting = asyncio.create_task(awaited.confirmed())
    await app.set("urn:b", 1)
    await (await bob.set("urn:a", 2)).confirmed()
    await (await bob.set("urn:b", 2)).confirmed()
    app.line.online()
    with pytest.raises(Conflict):
        await waiting
    await app.space.settled()
    assert heard == ["urn:b"]
    stop()
    app.line.offline()
    await app.set("urn:a", 1)
    await (await bob.set("urn:a", 3)).confirmed()
    app.line.online()
    await app.space.settled()
    assert heard == ["urn:b"]
    assert len(app.space.rejected()) == 3
