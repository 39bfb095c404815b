"""Bytes, hashes, names and keys as docs/spec says them, written without a line of StemmaDB's code."""

from __future__ import annotations

import base64
from typing import Any

import msgpack
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
ED25519 = b"\xed\x01"
SALT_BYTES = 16


def pack(value: Any) -> bytes:
    """The shortest msgpack, floats with 64 bits."""
    packed: bytes = msgpack.packb(value, use_bin_type=True)
    return packed


def unpack(data: bytes) -> Any:
    return msgpack.unpackb(data, raw=False)


def digest(data: bytes) -> bytes:
    return blake3(data).digest()


def reference(name: bytes) -> str:
    """A hash for people and for JSON (FACT-4)."""
    return "b3:" + base64.b32encode(name).decode().rstrip("=").lower()


def hash_of(text: str) -> bytes:
    """The hash that a reference names."""
    assert text.startswith("b3:"), text
    assert len(text) == 55, text
    return base64.b32decode(text[3:].upper() + "====")


def empty_hash(entity: str) -> bytes:
    return digest(pack(["stemma.v1 empty", entity]))


def space_hash(space: str) -> bytes:
    """The hash before the first commit."""
    return digest(pack(["stemma.v1 space", space]))


def body_digest(salt: bytes | None, body: bytes | None) -> bytes:
    """Of a body, or of a note; without one it is the hash of no bytes (FACT-2)."""
    if body is None:
        return digest(b"")
    assert salt is not None
    assert len(salt) == SALT_BYTES
    return digest(salt + body)


def fact_hash(kind: str, entity: str, parent: bytes, body: bytes) -> bytes:
    """`body` is the digest of the body."""
    return digest(pack(["stemma.v1 fact", kind, entity, parent, body]))


def request_digest(nonce: bytes, content: bytes) -> bytes:
    return digest(pack(["stemma.v1 request", nonce, content]))


def did_of(public_key: bytes) -> str:
    number = int.from_bytes(ED25519 + public_key, "big")
    letters = ""
    while number:
        number, digit = divmod(number, len(LETTERS))
        letters = LETTERS[digit] + letters
    return f"did:key:z{letters}"


def public_key_of(did: str) -> bytes:
    """The key that a DID names or NoIdentity. Keys of small order are the server's to refuse."""
    letters = did.removeprefix("did:key:z")
    if did == letters or len(letters) != 47:
        raise NoIdentity(did)
    number = 0
    for letter in letters:
        if letter not in LETTERS:
            raise NoIdentity(did)
        number = number * len(LETTERS) + LETTERS.index(letter)
    data = number.to_bytes(36, "big").lstrip(b"\0")
    if len(data) != 34 or not data.startswith(ED25519):
        raise NoIdentity(did)
    return data[2:]


class NoIdentity(Exception):
    """A text that is no did:key of an Ed25519 key."""


class Key:
    """An identity: an Ed25519 key and its DID."""

    def __init__(self, seed: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.did = did_of(self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def sign(self, data: bytes) -> bytes:
        return self._private.sign(data)


def opening_payload(*, server: str, challenge: bytes, space: str, principal: str, session: bytes) -> bytes:
    """What the principal signs to open a session (WIRE-2)."""
    return pack(["stemma.v1 session.open", server, challenge, space, principal, session])
