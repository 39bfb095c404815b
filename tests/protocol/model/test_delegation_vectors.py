"""The golden delegations: what other languages test against holds here (ACL-4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from stemmadb.protocol.errors import InvalidDelegation
from stemmadb.protocol.model.access import delegation
from stemmadb.protocol.model.access.delegation import Delegation
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.body import encode

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "vectors" / "delegations.json").read_text())
SPACE: str = VECTORS["space"]


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize("case", VECTORS["tokens"], ids=[case["reference"][3:11] for case in VECTORS["tokens"]])
def test_every_implementation_makes_the_same_token(case: dict[str, Any]) -> None:
    says = case["says"]
    raw = {
        **says,
        "prefixes": tuple(says["prefixes"]),
        "nonce": bytes.fromhex(says["nonce"]),
        "parent": says["parent"] and bytes.fromhex(says["parent"]),
    }
    seed = next(key["seed"] for key in VECTORS["keys"] if key["did"] == says["issuer"])
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
    token = delegation.issue(Delegation(**raw), private.sign)
    assert token.hex() == case["token"]
    assert encode(list(raw.values())).hex() == case["payload"]
    assert private.sign(bytes.fromhex(case["payload"])).hex() == case["signature"]
    assert encode([bytes.fromhex(case["payload"]), bytes.fromhex(case["signature"])]) == token
    assert blake3(token).hexdigest() == delegation.name_of(token).hex() == case["name"]
    assert reference.write(bytes.fromhex(case["name"])) == case["reference"]


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize("case", VECTORS["cases"], ids=[case["what"] for case in VECTORS["cases"]])
def test_tokens_give_the_rights_that_are_written_down(case: dict[str, Any]) -> None:
    tokens = [bytes.fromhex(token) for token in case["tokens"]]
    revoked = {bytes.fromhex(name) for name in case["revoked"]}
    delegated = delegation.verify(tokens, space=SPACE, audience=case["audience"])
    rights = delegation.delegated_rights(
        delegated, roles=case["roles"], is_revoked=revoked.__contains__, now=case["now"]
    )
    assert {"role": rights.role, "prefixes": list(rights.prefixes)} == case["rights"]


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize("case", VECTORS["refused"], ids=[case["what"] for case in VECTORS["refused"]])
def test_tokens_that_are_wrong_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidDelegation):
        delegation.verify([bytes.fromhex(token) for token in case["tokens"]], space=SPACE, audience=case["audience"])
