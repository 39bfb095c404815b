"""Roles and the ids they hold for."""

from __future__ import annotations

import itertools

import pytest

from stemmadb.protocol.model.access import NOBODY, OWNER, Rights, Role

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
