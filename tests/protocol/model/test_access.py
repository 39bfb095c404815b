"""Roles and the ids they hold for."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from space import ALICE, BOB, SPACE
from stemmadb.protocol.model.access import access_roles
from stemmadb.protocol.model.access.access_roles import EVERY_ID, FOUNDER, NOBODY, OWNER, UNFOUNDED, Rights, Role

ROLES: list[Role] = ["none", "read", "write", "own"]


@pytest.mark.rule("COMMIT-2")
@pytest.mark.parametrize(("mine", "asked"), list(itertools.product(ROLES, ROLES)))
def test_a_role_includes_those_below_it(mine: Role, asked: Role) -> None:
    assert Rights(mine).has(asked) is (ROLES.index(mine) >= ROLES.index(asked))


@pytest.mark.rule("COMMIT-2")
@pytest.mark.parametrize("role", ROLES)
def test_rights_hold_for_their_prefixes_only(role: Role) -> None:
    rights = Rights(role, ("urn:a:", "urn:b:"))
    for id_, inside in [("urn:a:1", True), ("urn:b:", True), ("urn:c:1", False), ("urn:a", False)]:
        assert rights.may_read(id_) is (inside and role != "none")
        assert rights.may_write(id_) is (inside and role in ("write", "own"))


@pytest.mark.rule("COMMIT-2")
def test_an_owner_may_everything_and_nobody_nothing() -> None:
    assert OWNER.may_write("urn:x")
    assert OWNER.has("own")
    assert not NOBODY.may_read("urn:x")
    assert not NOBODY.has("read")


@pytest.mark.rule("ACL-1")
def test_the_access_list_gives_a_role_for_every_id_or_nothing() -> None:
    roles = {ALICE: "own", BOB: "read"}
    assert access_roles.by_list(roles, ALICE, SPACE) == OWNER
    assert access_roles.by_list(roles, BOB, SPACE) == Rights("read", EVERY_ID)
    assert access_roles.by_list(roles, SPACE, SPACE) == NOBODY


@pytest.mark.rule("ACL-1")
def test_only_those_whom_the_list_says_so_are_owners() -> None:
    roles = {ALICE: "own", BOB: "write"}
    assert [access_roles.is_owner(roles, who) for who in (ALICE, BOB, SPACE)] == [True, False, False]
    assert not access_roles.is_owner(None, SPACE)


@pytest.mark.rule("ACL-3")
@pytest.mark.parametrize("nothing", [None, [], "own"])
def test_before_there_is_a_list_its_own_key_may_found_a_space_and_others_nothing(nothing: object) -> None:
    founder = access_roles.by_list(nothing, SPACE, SPACE)
    assert founder == FOUNDER
    assert founder.has("own")
    for rights in (founder, access_roles.by_list(nothing, ALICE, SPACE)):
        assert not rights.may_read("urn:x")
        assert not rights.may_read(SPACE)
        assert not rights.may_write("urn:x")
    assert access_roles.by_list(nothing, ALICE, SPACE) == UNFOUNDED


PREFIXES = st.lists(st.text("ab", max_size=4), max_size=6)


@pytest.mark.rule("ACL-4")
@given(PREFIXES)
def test_joined_prefixes_hold_for_the_same_ids_and_none_says_what_another_does(prefixes: list[str]) -> None:
    joined = access_roles.joined(prefixes)
    for length in range(6):
        for letters in itertools.product("ab", repeat=length):
            id_ = "".join(letters)
            assert id_.startswith(joined) is id_.startswith(tuple(prefixes))
    assert list(joined) == sorted(set(joined))
    assert not any(one != other and one.startswith(other) for one in joined for other in joined)
    assert ("" in prefixes) is (joined == EVERY_ID)


@pytest.mark.rule("ACL-4")
@given(PREFIXES, st.text("ab", max_size=4))
def test_a_prefix_is_covered_if_every_id_under_it_is(prefixes: list[str], prefix: str) -> None:
    longer = ["".join(letters) for letters in itertools.product("ab", repeat=5 - len(prefix))]
    if access_roles.covers(tuple(prefixes), prefix):
        assert all((prefix + rest).startswith(tuple(prefixes)) for rest in longer)
    else:
        assert not prefix.startswith(tuple(prefixes))
