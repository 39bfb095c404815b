"""Delegations against a naive reading of the rule, over random tokens, lists, revocations and times (ACL-4)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegations import DORA, EMIL, FINN, OLGA, Key, forge, saying
from space import SPACE
from stemmadb.protocol.errors import InvalidDelegation
from stemmadb.protocol.model.access.access_roles import Rights, Role
from stemmadb.protocol.model.access.delegation import delegated_rights, name_of, verify
from stemmadb.protocol.model.values.ids import TimeMs

KEYS = [OLGA, DORA, EMIL, FINN]
RANK: dict[Role, int] = {"none": 0, "read": 1, "write": 2, "own": 3}
PREFIXES = ["", "urn:", "urn:a:", "urn:a:x", "urn:b:", "urn:c:y"]
PROBES = ["urn:a:", "urn:a:x1", "urn:a:z", "urn:b:1", "urn:c:y", "urn:c:z", "other:1"]
Fields = dict[str, Any]


class World(msgspec.Struct):
    """Tokens with what they say, and everything else that decides what they give."""

    tokens: list[tuple[bytes, Fields]]
    shown: list[bytes]
    audience: Key
    roles: dict[str, str]
    revoked: set[bytes]
    now: int


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Mostly chains that could hold: each token continues an earlier one, and now and then is wider than it."""
    tokens: list[tuple[bytes, Fields]] = []
    for number in range(draw(st.integers(1, 5))):
        is_first = not tokens or draw(st.integers(0, 4)) == 0
        above = None if is_first else draw(st.sampled_from(tokens))
        tokens.append(_token(draw, number, above))
    (_, ends) = draw(st.sampled_from(tokens))
    audience = next(key for key in KEYS if key.did == ends["audience"])
    shown = _chains_to(audience, tokens)
    if draw(st.integers(0, 5)) == 0:
        shown = draw(st.lists(st.sampled_from([token for token, _ in tokens]), min_size=1, unique=True))
    return World(
        tokens,
        draw(st.permutations(shown)),
        audience,
        {OLGA.did: draw(st.sampled_from(["own", "own", "own", "write"])), EMIL.did: "own", SPACE: "own"},
        {name_of(token) for token in shown if draw(st.integers(0, 9)) == 0},
        draw(st.integers(6, 30)),
    )


def _chains_to(audience: Key, tokens: list[tuple[bytes, Fields]]) -> list[bytes]:
    """The tokens delegated to somebody, and all that those were made from."""
    wanted = {name_of(token) for token, said in tokens if said["audience"] == audience.did}
    for token, said in reversed(tokens):
        if name_of(token) in wanted and said["parent"] is not None:
            wanted.add(said["parent"])
    return [token for token, _ in tokens if name_of(token) in wanted]


def _token(draw: st.DrawFn, number: int, above: tuple[bytes, Fields] | None) -> tuple[bytes, Fields]:
    fields: Fields
    if above is None:
        issuer = draw(st.sampled_from([OLGA, OLGA, OLGA, DORA, EMIL]))
        fields = {
            "role": draw(st.sampled_from(["read", "write"])),
            "prefixes": tuple(draw(st.lists(st.sampled_from(PREFIXES), min_size=1, max_size=3))),
            "not_before": draw(st.integers(0, 10)),
            "expires": draw(st.integers(11, 40)),
        }
    else:
        token, whole = above
        issuer = next(key for key in KEYS if key.did == whole["audience"])
        fields = {"parent": token, **{name: whole[name] for name in ("role", "prefixes", "not_before", "expires")}}
        if whole["expires"] - whole["not_before"] > 2 and draw(st.booleans()):
            fields["not_before"] += draw(st.sampled_from([1, 1, 0, 0, 0, -1] if whole["not_before"] else [1, 0]))
            fields["expires"] += draw(st.sampled_from([-1, 0, 0, 0, 0, 0, 0, 1]))
        if draw(st.booleans()):
            fields["prefixes"] = tuple(prefix + draw(st.sampled_from(["", "x", "1"])) for prefix in whole["prefixes"])
        if draw(st.integers(0, 7)) == 0:
            fields["prefixes"] = tuple(draw(st.lists(st.sampled_from(PREFIXES), min_size=1, max_size=2)))
            fields["role"] = draw(st.sampled_from(["read", "write"]))
    said = saying(issuer, draw(st.sampled_from(KEYS)), nonce=bytes([number]) * 16, **fields)
    return forge(said, issuer), {**msgspec.structs.asdict(said), "name": number}


