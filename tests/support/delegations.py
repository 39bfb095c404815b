"""Keys with names, and delegations made with them, for tests."""

from __future__ import annotations

from typing import Any

import msgspec
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from space import SPACE
from stemmadb.protocol import identity
from stemmadb.protocol.model.access import delegation
from stemmadb.protocol.model.access.delegation import Delegation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Did


class Key:
    """The key pair that belongs to a name; the same each time."""

    def __init__(self, name: str) -> None:
        self.seed = blake3(f"key of {name}".encode()).digest()
        private = Ed25519PrivateKey.from_private_bytes(self.seed)
        self.sign = private.sign
        self.did: Did = identity.did_of(private.public_key().public_bytes_raw())


OLGA, DORA, EMIL, FINN = (Key(name) for name in ("olga", "dora", "emil", "finn"))
"""Olga owns the space in most tests; the others have delegated rights."""
ROLES = {SPACE: "own", OLGA.did: "own"}


def saying(issuer: Key, audience: Key, **how: Any) -> Delegation:
    """What a delegation says: to write under `urn:a:` from 1,000 to 9,000, unless told otherwise.

    `parent` is the token it is made from.
    """
    parent: bytes | None = how.pop("parent", None)
    how = {
        "space": SPACE,
        "role": "write",
        "prefixes": ("urn:a:",),
        "not_before": 1_000,
        "expires": 9_000,
        "nonce": b"n" * 16,
        **how,
    }
    name = None if parent is None else delegation.name_of(parent)
    return Delegation(issuer=issuer.did, audience=audience.did, parent=name, **how)


def delegate(issuer: Key, audience: Key, **how: Any) -> bytes:
    """A token, as its issuer makes it."""
    return delegation.issue(saying(issuer, audience, **how), issuer.sign)


def forge(said: Delegation, signer: Key, **changed: Any) -> bytes:
    """A token with a right signature and nothing else checked."""
    payload = encode(msgspec.structs.replace(said, **changed))
    return encode((payload, signer.sign(payload)))
