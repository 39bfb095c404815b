"""What a transaction means over a real connection: one view, declared reads, all or nothing (NURSERY-2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from session_worlds import Stage, staged, staged_in
from stemmadb.client.transactions import Transaction
from stemmadb.protocol.errors import AlreadyExists, Conflict, Malformed, NotFound, NotInView, PatchFailed


@pytest.mark.rule("NURSERY-2")
@staged
async def test_a_transaction_reads_one_view_while_frames_come(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    for name in "abc":
        await (await bob.set(f"urn:{name}", {"n": 0})).confirmed()
    async with app.space.watch("urn:a") as watch:
        await watch.next()
        async with app.space.transaction() as tx:
            assert await tx.get("urn:a") == {"n": 0}
            for name in "abc":
                await (await bob.set(f"urn:{name}", {"n": 1})).confirmed()
            await (await bob.set("urn:d", {"n": 1})).confirmed()
            assert (await watch.next()).updated == {"urn:a": {"n": 1}}
            assert await tx.get("urn:a") == {"n": 0}
            assert await tx.get("urn:b") == {"n": 0}
            assert await tx.list("urn:*") == {"urn:a": {"n": 0}, "urn:b": {"n": 0}, "urn:c": {"n": 0}}
            assert await app.space.get("urn:a") == {"n": 1}
            tx.set("urn:e", 1)
        with pytest.raises(Conflict) as told:
            await tx.confirmed()
        assert {one.id for one in told.value.facts["stale"]} >= {"urn:a", "urn:b"}
    assert "urn:e" not in stage.entities()


@pytest.mark.rule("NURSERY-2", "COMMIT-2")
@staged
async def test_what_is_read_from_the_server_is_declared_at_the_version_of_the_view(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0, "m": 0})).confirmed()
    async with app.space.transaction() as tx:
        assert await tx.get("urn:a", "/n") == 0
        tx.set("urn:mine", 1)
        async with bob.space.transaction() as theirs:
            theirs.patch("urn:a", [{"op": "replace", "path": "/m", "value": 1}])
        await theirs.confirmed()
    await tx.confirmed()
    async with app.space.transaction() as tx:
        assert await tx.list("urn:x:*") == {}
        tx.set("urn:x:1", 1)
        await (await bob.set("urn:x:2", 1)).confirmed()
    with pytest.raises(Conflict):
        await tx.confirmed()


@pytest.mark.rule("NURSERY-8")
@staged
async def test_without_a_server_what_is_not_in_view_is_refused_unless_it_is_blind(stage: Stage) -> None:
    app = await stage.app()
    await (await app.set("urn:a", {"n": 0})).confirmed()
    app.line.offline()
    await asyncio.sleep(1)
    with pytest.raises(NotInView):
        await app.increment("urn:a")
    with pytest.raises(NotInView):
        async with app.space.transaction() as tx:
            await tx.get("urn:a")
    with pytest.raises(NotInView):
        async with app.space.transaction() as tx:
            await tx.list("urn:*")
    assert app.space.status().pending == 0
    async with app.space.transaction() as blind:
        blind.increment("urn:a", "/n", blind=True)
        blind.set("urn:b", 1)
    assert app.space.status().pending == 1
    app.line.online()
    await blind.confirmed()
    assert stage.entities() == {"urn:a": {"n": 1}, "urn:b": 1}


@pytest.mark.rule("NURSERY-8", "COMMIT-6")
@staged
async def test_a_patch_that_does_not_apply_is_refused_when_the_block_ends(stage: Stage) -> None:
    app = await stage.app()
    await (await app.set("urn:a", {"n": 0})).confirmed()
    with pytest.raises(PatchFailed):  # noqa: PT012
        async with app.space.transaction() as tx:
            tx.set("urn:b", 1)
            tx.patch("urn:a", [{"op": "remove", "path": "/nothing"}])
    with pytest.raises(NotFound):
        await app.increment("urn:nothing")
    assert stage.entities() == {"urn:a": {"n": 0}}
    assert tx.status == "rejected"


@staged
async def test_create_refuses_what_is_there_and_of_two_at_once_one_wins(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    async with app.space.transaction() as tx:
        tx.create("urn:a", 1)
    await tx.confirmed()
    with pytest.raises(AlreadyExists):
        async with bob.space.transaction() as theirs:
            theirs.create("urn:a", 2)
    async with app.space.transaction() as first, bob.space.transaction() as second:
        assert [await first.get("urn:b"), await second.get("urn:b")] == [None, None]
        first.create("urn:b", 1)
        second.create("urn:b", 2)
    await app.space.settled()
    await bob.space.settled()
    assert sorted((first.status, second.status)) == ["confirmed", "rejected"]


@pytest.mark.rule("NURSERY-7")
@staged
async def test_an_empty_transaction_is_confirmed_and_writes_nothing(stage: Stage) -> None:
    app = await stage.app()
    async with app.space.transaction() as tx:
        await tx.get("urn:a")
    assert (tx.status, tx.version, await tx.confirmed()) == ("confirmed", 1, 1)
    await tx.journaled()
    await tx.applied()
    assert stage.world.truth.version(stage.did) == 1


@pytest.mark.rule("NURSERY-7")
@staged
async def test_a_block_that_raises_writes_nothing_and_says_so(stage: Stage) -> None:
    app = await stage.app()
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with app.space.transaction() as tx:
            tx.set("urn:a", 1)
            _ = 1 / 0
    assert (tx.status, tx.version, tx.rejection) == ("rejected", None, None)
    for waiting in (tx.confirmed, tx.journaled, tx.applied):
        with pytest.raises(Malformed, match="nothing was written"):
            await waiting()
    await asyncio.sleep(10)
    assert (app.space.status().pending, stage.entities(), await app.space.get("urn:a")) == (0, {}, None)


@staged
async def test_a_transaction_that_is_over_takes_nothing_more(stage: Stage) -> None:
    app = await stage.app()
    tx = await app.set("urn:a", 1)
    with pytest.raises(Malformed, match="is over"):
        tx.set("urn:b", 1)
    with pytest.raises(Malformed, match="is over"):
        await tx.get("urn:a")


@pytest.mark.rule("COMMIT-3")
@staged
async def test_blind_writes_win_whatever_others_did(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    app.line.offline()
    blind = await app.set("urn:a", "mine", blind=True)
    await (await bob.set("urn:a", "theirs")).confirmed()
    app.line.online()
    await blind.confirmed()
    assert stage.value("urn:a") == "mine"


@pytest.mark.rule("COMMIT-3")
@pytest.mark.parametrize("seed", range(3))
def test_increments_of_two_clients_never_conflict(seed: int) -> None:
    @staged_in(seed=seed)
    async def scenario(stage: Stage) -> None:
        app, bob = await stage.app(), await stage.app("bob")
        await (await bob.set("urn:a", {"n": 0})).confirmed()
        async with app.space.watch("urn:a") as watch:
            await watch.next()
            for number in range(30):
                await app.increment("urn:a")
                await bob.increment("urn:a")
                if number % 10 == 5:
                    app.line.cut()
                await asyncio.sleep(0.003)
            await app.space.settled()
            await bob.space.settled()
            assert not app.space.rejected()
            assert not bob.space.rejected()
        assert stage.value("urn:a") == {"n": 60}

    scenario()


@staged
async def test_update_writes_a_small_patch(stage: Stage) -> None:
    app = await stage.app()
    value: dict[str, Any] = {f"key{number}": "x" * 100 for number in range(100)}
    await (await app.set("urn:a", value)).confirmed()
    async with app.space.transaction() as tx:
        tx.update("urn:a", value | {"key7": "y"})
    await tx.confirmed()
    entry, *_ = [one async for one in app.space.history("urn:a")]
    assert (entry.version, entry.kind) == (tx.version, "patch")
    assert entry.patch == [{"op": "replace", "path": "/key7", "value": "y"}]


@staged
async def test_transact_runs_again_on_the_current_values_until_it_is_accepted(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await app.set("urn:a", {"n": 0})).confirmed()
    runs = 0

    async def count(tx: Transaction) -> Any:
        nonlocal runs
        runs += 1
        found: Any = await tx.get("urn:a")
        tx.update("urn:a", {"n": found["n"] + 1})
        return int(found["n"]) + 1

    results: list[Any] = await asyncio.gather(
        *[one.space.transact(count, tries=50) for one in (app, bob) for _ in range(5)]
    )
    assert sorted(results) == list(range(1, 11))
    assert stage.value("urn:a") == {"n": 10}
    assert runs > 10
    assert not app.space.rejected()
    assert not bob.space.rejected()


@staged
async def test_transact_gives_up_after_its_tries_and_passes_on_what_its_function_raises(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await app.set("urn:a", {"n": 0})).confirmed()
    runs = 0

    async def too_slow(tx: Transaction) -> Any:
        nonlocal runs
        runs += 1
        await tx.get("urn:a")
        await (await bob.increment("urn:a")).confirmed()
        tx.set("urn:b", 1)

    with pytest.raises(Conflict):
        await app.space.transact(too_slow, tries=3)
    assert runs == 3

    def broken(tx: Transaction) -> None:
        tx.set("urn:b", 1)
        raise KeyError("x")

    with pytest.raises(KeyError):
        await app.space.transact(broken)
    assert "urn:b" not in stage.entities()


@staged
async def test_values_given_to_an_app_are_its_own(stage: Stage) -> None:
    app = await stage.app()
    given: dict[str, Any] = {"list": [1]}
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        async with app.space.transaction() as tx:
            tx.set("urn:a", given)
            given["list"].append(2)
            (await tx.get("urn:a"))["list"].append(3)  # type: ignore[index,call-overload,union-attr]
        change = await watch.next()
        change.entered["urn:a"]["list"].append(4)  # type: ignore[index,call-overload,union-attr]
        (await app.space.get("urn:a"))["list"].append(5)  # type: ignore[index,call-overload,union-attr]
        await tx.confirmed()
        assert await app.space.get("urn:a") == {"list": [1]}
    assert stage.value("urn:a") == {"list": [1]}
