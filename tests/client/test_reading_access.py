"""The access list and delegations: given, delegated further, narrowed, and taken back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from requesters import PeerRequester, RequestWorld, request_world
from service_peers import ALICE, BOB, CAROL, SPACE, Key, put, read
from stemmadb.client.keys.identity import Identity
from stemmadb.client.reading.access import ACL_TRIES_MAX, Acl, Roles
from stemmadb.client.reading.delegation import DelegationTerms, Delegator, read_tokens
from stemmadb.client.reading.moment import Moment
from stemmadb.protocol.errors import (
    Conflict,
    Forbidden,
    InvalidDelegation,
    InvalidDid,
    InvalidQuery,
    InvalidValue,
    UnknownSpace,
)
from stemmadb.protocol.model.access.delegation import verify
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, EntityId, TimeMs, Version
from stemmadb.protocol.wire.connection import problems
from stemmadb.protocol.wire.messages.access import AclRequest
from stemmadb.protocol.wire.messages.commit import RejectedVerdict

DAVE = Key("dave")


def acl(it: RequestWorld, meanwhile: Callable[[], Any] | None = None) -> Acl:
    """One whose commits go through the writer of the request_world, after whatever comes before them."""

    async def commit(roles: Roles, version: Version) -> None:
        if meanwhile is not None:
            await meanwhile()
        write = Operation(op="set", id=EntityId(SPACE.did), body=encode(roles))
        verdict = await it.writer.commit(write, reads=(read(SPACE.did, version),))
        if isinstance(verdict, RejectedVerdict):
            raise problems.restore(verdict)

    return Acl(it.requester, commit)


# ---------------------------------------------------------------- the access list


@pytest.mark.rule("ACL-1")
async def test_roles_are_given_changed_and_taken() -> None:
    async with request_world() as it:
        first = {ALICE.did: "own", BOB.did: "write", CAROL.did: "read"}
        access = await acl(it).get()
        assert (access.version, access.roles, access.mine.role) == (1, first, "own")
        await acl(it).set(DAVE.did, "read")
        await acl(it).set(BOB.did, "own")
        await acl(it).remove(CAROL.did)
        assert (await acl(it).get()).roles == {ALICE.did: "own", BOB.did: "own", DAVE.did: "read"}
        assert (await acl(it).get(version=1)).roles == first
        await acl(it).remove(ALICE.did)
        assert (await acl(it._replace(requester=PeerRequester(it.harness, BOB))).get()).roles == {
            BOB.did: "own",
            DAVE.did: "read",
        }


@pytest.mark.rule("ACL-1")
async def test_the_list_keeps_an_owner_and_only_owners_change_it() -> None:
    async with request_world() as it:
        with pytest.raises(InvalidValue, match="owner"):
            await acl(it).remove(ALICE.did)
        with pytest.raises(InvalidValue, match="owner"):
            await acl(it).set(ALICE.did, "write")
        with pytest.raises(InvalidValue, match="role"):
            await acl(it).set(BOB.did, "none")  # type: ignore[arg-type]
        with pytest.raises(InvalidDid):
            await acl(it).set("bob", "read")
        with pytest.raises(InvalidQuery):
            await acl(it).get(version=-1)
        version = (await acl(it).get()).version
        await acl(it).set(BOB.did, "write")
        await acl(it).remove(DAVE.did)
        assert (await acl(it).get()).version == version
    async with request_world(BOB) as it:
        with pytest.raises(Forbidden):
            await acl(it).set(DAVE.did, "read")


@pytest.mark.rule("ACL-1")
async def test_a_change_is_made_again_on_top_of_somebody_elses() -> None:
    async with request_world() as it:
        other = await it.harness.peer(ALICE).open()
        roles = (await acl(it).get()).roles
        left: list[Roles] = [{**roles, DAVE.did: "write"}]

        async def overtake() -> None:
            if left:
                await other.commit(put(SPACE.did, left.pop()))

        await acl(it, overtake).remove(CAROL.did)
        assert (await acl(it).get()).roles == {ALICE.did: "own", BOB.did: "write", DAVE.did: "write"}

        left.extend([{**roles, DAVE.did: "read"}, roles] * ACL_TRIES_MAX)
        it.requester.asked.clear()
        with pytest.raises(Conflict):
            await acl(it, overtake).set(CAROL.did, "own")
        assert it.requester.asked == [AclRequest] * ACL_TRIES_MAX


# ---------------------------------------------------------------- delegations


def identity_of(name: str) -> Identity:
    return Identity.from_seed(hashlib.sha256(name.encode()).digest())


def delegator(it: RequestWorld, name: str = "alice", held: tuple[bytes, ...] = ()) -> Delegator:
    return Delegator(
        it.requester, identity_of(name), space=SPACE.did, now=lambda: TimeMs(it.harness.clock.now), held=held
    )


def terms(
    audience: Key = DAVE, role: Any = "write", *prefixes: str, expires: Any = timedelta(days=1)
) -> DelegationTerms:
    return DelegationTerms(audience=audience.did, role=role, prefixes=prefixes or ("urn:todo:*",), expires=expires)


async def reader(it: RequestWorld, key: Key, *texts: str) -> Moment:
    requester = PeerRequester(it.harness, key, delegations=read_tokens(texts))
    return Moment(requester, branch=MAIN, space=SPACE.did)


@pytest.mark.rule("ACL-4")
async def test_a_token_delegates_what_it_says_until_it_is_revoked() -> None:
    async with request_world() as it:
        await it.commit(put("urn:todo:1", 1), put("urn:other", 2))
        token = delegator(it).delegate(terms())
        assert token.replace("-", "").replace("_", "").isalnum()
        assert await (await reader(it, DAVE, token)).list() == {"urn:todo:1": 1}
        dave = await it.harness.peer(DAVE).open(delegations=read_tokens([token]))
        verdict = await dave.commit(put("urn:todo:2", 2))
        assert verdict.version == 3
        done = await delegator(it).revoke(token)
        assert done.version == 4
        assert (await dave.commit(put("urn:todo:3", 3))).code == "forbidden"


@pytest.mark.rule("ACL-4")
async def test_a_delegate_delegates_further_with_its_chain_and_never_wider() -> None:
    async with request_world() as it:
        await it.commit(put("urn:todo:1", 1), put("urn:todo:x:1", 2))
        first = delegator(it).delegate(terms(DAVE))
        dave = delegator(it, "dave", read_tokens([first]))
        second = dave.delegate(terms(Key("eve"), "read", "urn:todo:x:*", expires=60))
        assert second.endswith("." + first)
        assert await (await reader(it, Key("eve"), second)).list() == {"urn:todo:x:1": 2}
        assert len(read_tokens([second, first, second])) == 2
        for wider in (
            terms(BOB, "write", "*"),
            terms(BOB, "write", "urn:todo:*", "urn:a:*"),
            terms(BOB, expires=timedelta(days=2)),
        ):
            with pytest.raises(InvalidDelegation, match="cannot delegate more"):
                dave.delegate(wider)
        await delegator(it).revoke(first)
        eve = await it.harness.peer(Key("eve")).open(delegations=read_tokens([second]))
        assert eve.closed is not None
        assert isinstance(eve.closed.error, UnknownSpace)


@pytest.mark.rule("ACL-4")
async def test_a_delegate_whose_clock_is_behind_delegates_no_longer_than_its_own_token() -> None:
    async with request_world() as it:
        await it.commit(put("urn:todo:1", 1))
        first = delegator(it).delegate(terms(DAVE))
        late = TimeMs(it.harness.clock.now - 600_000)
        held = read_tokens([first])
        dave = Delegator(it.requester, identity_of("dave"), space=SPACE.did, now=lambda: late, held=held)
        second = dave.delegate(terms(Key("eve"), "read"))
        assert await (await reader(it, Key("eve"), second)).list() == {"urn:todo:1": 1}


@pytest.mark.rule("ACL-4")
async def test_a_loan_ends_when_it_says_and_begins_before_any_clock_that_is_behind() -> None:
    async with request_world() as it:
        now = datetime.fromtimestamp(it.harness.clock.now / 1000, UTC)
        for expires in (now + timedelta(minutes=1), timedelta(minutes=1), 60, 60.0):
            token = delegator(it).delegate(terms(CAROL, "read", "*", expires=expires))
            (held,) = read_tokens([token])
            (delegated,) = verify([held], space=SPACE.did, audience=CAROL.did)
            assert delegated.expires == it.harness.clock.now + 60_000
            assert delegated.not_before == it.harness.clock.now - 5 * 60_000
            assert delegated.prefixes == ("",)


async def test_what_nobody_could_use_is_not_made() -> None:
    async with request_world() as it:
        for wrong in (terms(role="own"), terms(expires=-600), terms(DAVE, "read", "urn:a b*")):
            with pytest.raises(InvalidDelegation):
                delegator(it).delegate(wrong)
        with pytest.raises(InvalidDelegation):
            delegator(it).delegate(DelegationTerms(audience="dave", role="read", prefixes=["*"], expires=60))
        with pytest.raises(InvalidQuery, match="zone"):
            delegator(it).delegate(terms(expires=datetime(2030, 1, 1)))


@pytest.mark.parametrize("text", ["", "!", "a", "abc=def", "abcd.", "äöü"])
def test_text_that_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(InvalidDelegation):
        read_tokens([text])


def test_tokens_are_read_from_text_with_spaces_around_and_from_bytes() -> None:
    assert read_tokens([" YWJj\n", b"abc", "YWJk.YWJj"]) == (b"abc", b"abd")
