"""A client that was closed says so to whoever watches or writes; callbacks may be coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from session_worlds import Stage, staged
from stemmadb.client import Refused
from stemmadb.protocol.errors import GoingAway


@staged
async def test_a_closed_client_says_to_connect_again(stage: Stage) -> None:
    app = await stage.app()
    space = app.space
    await app.close()
    with pytest.raises(GoingAway, match="Connect again"):
        space.watch("urn:a")
    with pytest.raises(GoingAway, match="Connect again"):
        await space.get("urn:a")
    with pytest.raises(GoingAway, match="Connect again"):
        async with space.transaction() as tx:
            await tx.get("urn:a")


async def _refuse(stage: Stage, callback: Callable[[Refused], object]) -> None:
    """Alice's commit is refused, and nobody waits for it but the callback."""
    app, bob = await stage.app("alice"), await stage.app("bob")
    app.space.on_rejected(callback)
    async with app.space.transaction() as tx:
        await tx.get("urn:a")
        await (await bob.set("urn:a", 1)).confirmed()
        tx.set("urn:b", 1)
    await app.space.settled()


@pytest.mark.rule("NURSERY-7")
@staged
async def test_a_callback_may_be_a_coroutine_function(stage: Stage) -> None:
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def tell(refused: Refused) -> None:
        await asyncio.sleep(1)
        told.set_result(refused.code)

    await _refuse(stage, tell)
    assert await told == "conflict"


@pytest.mark.rule("NURSERY-7")
@staged
async def test_what_a_coroutine_callback_raises_is_reported(stage: Stage) -> None:
    loop = asyncio.get_running_loop()
    reported: asyncio.Future[dict[str, Any]] = loop.create_future()
    loop.set_exception_handler(lambda _, context: reported.set_result(context))

    async def fail(_: Refused) -> None:
        raise ValueError("of the app")

    await _refuse(stage, fail)
    assert isinstance((await reported)["exception"], ValueError)
