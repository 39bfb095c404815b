"""What an app was told, also by an error, is claimed by its commit."""

from __future__ import annotations

import pytest

from session_worlds import Stage, staged
from stemmadb.protocol.errors import AlreadyExists, Conflict, NotFound


@pytest.mark.rule("NURSERY-2", "COMMIT-2")
@staged
async def test_an_error_that_told_what_is_there_is_claimed_although_more_is_read_later(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:w:lock", 1)).confirmed()
    await (await bob.set("urn:else", 1)).confirmed()
    async with app.space.watch("urn:w:*") as watch:
        await watch.next()
        async with app.space.transaction() as tx:
            with pytest.raises(AlreadyExists):
                tx.create("urn:w:lock", 2)
            async with bob.space.transaction() as theirs:
                theirs.delete("urn:w:lock", blind=True)
            await theirs.confirmed()
            await tx.get("urn:else")
            tx.set("urn:w:busy", 1)
        with pytest.raises(Conflict):
            await tx.confirmed()


@pytest.mark.rule("NURSERY-2", "COMMIT-2")
@staged
async def test_a_patch_that_was_refused_since_nothing_is_there_is_claimed_although_more_is_read_later(
    stage: Stage,
) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:else", 1)).confirmed()
    async with app.space.watch("urn:w:*") as watch:
        await watch.next()
        async with app.space.transaction() as tx:
            with pytest.raises(NotFound):
                tx.increment("urn:w:count", "/n")
            await (await bob.set("urn:w:count", {"n": 1})).confirmed()
            await tx.get("urn:else")
            tx.set("urn:w:first", 1)
        with pytest.raises(Conflict):
            await tx.confirmed()


@pytest.mark.rule("NURSERY-2", "NURSERY-8")
@staged
async def test_what_a_read_refused_stays_refused_although_more_is_read_later(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:else", 1)).confirmed()

    async def block() -> None:
        async with app.space.transaction() as tx:
            tx.increment("urn:count", "/n")
            with pytest.raises(NotFound):
                await tx.get("urn:count")
            tx.set("urn:there-is-no-count", 1)
            await (await bob.set("urn:count", {"n": 1})).confirmed()
            await tx.get("urn:else")

    with pytest.raises(NotFound):
        await block()
    assert stage.entities() == {"urn:count": {"n": 1}, "urn:else": 1}
