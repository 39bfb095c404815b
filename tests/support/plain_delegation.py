"""Delegation tokens as docs/spec/08-security.md says them, written without a line of StemmaDB's code."""

from __future__ import annotations

import secrets
import time

from plain_bytes import Key, digest, pack

HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def delegate(
    issuer: Key,
    audience: str,
    space: str,
    *,
    role: str = "write",
    prefixes: tuple[str, ...] = ("",),
    begins: int = -HOUR_MS,
    ends: int = HOUR_MS,
    parent: bytes | None = None,
) -> bytes:
    """A token; it begins and ends so many milliseconds from now, and was made from `parent`, if it is no owner's."""
    now = now_ms()
    return sealed(
        issuer,
        audience=audience,
        space=space,
        role=role,
        prefixes=list(prefixes),
        not_before=now + begins,
        expires=now + ends,
        nonce=secrets.token_bytes(16),
        parent=None if parent is None else digest(parent),
    )


def sealed(
    issuer: Key, *, audience: str, space: str, role: str, prefixes: list[str], not_before: int, expires: int,
    nonce: bytes, parent: bytes | None,
) -> bytes:  # fmt: skip
    """The bytes of a token that says exactly this."""
    fields = [issuer.did, audience, space, role, prefixes, not_before, expires, nonce, parent]
    payload = pack(["stemma.v1 delegation", *fields])
    return pack([payload, issuer.sign(payload)])
