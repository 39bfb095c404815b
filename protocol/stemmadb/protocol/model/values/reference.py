"""References: 32 bytes of BLAKE3 in msgpack, `b3:` and base32 in JSON and for people (FACT-4)."""

from __future__ import annotations

import base64
import re

from blake3 import blake3

from stemmadb.protocol.errors import InvalidReference
from stemmadb.protocol.model.values.ids import Hash

PREFIX = "b3:"
_TEXT = re.compile(r"b3:[a-z2-7]{51}[aq]")  # 256 bits in 52 letters: the last carries one bit, so 'a' or 'q'


def hash_bytes(data: bytes) -> Hash:
    return blake3(data).digest()  # type: ignore[return-value]  # a call of Hash costs a tenth of a hash


def write(hash_: bytes) -> str:
    """`b3:` and lower-case base32 without padding."""
    return PREFIX + base64.b32encode(hash_).decode().rstrip("=").lower()


def read(text: str) -> Hash:
    """The 32 bytes; one text for each hash, so a reference can be compared as text."""
    if _TEXT.fullmatch(text) is None:
        raise InvalidReference(reference=text[:80].encode("utf-8", "backslashreplace").decode())
    return Hash(base64.b32decode(text[len(PREFIX) :].upper() + "===="))
