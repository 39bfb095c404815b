"""Ed25519 did:key identities and the signature that opens a session (WIRE-2)."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from stemmadb.protocol import identity
from stemmadb.protocol.errors import InvalidDid, Unauthenticated
from stemmadb.protocol.model.values.body import encode

VECTORS = pathlib.Path(__file__).parents[1] / "vectors"
DIDS: dict[str, Any] = json.loads((VECTORS / "dids.json").read_text())
SIGNATURES: list[dict[str, str]] = json.loads((VECTORS / "signatures.json").read_text())["cases"]
FORGED: list[dict[str, str]] = json.loads((VECTORS / "signatures.json").read_text())["forged"]
steady = settings(derandomize=True, deadline=None, max_examples=100)


@pytest.mark.rule("MODEL-1")
@pytest.mark.parametrize("case", DIDS["cases"], ids=[case["did"][-8:] for case in DIDS["cases"]])
def test_a_did_names_its_public_key(case: dict[str, str]) -> None:
    key = bytes.fromhex(case["public_key_hex"])
    assert identity.public_key(case["did"]) == key
    assert identity.did_of(key) == case["did"]


@pytest.mark.rule("MODEL-1")
@pytest.mark.parametrize("case", DIDS["invalid"], ids=[case["why"] for case in DIDS["invalid"]])
def test_what_is_no_ed25519_did_is_refused(case: dict[str, str]) -> None:
    with pytest.raises(InvalidDid):
        identity.public_key(case["did"])


@pytest.mark.rule("MODEL-1")
@given(st.binary(min_size=32, max_size=32))
@steady
def test_every_key_but_the_weak_ones_has_one_did(key: bytes) -> None:
    if key in WEAK:
        return
    assert identity.public_key(identity.did_of(key)) == key


P = 2**255 - 19
CURVE_D = -121665 * pow(121666, -1, P) % P
WEAK = {bytes.fromhex(case["public_key_hex"]) for case in DIDS["invalid"] if "public_key_hex" in case}


def _point(key: bytes) -> tuple[int, int] | None:
    """The point an encoding names, from the curve equation -x^2 + y^2 = 1 + d x^2 y^2 alone."""
    y = (int.from_bytes(key, "little") & (2**255 - 1)) % P
    squared = (y * y - 1) * pow(CURVE_D * y * y + 1, -1, P) % P
    x = pow(squared, (P + 3) // 8, P)
    x = x if x * x % P == squared else x * pow(2, (P - 1) // 4, P) % P
    return (x, y) if x * x % P == squared else None


def _doubled(point: tuple[int, int]) -> tuple[int, int]:
    x, y = point
    product = CURVE_D * x * x * y * y
    return (
        2 * x * y * pow(1 + product, -1, P) % P,
        (y * y + x * x) * pow(1 - product, -1, P) % P,
    )


def _is_weak(key: bytes) -> bool:
    point = _point(key)
    return point is not None and _doubled(_doubled(_doubled(point))) == (0, 1)


@pytest.mark.rule("MODEL-1", "WIRE-2")
def test_the_fourteen_encodings_of_small_order_are_refused_by_that_name() -> None:
    assert len(WEAK) == 14
    for key in WEAK:
        assert _is_weak(key)
        with pytest.raises(InvalidDid, match="small order"):
            identity.public_key(identity.did_of(key))
    for case in DIDS["cases"]:
        assert not _is_weak(bytes.fromhex(case["public_key_hex"]))


@pytest.mark.rule("MODEL-1", "WIRE-2")
@given(st.integers(-40, 40), st.sampled_from([0, 1, P]), st.booleans())
@settings(derandomize=True, deadline=None, max_examples=300)
def test_a_key_is_refused_exactly_if_eight_times_its_point_is_neutral(near: int, base: int, sign: bool) -> None:
    key = ((base + near) % 2**255 | sign << 255).to_bytes(32, "little")
    try:
        identity.public_key(identity.did_of(key))
    except InvalidDid:
        assert _is_weak(key)
    else:
        assert not _is_weak(key)


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize("case", FORGED, ids=[case["why"] for case in FORGED])
def test_a_signature_that_needs_no_private_key_opens_nothing(case: dict[str, str]) -> None:
    key, signature = bytes.fromhex(f"{1:02x}") + bytes(31), bytes.fromhex(case["signature_hex"])
    payload = identity.session_open_payload(**_arguments(case))
    assert payload.hex() == case["payload_hex"]
    Ed25519PublicKey.from_public_bytes(key).verify(signature, payload)  # Ed25519 itself lets it pass
    assert identity.did_of(key) == case["did"]
    with pytest.raises(InvalidDid):
        identity.verify_session_open(**_arguments(case), signature=signature)


@pytest.mark.rule("MODEL-1")
@given(st.text(max_size=60) | st.text(max_size=60).map(lambda text: "did:key:z" + text))
@steady
def test_random_text_is_a_did_or_refused(text: str) -> None:
    try:
        key = identity.public_key(text)
    except InvalidDid as error:
        error.message.encode()
    else:
        assert identity.did_of(key) == text


@pytest.mark.rule("MODEL-1")
def test_a_long_or_broken_text_is_refused_at_once_and_shown_in_short() -> None:
    for text in ("did:key:z" + "1" * 1_000_000, "\ud800" * 100):
        with pytest.raises(InvalidDid) as caught:
            identity.public_key(text)
        assert len(caught.value.message.encode()) < 1_000


def _arguments(case: dict[str, str]) -> dict[str, Any]:
    return {
        "server": case["server"],
        "challenge": bytes.fromhex(case["challenge_hex"]),
        "space": case["space"],
        "principal": case["did"],
        "session": bytes.fromhex(case["session_hex"]),
    }


@pytest.mark.rule("WIRE-2", "WIRE-6")
@pytest.mark.parametrize("case", SIGNATURES, ids=[case["who"] for case in SIGNATURES])
def test_a_signature_opens_the_session_it_was_made_for(case: dict[str, str]) -> None:
    given_ = _arguments(case)
    payload = identity.session_open_payload(**given_)
    assert payload.hex() == case["payload_hex"]
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(case["seed_hex"]))
    assert key.sign(payload).hex() == case["signature_hex"]
    identity.verify_session_open(**given_, signature=bytes.fromhex(case["signature_hex"]))


CHANGES: list[tuple[str, Any]] = [
    ("server", SIGNATURES[0]["did"]),
    ("challenge", bytes(32)),
    ("space", SIGNATURES[0]["did"]),
    ("principal", SIGNATURES[1]["did"]),
    ("session", bytes(16)),
    ("signature", bytes(64)),
    ("signature", b""),
]


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize(("name", "other"), CHANGES, ids=[case[0] for case in CHANGES])
def test_a_signature_opens_nothing_else(name: str, other: Any) -> None:
    given_ = {**_arguments(SIGNATURES[0]), "signature": bytes.fromhex(SIGNATURES[0]["signature_hex"])}
    identity.verify_session_open(**given_)
    with pytest.raises(Unauthenticated):
        identity.verify_session_open(**{**given_, name: other})


@pytest.mark.rule("WIRE-2")
def test_a_principal_that_is_no_did_is_not_asked_for_its_signature() -> None:
    given_ = {**_arguments(SIGNATURES[0]), "signature": bytes(64), "principal": "did:web:example.org"}
    with pytest.raises(InvalidDid):
        identity.verify_session_open(**given_)


@pytest.mark.rule("WIRE-2")
@given(st.binary(max_size=70))
@steady
def test_random_bytes_sign_nothing(signature: bytes) -> None:
    with pytest.raises(Unauthenticated):
        identity.verify_session_open(**_arguments(SIGNATURES[0]), signature=signature)


@pytest.mark.rule("WIRE-2")
def test_the_payload_is_a_msgpack_list_with_its_tag_first() -> None:
    case = SIGNATURES[0]
    given_ = _arguments(case)
    assert bytes.fromhex(case["payload_hex"]) == encode(
        [
            "stemma.v1 session.open",
            given_["server"],
            given_["challenge"],
            given_["space"],
            case["did"],
            given_["session"],
        ]
    )
