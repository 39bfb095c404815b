"""What the service knows of everybody's rights, as it follows the log (ACL-1, ACL-2, ACL-4, RESUME-1)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from delegations import DORA, OLGA, delegate
from engines import Engine, engine
from space import ALICE, BOB, SPACE, set_
from stemmadb.protocol.errors import Compacted, FutureVersion
from stemmadb.protocol.model.access.access_roles import NOBODY, OWNER, Rights
from stemmadb.protocol.model.access.delegation import DelegatedRights, name_of, verify
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.log.commit_record import BranchCreate, OperationIdentity, Revoke
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Hash, TimeMs, Version
from stemmadb.server.engine.base.space_port import Asked
from stemmadb.server.engine.plan import compaction
from stemmadb.server.service.session.access import Access

X = "urn:x"
ROLES = {SPACE: "own", OLGA.did: "own", BOB: "write"}
NOW = TimeMs(5_000)
WRITER = Rights("write", ("urn:a:",))


@asynccontextmanager
async def following(access: dict[Any, str] | None = ROLES) -> AsyncIterator[tuple[Engine, Access, list[bool]]]:
    """A space, what follows it, and what it said to each commit after it was loaded."""
    async with engine(access=access) as it:
        it.clock.now = 2_000
        rights, said = Access(SPACE), list[bool]()
        await rights.load(it.space)
        it.space.subscribe(lambda batch: said.extend(rights.take(one.commit, one.facts) for one in batch))
        yield it, rights, said


async def change(it: Engine, roles: dict[Any, str]) -> Version:
    return await it.must(set_(SPACE, roles, blind=True), author=SPACE, session="list")


async def revoke(it: Engine, token: bytes) -> Version:
    outcome = await it.structure(Revoke(delegation=name_of(token)), author=SPACE)
    assert isinstance(outcome, Accepted)
    return outcome.commit.version


def shown(*tokens: bytes) -> tuple[DelegatedRights, ...]:
    return verify(tokens, space=SPACE, audience=DORA.did)


TOKEN = delegate(OLGA, DORA)
COMPACTION = Asked(OperationIdentity(SPACE, b"c" * 16), Hash(b"r" * 32))


@pytest.mark.rule("ACL-2")
async def test_rights_are_those_of_the_list_at_the_head() -> None:
    async with following() as (it, access, said):
        assert access.rights(BOB, (), NOW) == Rights("write")
        assert access.rights(OLGA.did, (), NOW) == OWNER
        assert access.rights(ALICE, (), NOW) == NOBODY
        await change(it, {SPACE: "own", ALICE: "read"})
        assert access.rights(BOB, (), NOW) == NOBODY
        assert access.rights(ALICE, (), NOW) == Rights("read")
        assert access.roles == {SPACE: "own", ALICE: "read"}
        assert said == [True]


@pytest.mark.rule("ACL-2")
async def test_only_what_can_change_rights_says_so() -> None:
    async with following() as (it, access, said):
        await it.must(set_(X, 1, blind=True), author=BOB)
        await it.structure(BranchCreate(name=BranchName("b"), parent=MAIN, fork=Version(1)), author=BOB)
        await it.must(set_(SPACE + ":x", {BOB: "own"}, blind=True), author=BOB)
        assert said == [False, False, False]
        assert access.version == it.space.version == 4


@pytest.mark.rule("ACL-4")
async def test_a_delegate_acts_under_its_delegations_alone() -> None:
    roles: dict[Any, str] = {**ROLES, DORA.did: "own"}
    async with following(roles) as (_, access, _):
        assert access.rights(DORA.did, (), NOW) == OWNER
        assert access.rights(DORA.did, shown(TOKEN), NOW) == WRITER
        assert access.rights(DORA.did, shown(TOKEN), TimeMs(9_000)) == NOBODY


@pytest.mark.rule("ACL-4")
async def test_what_was_delegated_ends_with_a_revocation_or_with_its_owner() -> None:
    second = delegate(OLGA, DORA, prefixes=("urn:b:",))
    async with following() as (it, access, said):
        assert access.rights(DORA.did, shown(TOKEN, second), NOW) == Rights("write", ("urn:a:", "urn:b:"))
        await revoke(it, TOKEN)
        assert access.rights(DORA.did, shown(TOKEN, second), NOW) == Rights("write", ("urn:b:",))
        await change(it, {SPACE: "own", OLGA.did: "write"})
        assert access.rights(DORA.did, shown(TOKEN, second), NOW) == NOBODY
        assert said == [True, True]


@pytest.mark.rule("ACL-4")
async def test_a_loaded_access_is_the_same_as_one_that_followed() -> None:
    tokens = [delegate(OLGA, DORA, nonce=bytes([number]) * 16) for number in range(5)]
    async with following() as (it, access, _):
        for token in tokens[:3]:
            await revoke(it, token)
            await it.structure(
                BranchCreate(name=BranchName(f"b{token[-1]}"), parent=MAIN, fork=Version(1)), author=BOB
            )
        await revoke(it, tokens[0])
        await change(it, {**ROLES, ALICE: "read"})
        later = Access(SPACE)
        await later.load(it.space)
        assert later.version == access.version
        assert later.roles == access.roles
        for token in tokens:
            for version in range(1, it.space.version + 1):
                asked = (it.space, Version(version), DORA.did, shown(token))
                assert await later.rights_at(*asked) == await access.rights_at(*asked)
            assert later.rights(DORA.did, shown(token), NOW) == access.rights(DORA.did, shown(token), NOW)


@pytest.mark.rule("ACL-2")
async def test_what_is_known_already_is_not_taken_again() -> None:
    async with engine(access=ROLES) as it:
        batches: list[Accepted] = []
        it.space.subscribe(batches.extend)
        await change(it, {SPACE: "own"})
        await change(it, {SPACE: "own", ALICE: "read"})
        access = Access(SPACE)
        await access.load(it.space)
        assert [access.take(one.commit, one.facts) for one in batches] == [False, False]
        assert access.rights(ALICE, (), NOW) == Rights("read")


@pytest.mark.rule("ACL-2")
async def test_a_commit_that_was_left_out_is_an_internal_error() -> None:
    async with engine(access=ROLES) as it:
        access = Access(SPACE)
        await access.load(it.space)
        batches: list[Accepted] = []
        it.space.subscribe(batches.extend)
        await it.must(set_(X, 1, blind=True), author=BOB)
        await it.must(set_(X, 2, blind=True), author=BOB)
        with pytest.raises(AssertionError, match="none left out"):
            access.take(batches[1].commit, batches[1].facts)


@pytest.mark.rule("ACL-2")
async def test_a_space_without_a_list_lets_nobody_read() -> None:
    async with following(None) as (_, access, _):
        assert access.roles is None
        assert not access.rights(ALICE, (), NOW).may_read(X)
        assert access.rights(DORA.did, shown(TOKEN), NOW) == NOBODY


# ---------------------------------------------------------------- rights at an older version


@pytest.mark.rule("ACL-2")
async def test_rights_at_a_version_are_those_of_the_list_and_the_revocations_then() -> None:
    async with following() as (it, access, _):
        revoked = await revoke(it, TOKEN)
        await change(it, {SPACE: "own", OLGA.did: "own", ALICE: "read"})

        async def bob_and_dora(version: int) -> tuple[Rights, Rights]:
            return (
                await access.rights_at(it.space, Version(version), BOB, ()),
                await access.rights_at(it.space, Version(version), DORA.did, shown(TOKEN)),
            )

        assert await bob_and_dora(revoked) == (Rights("write"), NOBODY)
        assert await bob_and_dora(revoked + 1) == (NOBODY, NOBODY)
        it.clock.now = 3_000
        await it.must(set_(X, 1, blind=True), author=SPACE)
        with pytest.raises(FutureVersion):
            await access.rights_at(it.space, Version(99), BOB, ())


@pytest.mark.rule("ACL-4")
async def test_a_delegation_is_judged_by_the_time_of_the_version() -> None:
    async with following() as (it, access, _):
        before = await it.must(set_(X, 1, blind=True), author=BOB)
        it.clock.now = 9_000
        after = await it.must(set_(X, 2, blind=True), author=BOB)
        assert await access.rights_at(it.space, before, DORA.did, shown(TOKEN)) == WRITER
        assert await access.rights_at(it.space, after, DORA.did, shown(TOKEN)) == NOBODY


async def unchanged(it: Engine, access: Access, since: int, who: Any = BOB, *tokens: bytes, now: int = NOW) -> bool:
    delegated = verify(tokens, space=SPACE, audience=who)
    return await access.is_unchanged(
        it.space, since=Version(since), principal=who, delegated=delegated, now=TimeMs(now)
    )


@pytest.mark.rule("RESUME-1", "ACL-2")
async def test_one_who_comes_back_learns_whether_its_rights_are_the_same() -> None:
    async with following() as (it, access, _):
        await it.must(set_(X, 1, blind=True), author=BOB)
        assert await unchanged(it, access, 1)
        await change(it, {**ROLES, ALICE: "read"})
        assert await unchanged(it, access, 2)
        assert not await unchanged(it, access, 2, ALICE)
        assert await unchanged(it, access, 3, ALICE)
        await change(it, ROLES)
        assert await unchanged(it, access, 2, ALICE)
        assert not await unchanged(it, access, 3, ALICE)
        with pytest.raises(FutureVersion):
            await unchanged(it, access, 5)


@pytest.mark.rule("RESUME-1", "ACL-2")
async def test_a_change_before_it_was_loaded_is_known_as_well() -> None:
    async with following() as (it, _, _):
        await change(it, {**ROLES, ALICE: "read"})
        later = Access(SPACE)
        await later.load(it.space)
        assert not await unchanged(it, later, 1, ALICE)
    assert await unchanged(it, later, 2, ALICE), "the store is closed, and was not asked"


@pytest.mark.rule("ACL-1")
async def test_a_fact_on_another_branch_is_no_access_list() -> None:
    async with engine(access=ROLES) as it:
        access, batches = Access(SPACE), list[Accepted]()
        await access.load(it.space)
        it.space.subscribe(batches.extend)
        await change(it, {SPACE: "own"})
        (accepted,) = batches
        strange = [msgspec.structs.replace(fact, branch=BranchName("b")) for fact in accepted.facts]
        assert not access.take(accepted.commit, strange)
        assert access.roles == ROLES


@pytest.mark.rule("RESUME-1", "ACL-4")
async def test_a_delegate_who_comes_back_learns_what_time_and_revocations_did() -> None:
    async with following() as (it, access, _):
        held = await it.must(set_(X, 1, blind=True), author=BOB)
        assert await unchanged(it, access, held, DORA.did, TOKEN)
        assert not await unchanged(it, access, held, DORA.did, TOKEN, now=9_000)
        soon = delegate(OLGA, DORA, not_before=3_000)
        assert not await unchanged(it, access, held, DORA.did, TOKEN, soon)
        await revoke(it, TOKEN)
        assert not await unchanged(it, access, held, DORA.did, TOKEN)
        assert await unchanged(it, access, held + 1, DORA.did, TOKEN)


@pytest.mark.rule("RESUME-1")
async def test_without_a_change_the_store_is_not_asked() -> None:
    async with following() as (it, access, _):
        await it.must(set_(X, 1, blind=True), author=BOB)
        version = it.space.version
    assert await unchanged(it, access, version), "the store is closed, and nothing was asked of it"


@pytest.mark.rule("RESUME-1", "HISTORY-2")
async def test_below_the_floor_old_rights_cannot_be_told() -> None:
    async with following() as (it, access, _):
        await change(it, {**ROLES, ALICE: "read"})
        for number in range(3):
            await it.must(set_(X, number, blind=True), author=BOB)
        await compaction.compact(it.space, COMPACTION, Version(4), now=NOW)
        with pytest.raises(Compacted):
            await unchanged(it, access, 1)
        assert await unchanged(it, access, 4)
