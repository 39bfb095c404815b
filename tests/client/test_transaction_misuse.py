"""What newcomers do with a transaction: wait inside its block, forget the block, use it twice."""

from __future__ import annotations

import pytest

from session_worlds import Stage, staged
from stemmadb.protocol.errors import InvalidQuery, Malformed


@pytest.mark.rule("NURSERY-7")
@staged
async def test_waiting_inside_the_block_says_that_it_has_not_ended(stage: Stage) -> None:
    app = await stage.app()
    async with app.space.transaction() as tx:
        tx.set("urn:a", 1)
        for wait in (tx.confirmed, tx.journaled, tx.applied):
            with pytest.raises(Malformed, match="after its block"):
                await wait()
        assert (tx.status, tx.version) == ("pending", None)
    assert await tx.confirmed() == tx.version
    assert await app.space.at().get("urn:a") == 1


@pytest.mark.rule("NURSERY-7")
@staged
async def test_a_transaction_without_a_block_is_not_confirmed(stage: Stage) -> None:
    tx = (await stage.app()).space.transaction()
    assert (tx.status, tx.version) == ("pending", None)
    for wait in (tx.confirmed, tx.journaled, tx.applied):
        with pytest.raises(Malformed, match="'with' block"):
            await wait()
    with pytest.raises(Malformed, match="'with' block"):
        tx.set("urn:a", 1)
    with pytest.raises(Malformed, match="'with' block"):
        await tx.get("urn:a")


@staged
async def test_a_transaction_is_used_once(stage: Stage) -> None:
    app = await stage.app()
    async with app.space.transaction() as tx:
        with pytest.raises(Malformed, match="start another"):
            await tx.__aenter__()
        tx.set("urn:a", 1)
    version = await tx.confirmed()
    with pytest.raises(Malformed, match="start another"):
        async with tx:
            pass
    assert (tx.status, tx.version) == ("confirmed", version)


@staged
async def test_a_list_inside_a_transaction_is_written_as_outside(stage: Stage) -> None:
    app = await stage.app()
    await (await app.set("urn:a:1", 1)).confirmed()
    await (await app.set("urn:a:10", 10)).confirmed()
    async with app.space.transaction() as tx:
        for wrong in ("urn:a:1", "urn:a:", 5):
            with pytest.raises(InvalidQuery):
                await tx.list(wrong)  # type: ignore[arg-type]
        assert await tx.list("urn:a:*") == {"urn:a:1": 1, "urn:a:10": 10}
        assert await tx.list() == await app.space.list()


@staged
async def test_a_function_is_tried_at_least_once(stage: Stage) -> None:
    app = await stage.app()
    with pytest.raises(InvalidQuery, match="at least once"):
        await app.space.transact(lambda tx: tx.set("urn:a", 1), tries=0)
