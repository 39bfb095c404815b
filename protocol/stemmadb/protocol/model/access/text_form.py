"""The text form of delegations and access tokens: base64url without padding, links joined by a dot."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Final

SEPARATOR: Final = "."


def write(data: bytes) -> str:
    """One link as text: the wire keeps padded standard base64, texts that people pass on have this form."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def read(text: str) -> bytes:
    """The bytes; `ValueError` unless the text is the one that `write` gives for them."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is not base64url") from None
    if write(data) != text:
        raise ValueError("it is not the one form of these bytes")
    return data


def write_chain(links: Sequence[bytes]) -> str:
    """The links of a chain, or of several, as one text."""
    return SEPARATOR.join(map(write, links))
