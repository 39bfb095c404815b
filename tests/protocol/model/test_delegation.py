"""Tokens: what they hold, what is refused, and what valid ones delegate (ACL-4)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegations import DORA, EMIL, FINN, OLGA, ROLES, Key, delegate, forge, saying
from space import ALICE, SPACE
from stemmadb.protocol.errors import InvalidDelegation
from stemmadb.protocol.model.access import delegation
from stemmadb.protocol.model.access.access_roles import EVERY_ID, NOBODY, Rights
from stemmadb.protocol.model.access.delegation import DelegatedRights, delegated_rights, name_of, next_change, verify
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Hash, TimeMs

NOW = TimeMs(5_000)


def refused(tokens: list[bytes], audience: Key = DORA) -> str:
    """Why the tokens delegate nothing."""
    with pytest.raises(InvalidDelegation) as caught:
        verify(tokens, space=SPACE, audience=audience.did)
    why: str = caught.value.facts["why"]
    assert caught.value.message.isprintable()
    return why


def rights(
    delegated: tuple[DelegatedRights, ...],
    now: int = NOW,
    *,
    roles: object = ROLES,
    revoked: frozenset[Hash] = frozenset(),
) -> Rights:
    return delegated_rights(delegated, roles=roles, is_revoked=revoked.__contains__, now=TimeMs(now))


# ---------------------------------------------------------------- one token


@pytest.mark.rule("ACL-4")
def test_a_token_of_an_owner_delegates_what_it_says() -> None:
    token = delegate(OLGA, DORA, prefixes=("urn:a:", "urn:b:"))
    (delegated,) = verify([token], space=SPACE, audience=DORA.did)
    assert delegated == DelegatedRights(
        role="write",
        prefixes=("urn:a:", "urn:b:"),
        not_before=TimeMs(1_000),
        expires=TimeMs(9_000),
        names=(name_of(token),),
        issuers=(OLGA.did,),
    )
    assert delegated.owner == OLGA.did
    assert rights((delegated,)) == Rights("write", ("urn:a:", "urn:b:"))


@pytest.mark.rule("ACL-4")
def test_a_session_without_a_token_has_no_delegated_rights() -> None:
    assert verify([], space=SPACE, audience=DORA.did) == ()
    assert rights(()) == NOBODY


@pytest.mark.rule("ACL-4")
def test_a_token_is_the_shortest_msgpack_of_a_payload_and_its_signature() -> None:
    payload, signature = msgspec.msgpack.decode(delegate(OLGA, DORA))
    assert len(signature) == 64
    assert msgspec.msgpack.decode(payload) == [
        "stemma.v1 delegation",
        OLGA.did,
        DORA.did,
        SPACE,
        "write",
        ["urn:a:"],
        1_000,
        9_000,
        b"n" * 16,
        None,
    ]


def longer(token: bytes) -> bytes:
    """The same token with a longer form of its outer array: another name for the same words."""
    assert token[0] == 0x92
    return b"\xdc\x00\x02" + token[1:]


def padded(token: bytes) -> bytes:
    """A token whose payload is signed, and not in its shortest form."""
    payload = b"\xdc\x00\x0a" + msgspec.msgpack.decode(token)[0][1:]
    return encode((payload, OLGA.sign(payload)))


def shorter(token: bytes) -> bytes:
    """A token whose payload lacks its last field."""
    fields = msgspec.msgpack.decode(msgspec.msgpack.decode(token)[0])
    payload = encode(fields[:-1])
    return encode((payload, OLGA.sign(payload)))


ORDER = 2**252 + 27742317777372353535851937790883648493


def second_signature(token: bytes) -> bytes:
    """The other signature that a verifier which does not look closely takes for the same payload."""
    payload, signature = msgspec.msgpack.decode(token)
    scalar = int.from_bytes(signature[32:], "little") + ORDER
    return encode((payload, signature[:32] + scalar.to_bytes(32, "little")))


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (longer, "shortest"),
        (padded, "shortest"),
        (shorter, "shortest"),
        (second_signature, "not signed"),
        (lambda token: token + b"\x00", "cannot be read"),
        (lambda token: token[:-1], "cannot be read"),
        (lambda _: b"", "cannot be read"),
        (lambda _: b"\xc1", "cannot be read"),
        (lambda _: encode((b"\xa1\xff", bytes(64))), "cannot be read"),
        (lambda token: encode([*msgspec.msgpack.decode(token), 1]), "cannot be read"),
        (lambda token: encode((msgspec.msgpack.decode(token)[0], bytes(64))), "not signed"),
        (lambda token: encode((msgspec.msgpack.decode(token)[0], b"")), "not signed"),
        (lambda token: token.replace(b"urn:a:", b"urn:b:"), "not signed"),
    ],
)
def test_a_token_has_one_form_and_so_one_name(change: Callable[[bytes], bytes], why: str) -> None:
    assert why in refused([change(delegate(OLGA, DORA))])


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"role": "own"}, "cannot be delegated"),
        ({"role": "none"}, "cannot be delegated"),
        ({"prefixes": ()}, "delegates no ids"),
        ({"prefixes": ("urn:a:",) * 65}, "65 prefixes and delegation_prefixes_max is 64"),
        ({"prefixes": ("urn:a:", "urn b")}, "can begin no id"),
        ({"prefixes": ("x" * 513,)}, "can begin no id"),
        ({"not_before": 9_000}, "expires before it begins"),
        ({"not_before": -1}, "expires before it begins"),
        ({"expires": 2**63}, "expires before it begins"),
        ({"nonce": b"n" * 15}, "16 bytes"),
        ({"nonce": b"n" * 17}, "16 bytes"),
        ({"parent": b"p" * 31}, "32 bytes"),
        ({"audience": "did:web:example.org"}, "no Ed25519 did:key"),
        ({"issuer": "did:web:example.org"}, "no Ed25519 did:key"),
        ({"space": ALICE}, "another space"),
        ({"prefixes": tuple(f"urn:{'x' * 90}{number}" for number in range(64))}, "delegation_bytes_max is 4096"),
    ],
)
def test_what_no_signature_makes_right_is_refused(how: dict[str, Any], why: str) -> None:
    said = saying(OLGA, DORA)
    assert why in refused([forge(said, OLGA, **how)])
    if "space" not in how:
        with pytest.raises(InvalidDelegation, match=why):
            delegation.issue(msgspec.structs.replace(said, **how), OLGA.sign)


@pytest.mark.rule("ACL-4")
def test_nothing_is_issued_with_the_key_of_somebody_else() -> None:
    with pytest.raises(InvalidDelegation, match="not signed by its issuer"):
        delegation.issue(saying(OLGA, DORA), FINN.sign)


@pytest.mark.rule("ACL-4")
def test_a_token_at_its_bounds_is_taken() -> None:
    prefixes = tuple(f"urn:{number:02}:{'x' * 50}" for number in range(64))
    token = delegate(OLGA, DORA, prefixes=prefixes, not_before=0, expires=2**63 - 1)
    assert 3_900 < len(token) <= 4_096
    assert verify([token], space=SPACE, audience=DORA.did)[0].prefixes == prefixes


@pytest.mark.rule("ACL-4")
@given(st.binary(max_size=200))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_random_bytes_delegate_nothing(data: bytes) -> None:
    refused([data])


@pytest.mark.rule("ACL-4")
@given(st.data())
@settings(derandomize=True, deadline=None, max_examples=150)
def test_a_token_with_a_byte_changed_delegates_nothing(data: st.DataObject) -> None:
    token = bytearray(delegate(OLGA, DORA))
    token[data.draw(st.integers(0, len(token) - 1))] ^= data.draw(st.integers(1, 255))
    refused([bytes(token)])


# ---------------------------------------------------------------- chains

FIRST = delegate(OLGA, DORA, prefixes=("urn:a:", "urn:b:"))


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_chain_delegates_what_its_last_token_says(is_turned: bool) -> None:
    second = delegate(DORA, EMIL, parent=FIRST, role="read", prefixes=("urn:a:x",), not_before=2_000, expires=3_000)
    tokens = [second, FIRST] if is_turned else [FIRST, second]
    (delegated,) = verify(tokens, space=SPACE, audience=EMIL.did)
    assert (delegated.role, delegated.prefixes, delegated.not_before, delegated.expires) == (
        "read",
        ("urn:a:x",),
        2_000,
        3_000,
    )
    assert delegated.names == (name_of(second), name_of(FIRST))
    assert delegated.issuers == (DORA.did, OLGA.did)
    assert delegated.owner == OLGA.did


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"prefixes": ("urn:c:",)}, "delegates ids that"),
        ({"prefixes": ("urn:a:", "urn:c:")}, "delegates ids that"),
        ({"prefixes": ("urn:a",)}, "delegates ids that"),
        ({"prefixes": ("",)}, "delegates ids that"),
        ({"not_before": 999}, "valid for longer"),
        ({"expires": 9_001}, "valid for longer"),
    ],
)
def test_a_link_that_is_wider_than_the_one_above_is_refused(how: dict[str, Any], why: str) -> None:
    assert why in refused([FIRST, delegate(DORA, EMIL, parent=FIRST, **how)], EMIL)


@pytest.mark.rule("ACL-4")
def test_a_delegate_that_may_only_read_cannot_delegate_writing() -> None:
    reading = delegate(OLGA, DORA, role="read")
    assert "stronger role" in refused([reading, delegate(DORA, EMIL, parent=reading)], EMIL)
    assert verify([reading, delegate(DORA, EMIL, parent=reading, role="read")], space=SPACE, audience=EMIL.did)


@pytest.mark.rule("ACL-4")
def test_only_the_one_it_was_delegated_to_delegates_it_further() -> None:
    assert "the parent token was issued to another identity" in refused(
        [FIRST, delegate(FINN, EMIL, parent=FIRST)], EMIL
    )


@pytest.mark.rule("ACL-4")
def test_a_chain_with_a_link_missing_is_refused() -> None:
    second = delegate(DORA, EMIL, parent=FIRST)
    assert "is not shown" in refused([second], EMIL)
    third = delegate(EMIL, FINN, parent=second)
    assert "is not shown" in refused([third, FIRST], FINN)


@pytest.mark.rule("ACL-4")
def test_a_token_that_is_delegated_to_somebody_else_is_of_no_use() -> None:
    assert "issued to another identity" in refused([FIRST], EMIL)
    assert "issued to another identity" in refused([FIRST, delegate(DORA, EMIL, parent=FIRST)], DORA)


@pytest.mark.rule("ACL-4")
def test_a_token_of_another_space_spoils_the_chain() -> None:
    elsewhere = delegate(OLGA, DORA, space=ALICE)
    assert "another space" in refused([elsewhere, delegate(DORA, EMIL, parent=elsewhere)], EMIL)


def chain(length: int) -> tuple[list[bytes], Key]:
    keys = [OLGA, *(Key(f"link {number}") for number in range(length))]
    tokens: list[bytes] = []
    for above, below in itertools.pairwise(keys):
        tokens.append(delegate(above, below, parent=tokens[-1] if tokens else None))
    return tokens, keys[-1]


@pytest.mark.rule("ACL-4")
def test_a_chain_has_at_most_eight_links() -> None:
    tokens, last = chain(8)
    (delegated,) = verify(tokens, space=SPACE, audience=last.did)
    assert len(delegated.names) == 8
    tokens, last = chain(9)
    assert "longer than delegation_chain_max, 8" in refused(tokens, last)


@pytest.mark.rule("ACL-4")
def test_at_most_thirty_two_tokens_are_shown() -> None:
    tokens = [delegate(OLGA, DORA, nonce=bytes([number]) * 16) for number in range(33)]
    assert len(verify(tokens[:32], space=SPACE, audience=DORA.did)) == 32
    assert "33 tokens were shown and delegations_max is 32" in refused(tokens)


@pytest.mark.rule("ACL-4")
def test_a_token_shown_twice_counts_once() -> None:
    assert len(verify([FIRST, FIRST], space=SPACE, audience=DORA.did)) == 1


@pytest.mark.rule("ACL-4")
def test_a_delegate_may_narrow_its_own_rights() -> None:
    narrower = delegate(DORA, DORA, parent=FIRST, role="read")
    delegated = verify([FIRST, narrower], space=SPACE, audience=DORA.did)
    assert rights(delegated) == Rights("read", ("urn:a:",))


# ---------------------------------------------------------------- what it gives


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize(
    ("now", "holds"), [(0, False), (999, False), (1_000, True), (8_999, True), (9_000, False), (2**60, False)]
)
def test_a_delegation_holds_from_its_beginning_until_it_expires(now: int, holds: bool) -> None:
    delegated = verify([delegate(OLGA, DORA)], space=SPACE, audience=DORA.did)
    assert rights(delegated, now) == (Rights("write", ("urn:a:",)) if holds else NOBODY)


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_revocation_of_any_link_ends_the_chain(at: int) -> None:
    tokens, last = chain(3)
    delegated = verify(tokens, space=SPACE, audience=last.did)
    assert rights(delegated) == Rights("write", ("urn:a:",))
    assert rights(delegated, revoked=frozenset({name_of(tokens[at])})) == NOBODY
    assert rights(delegated, revoked=frozenset({name_of(FIRST)})) != NOBODY


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize("roles", [{SPACE: "own"}, {SPACE: "own", OLGA.did: "write"}, None, "own", {DORA.did: "own"}])
def test_what_was_delegated_ends_when_its_owner_is_none_any_more(roles: object) -> None:
    tokens, last = chain(2)
    delegated = verify(tokens, space=SPACE, audience=last.did)
    assert rights(delegated, roles=roles) == NOBODY


@pytest.mark.rule("ACL-4")
def test_several_delegations_give_the_weakest_role_for_the_ids_of_them_all() -> None:
    tokens = [
        delegate(OLGA, DORA, prefixes=("urn:b:", "urn:a:")),
        delegate(OLGA, DORA, prefixes=("urn:c:", "urn:a:x"), role="read"),
    ]
    delegated = verify(tokens, space=SPACE, audience=DORA.did)
    assert rights(delegated) == Rights("read", ("urn:a:", "urn:b:", "urn:c:"))
    assert rights(delegated, revoked=frozenset({name_of(tokens[1])})) == Rights("write", ("urn:a:", "urn:b:"))
    assert rights(delegated, revoked=frozenset(map(name_of, tokens))) == NOBODY


@pytest.mark.rule("ACL-4")
def test_every_id_is_delegated_by_the_empty_prefix() -> None:
    tokens = [delegate(OLGA, DORA, prefixes=("urn:a:", "")), delegate(OLGA, DORA)]
    assert rights(verify(tokens, space=SPACE, audience=DORA.did)) == Rights("write", EVERY_ID)


@pytest.mark.rule("ACL-4")
def test_the_next_time_at_which_something_begins_or_ends_is_known() -> None:
    tokens = [delegate(OLGA, DORA), delegate(OLGA, DORA, not_before=2_000, expires=3_000)]
    delegated = verify(tokens, space=SPACE, audience=DORA.did)
    steps = [0, 1_000, 1_999, 2_000, 3_000, 8_999, 9_000]
    assert [next_change(delegated, TimeMs(now)) for now in steps] == [1_000, 2_000, 2_000, 3_000, 9_000, 9_000, None]
    assert next_change((), TimeMs(0)) is None