def naive(world: World) -> Rights | None:
    """The rule read aloud, id by id and link by link; None if something that is shown cannot be right."""
    by_name = {name_of(token): said for token, said in world.tokens if token in world.shown}
    above_all = {said["parent"] for said in by_name.values()}
    chains = []
    for name, said in by_name.items():
        if name in above_all:
            continue
        if said["audience"] != world.audience.did:
            return None
        links = [(name, said)]
        while (parent := links[-1][1]["parent"]) is not None:
            if parent not in by_name or len(links) == 8:
                return None
            links.append((parent, by_name[parent]))
        if any(_is_wider(low, high) for (_, low), (_, high) in itertools.pairwise(links)):
            return None
        chains.append(links)
    holding = [links for links in chains if _holds(links, world)]
    if not holding:
        return Rights("none")
    role = min((links[0][1]["role"] for links in holding), key=RANK.__getitem__)
    return Rights(role, tuple(prefix for links in holding for prefix in links[0][1]["prefixes"]))


def _is_wider(low: Fields, high: Fields) -> bool:
    return (
        low["issuer"] != high["audience"]
        or RANK[low["role"]] > RANK[high["role"]]
        or not all(any(one.startswith(prefix) for prefix in high["prefixes"]) for one in low["prefixes"])
        or low["not_before"] < high["not_before"]
        or low["expires"] > high["expires"]
    )


def _holds(links: Sequence[tuple[bytes, Fields]], world: World) -> bool:
    return all(
        said["not_before"] <= world.now < said["expires"] and name not in world.revoked for name, said in links
    ) and (world.roles.get(links[-1][1]["issuer"]) == "own")


def given_by(world: World) -> Rights | None:
    try:
        delegated = verify(world.shown, space=SPACE, audience=world.audience.did)
    except InvalidDelegation:
        return None
    now = TimeMs(world.now)
    return delegated_rights(delegated, roles=world.roles, is_revoked=world.revoked.__contains__, now=now)


@pytest.mark.rule("ACL-4")
@given(worlds())
@settings(derandomize=True, deadline=None, max_examples=300)
def test_what_is_delegated_is_what_the_rule_says(world: World) -> None:
    expected, found = naive(world), given_by(world)
    assert (expected is None) is (found is None)
    if expected is not None and found is not None:
        assert found.role == expected.role
        for id_ in PROBES:
            assert found.may_read(id_) is expected.may_read(id_)
            assert found.may_write(id_) is expected.may_write(id_)


@pytest.mark.rule("ACL-4")
@given(worlds())
@settings(derandomize=True, deadline=None, max_examples=200)
def test_a_chain_never_gives_more_than_any_of_its_links(world: World) -> None:
    """What may be done is let by every link of some chain: none of them has to be believed without the others."""
    found = given_by(world)
    if found is None:
        return
    delegated = verify(world.shown, space=SPACE, audience=world.audience.did)
    said = {name_of(token): fields for token, fields in world.tokens}
    for id_ in PROBES:
        if found.may_read(id_):
            assert any(
                all(_lets(said[name], id_, found.role, world.now) for name in chain.names)
                and not world.revoked & set(chain.names)
                for chain in delegated
            )


def _lets(link: Fields, id_: str, role: Role, now: int) -> bool:
    is_in_time = link["not_before"] <= now < link["expires"]
    return is_in_time and RANK[link["role"]] >= RANK[role] and id_.startswith(link["prefixes"])
