"""Ed25519 identities as did:key: read, write, and check what they signed. Keys are made and kept elsewhere."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from stemmadb.protocol.errors import InvalidDid, Unauthenticated
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Did

PREFIX: Final = "did:key:z"
PUBLIC_KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
CHALLENGE_BYTES: Final = 32
TAG_SESSION_OPEN: Final = "stemma.v1 session.open"

_ED25519: Final = b"\xed\x01"  # the multicodec of an Ed25519 public key, as an unsigned varint
_ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_DIGITS: Final = {letter: digit for digit, letter in enumerate(_ALPHABET)}
_PRIME: Final = 2**255 - 19
_SMALL_ORDER: Final = frozenset(
    y % _PRIME
    for y in (
        0,  # order 4
        1,  # the neutral element
        -1,  # order 2
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,  # order 8
        -0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
    )
)
"""The y of the points whose order divides 8, with either x: signatures for them are made without a private key."""
_DID_LETTERS: Final = 47  # two bytes of multicodec and 32 of key in base58; 0xed keeps the count fixed


def did_of(public_key: bytes) -> Did:
    """The did:key of a raw public key of 32 bytes."""
    assert len(public_key) == PUBLIC_KEY_BYTES
    number = int.from_bytes(_ED25519 + public_key, "big")
    letters: list[str] = []
    while number:
        number, digit = divmod(number, 58)
        letters.append(_ALPHABET[digit])
    return Did(PREFIX + "".join(reversed(letters)))


@lru_cache(maxsize=4_096)
def public_key(did: str) -> bytes:
    """The raw public key a DID names; `InvalidDid` says what is wrong with it."""
    if not isinstance(did, str):
        raise InvalidDid(did=repr(did)[:80], why=f"it is of type {type(did).__name__}, not a string")
    if not did.startswith(PREFIX):
        raise InvalidDid(did=_shown(did), why="it does not begin with 'did:key:z'")
    letters = did[len(PREFIX) :]
    if len(letters) != _DID_LETTERS:
        raise InvalidDid(did=_shown(did), why=f"an Ed25519 key has {_DID_LETTERS} letters after the 'z'")
    if any(letter not in _DIGITS for letter in letters):
        raise InvalidDid(did=_shown(did), why="it holds a letter that base58 does not have")
    return _key_bytes(did, letters)


def _key_bytes(did: str, letters: str) -> bytes:
    number = 0
    for letter in letters:
        number = number * 58 + _DIGITS[letter]
    # 47 letters of base58 may exceed 34 bytes by a few bits; one byte more keeps `to_bytes` from failing.
    whole = number.to_bytes(len(_ED25519) + PUBLIC_KEY_BYTES + 1, "big")
    if whole[:3] != b"\x00" + _ED25519:
        raise InvalidDid(did=_shown(did), why="it does not name an Ed25519 key")
    return _strong(did, whole[3:])


def _strong(did: str, key: bytes) -> bytes:
    y = int.from_bytes(key, "little") & (2**255 - 1)  # the last bit is the sign of x
    if y % _PRIME in _SMALL_ORDER:
        raise InvalidDid(did=_shown(did), why="its key has small order, so that anybody could sign for it")
    return key


def is_signed_by(did: str, signature: bytes, payload: bytes) -> bool:
    """Whether the holder of the DID's key signed exactly these bytes."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key(did)).verify(signature, payload)
    except InvalidSignature:
        return False
    return True


def session_open_payload(*, server: str, challenge: bytes, space: str, principal: str, session: bytes) -> bytes:
    """What a principal signs to open a session: useless on another server, space or connection (WIRE-2)."""
    return encode((TAG_SESSION_OPEN, server, challenge, space, principal, session))


def verify_session_open(
    *, server: str, challenge: bytes, space: str, principal: str, session: bytes, signature: bytes
) -> None:
    """Returns if the principal signed this very opening; `InvalidDid` or `Unauthenticated` otherwise."""
    payload = session_open_payload(
        server=server, challenge=challenge, space=space, principal=principal, session=session
    )
    if not is_signed_by(principal, signature, payload):
        raise Unauthenticated(why="the signature does not fit the challenge, the server, the space and the session")


def _shown(did: str) -> str:
    return did[:80].encode("utf-8", "backslashreplace").decode()
