"""A commit of an older session is never shown on top of itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from session_worlds import Stage, staged, until
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.protocol.model.values.ids import EntityId


@pytest.mark.rule("NURSERY-1", "SYNC-4")
@staged
async def test_an_increment_of_an_older_session_whose_verdict_was_lost_is_not_shown_twice(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    seen: list[Any] = []

    async def follow() -> None:
        async for change in app.space.watch("urn:*"):
            seen.extend((change.entered | change.updated).values())

    following = asyncio.create_task(follow())
    await until(lambda: seen)
    app.line.offline()
    tx = await app.increment("urn:a")
    app.core.session._take_new_session()  # as after a verdict for a commit that was never made here
    stage.world.crash_after_append(down=1.0)  # durable, and nobody was told
    app.line.online()
    await tx.confirmed()
    assert stage.value("urn:a") == {"n": 1}
    await asyncio.sleep(5)
    following.cancel()
    assert app.line.dials > 2
    assert {"n": 2} not in seen
    assert await app.space.get(EntityId("urn:a")) == {"n": 1}


@pytest.mark.rule("NURSERY-1", "NURSERY-5")
@staged
async def test_an_increment_of_an_older_session_is_not_shown_twice_after_a_restart(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    app.line.offline()
    async with app.space.transaction() as tx:
        tx.increment("urn:a", "/n", blind=True)
    app.core.session._take_new_session()  # as after a verdict for a commit that was never made here
    stage.world.crash_after_append(down=1.0)  # durable, and nobody was told
    app.line.online()
    await stage.world.crashed()
    await app.restart()
    seen: list[Any] = []
    async with app.space.watch("urn:*") as watch:
        await app.space.connected()
        seen.append((await watch.next()).entered[EntityId("urn:a")])
        await app.space.settled()
    assert stage.value("urn:a") == {"n": 1}
    assert seen == [{"n": 1}]
