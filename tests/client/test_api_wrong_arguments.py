"""Mistakes that must not pass in silence: mistyped options, things of a wrong type, a text where a list is meant."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from session_worlds import Stage, staged
from stemmadb.client import Identity, StemmaError, connect
from stemmadb.client.keys.key_files import to_pem
from stemmadb.client.reading.delegation import read_tokens
from stemmadb.client.space import Space
from stemmadb.protocol.errors import (
    InvalidDelegation,
    InvalidDid,
    InvalidId,
    InvalidName,
    InvalidPointer,
    InvalidQuery,
    Malformed,
    NotFound,
)

# ---------------------------------------------------------------- options


@staged
async def test_a_mistyped_dry_run_does_not_merge(stage: Stage) -> None:
    app = await stage.app()
    draft = await app.space.branch("draft", create=True)
    async with draft.transaction() as tx:
        tx.set("urn:a", 1)
    await tx.confirmed()
    with pytest.raises(TypeError, match=r"'dryrun'; it takes .*dry_run"):
        await draft.merge_into("main", dryrun=True)  # type: ignore[call-arg]
    assert await app.space.get("urn:a") is None


@staged
async def test_a_mistyped_dry_run_does_not_revert(stage: Stage) -> None:
    app = await stage.app()
    version = await (await app.set("urn:a", 1)).confirmed()
    with pytest.raises(TypeError, match="'dryrun'"):
        await app.space.revert(version, dryrun=True)  # type: ignore[call-arg]
    assert await app.space.get("urn:a") == 1


@staged
async def test_a_filter_that_the_log_does_not_have_is_told(stage: Stage) -> None:
    app = await stage.app()
    with pytest.raises(TypeError, match=r"'limit'; it takes .*author"):
        app.space.log(limit=3)  # type: ignore[call-arg]


@staged
async def test_the_prefix_of_a_log_is_written_as_everywhere(stage: Stage) -> None:
    app = await stage.app()
    version = await (await app.set("urn:a:1", 1)).confirmed()
    await (await app.set("urn:b:1", 1)).confirmed()
    for prefix in ("urn:a:*", "urn:a:"):
        assert [entry.version async for entry in app.space.log(prefix=prefix)] == [version]


# ---------------------------------------------------------------- types

Call = Callable[[Space, Any], Awaitable[object]]


async def _watched(space: Space, selector: Any) -> object:
    return await space.watch(selector).next()


CALLS: list[tuple[Call, type[StemmaError]]] = [
    (lambda space, wrong: space.get(wrong), InvalidId),
    (lambda space, wrong: space.get("urn:a", wrong), InvalidPointer),
    (lambda space, wrong: space.blame(wrong), InvalidId),
    (lambda space, wrong: space.at(version=0).get(wrong), InvalidId),
    (lambda space, wrong: space.query(wrong), InvalidQuery),
    (lambda space, wrong: space.list(wrong), InvalidQuery),
    (_watched, InvalidQuery),
    (lambda space, wrong: space.branch(wrong), InvalidName),
    (lambda space, wrong: space.merge_into(wrong), InvalidName),
    (lambda space, wrong: space.acl.set(wrong, "read"), InvalidDid),
]


@pytest.mark.parametrize(
    ("number", "wrong"), [(number, wrong) for number in range(len(CALLS)) for wrong in (5, None)]
)
def test_what_is_no_text_is_refused_in_a_sentence(number: int, wrong: object) -> None:
    call, error = CALLS[number]

    @staged
    async def scenario(stage: Stage) -> None:
        with pytest.raises(error):
            await call((await stage.app()).space, wrong)

    scenario()


@staged
async def test_a_space_is_no_name_of_a_branch(stage: Stage) -> None:
    space = (await stage.app()).space
    with pytest.raises(InvalidName, match="Space"):
        await space.merge_into(space)  # type: ignore[arg-type]


# ---------------------------------------------------------------- delegations


@pytest.mark.rule("ACL-4")
@staged
async def test_one_prefix_as_a_text_delegates_that_prefix_and_not_everything(stage: Stage) -> None:
    space = (await stage.app()).space
    robot = stage.world.identity("robot")
    token = await space.delegate(robot.did, "write", prefixes="urn:a:*", expires=60)
    async with stage.world.connect("robot", delegations=token) as db:
        mine = (await (await db.space(space.did)).acl.get()).mine
    assert mine.prefixes == ("urn:a:",)


@pytest.mark.rule("ACL-4")
@staged
async def test_an_id_is_no_prefix_to_delegate(stage: Stage) -> None:
    space = (await stage.app()).space
    with pytest.raises(InvalidDelegation, match="ends with"):
        await space.delegate(Identity.make().did, "read", prefixes=["urn:a:1"], expires=60)


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize("expires", [0, -60])
def test_what_is_over_already_is_not_delegated(expires: int) -> None:
    @staged
    async def scenario(stage: Stage) -> None:
        with pytest.raises(InvalidDelegation, match="expired already"):
            await (await stage.app()).space.delegate(Identity.make().did, "read", expires=expires)

    scenario()


@pytest.mark.rule("ACL-4")
@staged
async def test_only_a_whole_token_of_the_space_is_revoked(stage: Stage) -> None:
    space = (await stage.app()).space
    token = await space.delegate(Identity.make().did, "read", expires=60)
    for wrong in ("junk", token[:-4]):
        with pytest.raises(InvalidDelegation):
            await space.revoke(wrong)
    await space.revoke(token)


def test_one_token_as_a_text_is_one_token() -> None:
    assert read_tokens("YWJj") == (b"abc",)


# ---------------------------------------------------------------- who one is


def test_a_mistyped_name_of_an_identity_does_not_become_somebody_new(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="keys new robto"):
        connect(identity="robto", config=tmp_path)
    assert not list(tmp_path.rglob("*.key"))


def test_an_identity_is_the_path_of_a_key_file_as_a_text_too(tmp_path: Path) -> None:
    robot = Identity.make()
    file = tmp_path / "robot.key"
    file.write_bytes(to_pem(robot))
    file.chmod(0o600)
    assert connect(identity=str(file), config=tmp_path).identity.did == robot.did
    assert connect(identity=file, config=tmp_path).identity.did == robot.did
    with pytest.raises(NotFound, match="Check the path"):
        connect(identity=tmp_path / "missing.key", config=tmp_path)


def test_the_default_identity_is_made_on_first_use(tmp_path: Path) -> None:
    assert connect(config=tmp_path).identity.did == connect(identity="default", config=tmp_path).identity.did


@pytest.mark.parametrize("wrong", [None, 5, b"ws://127.0.0.1:8420"])
def test_an_address_is_a_text(wrong: object, tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="ws://127"):
        connect(wrong, config=tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [None, 5])
def test_the_name_of_a_space_is_a_text(wrong: Any, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with connect(config=tmp_path) as db:
            with pytest.raises(InvalidName, match="not a text"):
                await db.space(wrong)

    asyncio.run(scenario())
