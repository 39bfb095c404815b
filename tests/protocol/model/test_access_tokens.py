"""Access tokens and the text of delegations: the same bytes in every implementation, and rights that only narrow."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from delegations import DORA, OLGA, Key, delegate
from space import SPACE
from stemmadb.protocol.errors import Unauthenticated
from stemmadb.protocol.model.access import access_token, delegation, text_form
from stemmadb.protocol.model.access.access_roles import Rights
from stemmadb.protocol.model.access.access_token import AccessToken
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import TimeMs

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "access_tokens.json").read_text())
NOW = TimeMs(1_000_000)


def saying(principal: Key, **how: Any) -> AccessToken:
    said: dict[str, Any] = {
        "server": DORA.did,
        "space": SPACE,
        "principal": principal.did,
        "role": "write",
        "prefixes": ("",),
        "not_before": NOW,
        "expires": TimeMs(NOW + 600_000),
        "nonce": b"n" * 16,
    }
    return AccessToken(**(said | how))


@pytest.mark.rule("TOKEN-1")
@pytest.mark.parametrize("vector", VECTORS["tokens"], ids=lambda one: one["what"])
def test_every_implementation_makes_the_same_token(vector: dict[str, Any]) -> None:
    key = Key(vector["signer"])
    assert key.seed.hex() == vector["seed"]
    token = msgspec.convert(vector["token"] | {"nonce": bytes.fromhex(vector["token"]["nonce"])}, dict)
    made = access_token.issue(AccessToken(**(token | {"prefixes": tuple(token["prefixes"])})), key.sign)
    assert access_token.write_text(made) == vector["text"]
    assert reference.write(access_token.name_of(made)) == vector["name"]


@pytest.mark.rule("TOKEN-1")
@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda one: one["what"])
def test_texts_that_are_no_token_are_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated):
        access_token.read(access_token.read_text(vector["text"])[0])


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize("vector", VECTORS["delegations"], ids=lambda one: one["what"])
def test_a_chain_of_delegations_has_one_text(vector: dict[str, Any]) -> None:
    links = [base64.b64decode(one) for one in vector["links"]]
    assert text_form.write_chain(links) == vector["text"]
    assert [text_form.read(one) for one in vector["text"].split(text_form.SEPARATOR)] == links


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize("text", ["AA==", "A", "A A", "AB", "+/+/", "AA\n"])
def test_another_text_for_bytes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"base64url|one form"):
        text_form.read(text)


@pytest.mark.rule("TOKEN-2")
@pytest.mark.parametrize(
    ("listed", "role", "prefixes", "gets"),
    [
        ("own", "read", ("",), Rights("read")),
        ("own", "own", ("",), Rights("own")),
        ("read", "write", ("",), Rights("read")),
        ("write", "own", ("urn:a:",), Rights("write", ("urn:a:",))),
        (None, "write", ("",), Rights("none")),
    ],
)
def test_a_token_gives_no_more_than_the_access_list(
    listed: str | None, role: Any, prefixes: tuple[str, ...], gets: Rights
) -> None:
    roles = {OLGA.did: "own"} | ({} if listed is None else {DORA.did: listed})
    delegated = access_token.link(saying(DORA, role=role, prefixes=prefixes), reference.hash_bytes(b"t"))
    found = delegation.delegated_rights(delegated, roles=roles, is_revoked=lambda _: False, now=NOW)
    assert found == gets


@pytest.mark.rule("TOKEN-2")
def test_a_token_narrows_the_delegations_beside_it() -> None:
    chain = delegate(OLGA, DORA, prefixes=("urn:a:", "urn:b:"), not_before=0, expires=NOW + 10_000)
    chains = delegation.verify([chain], space=SPACE, audience=DORA.did)
    name = reference.hash_bytes(b"t")

    def rights(at: int, revoked: bytes = b"", **how: Any) -> Rights:
        delegated = access_token.link(saying(DORA, **how), name, chains)
        roles = {OLGA.did: "own", DORA.did: "own"}
        return delegation.delegated_rights(
            delegated, roles=roles, is_revoked=lambda one: one == revoked, now=TimeMs(at)
        )

    assert rights(NOW, prefixes=("urn:a:1",)) == Rights("write", ("urn:a:1",))
    assert rights(NOW, prefixes=("urn:",), role="read") == Rights("read", ("urn:a:", "urn:b:"))
    assert rights(NOW, prefixes=("urn:c:",)) == Rights("none")
    assert rights(NOW, revoked=name) == Rights("none")
    assert rights(NOW + 10_000) == Rights("none"), "the delegation has expired, and the list does not count"
    assert rights(NOW - access_token.SKEW_MS) == Rights("write", ("urn:a:", "urn:b:"))
    assert rights(NOW - access_token.SKEW_MS - 1) == Rights("none")
