"""An identity: a DID and the key that signs for it."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from stemmadb.protocol import identity
from stemmadb.protocol.model.values.ids import Did


class Identity:
    """An Ed25519 key and its did:key. The key never leaves the object but to be kept by the key ring."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.did: Did = identity.did_of(key.public_key().public_bytes_raw())

    @classmethod
    def make(cls) -> Identity:
        """A new one."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> Identity:
        """The one that these 32 secret bytes make."""
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    def seed(self) -> bytes:
        """The 32 secret bytes, for the key ring."""
        return self._key.private_bytes_raw()

    def sign(self, payload: bytes) -> bytes:
        return self._key.sign(payload)

    def __repr__(self) -> str:
        return f"Identity({self.did})"
