"""Access tokens: what a principal signs for itself, so that HTTP, which has no challenge, knows who asks (TOKEN-1).

A token is judged like the last link of a chain of delegations: it narrows what the access list, or the delegations
beside it, give its principal. `link` makes that link, and everything that knows delegations then knows tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from stemmadb.protocol import identity
from stemmadb.protocol.errors import InvalidDid, InvalidId, Unauthenticated
from stemmadb.protocol.model.access import access_roles, text_form
from stemmadb.protocol.model.access.access_roles import Role
from stemmadb.protocol.model.access.delegation import DELEGATION_PREFIXES_MAX, DelegatedRights, Sign
from stemmadb.protocol.model.values import ids
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import RANDOM_ID_BYTES, Did, Hash, TimeMs
from stemmadb.protocol.model.values.json_values import INT_MAX
from stemmadb.protocol.model.values.reference import hash_bytes

TAG_ACCESS: Final = "stemma.v1 access"
PREFIX: Final = "stk1."
"""Begins the text of every token, so that scanners find leaked ones."""
TOKEN_BYTES_MAX: Final = 4 * 1024
TOKEN_MS_MAX: Final = 24 * 60 * 60 * 1_000
SHORT_TOKEN_MS_MAX: Final = 15 * 60 * 1_000
"""For tokens with the role `own`, and for server tokens, which no space's log could revoke."""
SKEW_MS: Final = 60_000
"""The difference of clocks that is forgiven at `not_before`."""

_ROLES: Final = frozenset({"read", "write", "own"})


class AccessToken(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """What a principal signs for itself, as an array in this order. Without `space` it is a server token."""

    tag: Literal["stemma.v1 access"] = TAG_ACCESS
    server: Did
    space: Did | None
    principal: Did
    role: Role
    prefixes: tuple[str, ...]
    not_before: TimeMs
    expires: TimeMs
    nonce: bytes


_signed: Final = msgspec.msgpack.Decoder(tuple[bytes, bytes])
_token: Final = msgspec.msgpack.Decoder(AccessToken)


def issue(token: AccessToken, sign: Sign) -> bytes:
    """The bytes of a token; `Unauthenticated` if no server would take it."""
    _check(token)
    payload = encode(token)
    data = encode((payload, sign(payload)))
    read(data)
    return data


def name_of(data: bytes) -> Hash:
    """What a revocation names."""
    return hash_bytes(data)


def write_text(data: bytes, delegations: Sequence[bytes] = ()) -> str:
    """The text of a token, with the delegations that it is shown with."""
    return PREFIX + text_form.SEPARATOR.join(map(text_form.write, (data, *delegations)))


def read_text(text: str) -> tuple[bytes, tuple[bytes, ...]]:
    """The bytes of a token and of the delegations behind it; `Unauthenticated` if it is no such text."""
    if not text.startswith(PREFIX):
        raise Unauthenticated(why=f"an access token begins with {PREFIX!r}")
    first, *others = text[len(PREFIX) :].split(text_form.SEPARATOR)
    try:
        return text_form.read(first), tuple(map(text_form.read, others))
    except ValueError:
        raise Unauthenticated(why="a token is base64url without padding") from None


def read(data: bytes) -> AccessToken:
    """What the token says, if it is well formed and signed by its principal; needs neither the time nor the log."""
    if len(data) > TOKEN_BYTES_MAX:
        raise Unauthenticated(why=f"the token has more than {TOKEN_BYTES_MAX} bytes")
    try:
        payload, signature = _signed.decode(data)
        token = _token.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Unauthenticated(why="the token cannot be read") from None
    if encode((payload, signature)) != data or encode(token) != payload:
        raise Unauthenticated(why="the token is not in the shortest form of msgpack")
    _check(token)
    if not identity.is_signed_by(token.principal, signature, payload):
        raise Unauthenticated(why="the token is not signed by its principal")
    return token


def check_now(token: AccessToken, *, server: Did, space: Did | None, now: TimeMs) -> None:
    """`Unauthenticated` unless the token is for this server and this space, and valid at this time."""
    if token.server != server:
        raise Unauthenticated(why="the token was made for another server")
    if token.space != space:
        raise Unauthenticated(why="the token was made for another space")
    if now < token.not_before - SKEW_MS:
        raise Unauthenticated(why="the token is not valid yet")
    if now >= token.expires:
        raise Unauthenticated(why="the token has expired")


def link(token: AccessToken, name: Hash, chains: Sequence[DelegatedRights] = ()) -> tuple[DelegatedRights, ...]:
    """What the token leaves of the chains shown with it, or, without any, of what the access list gives (TOKEN-2)."""
    begins = TimeMs(max(0, token.not_before - SKEW_MS))
    if not chains:
        own = DelegatedRights(
            role=token.role,
            prefixes=access_roles.joined(token.prefixes),
            not_before=begins,
            expires=token.expires,
            names=(name,),
            issuers=(token.principal,),
            is_listed=True,
        )
        return (own,)
    return tuple(_narrowed(chain, token, name, begins) for chain in chains)


def _narrowed(chain: DelegatedRights, token: AccessToken, name: Hash, begins: TimeMs) -> DelegatedRights:
    role: Role = chain.role if access_roles.includes(token.role, chain.role) else token.role
    prefixes = (one for prefix in token.prefixes for one in access_roles.meeting(prefix, chain.prefixes))
    return DelegatedRights(
        role=role,
        prefixes=access_roles.joined(prefixes),
        not_before=max(chain.not_before, begins),
        expires=min(chain.expires, token.expires),
        names=(name, *chain.names),
        issuers=(token.principal, *chain.issuers),
    )


def _check(token: AccessToken) -> None:
    """Raises `Unauthenticated` for what no signature makes right."""
    if token.role not in _ROLES:
        raise Unauthenticated(why="the role of a token is read, write or own")
    if not 0 < len(token.prefixes) <= DELEGATION_PREFIXES_MAX:
        raise Unauthenticated(why=f"a token has 1 to {DELEGATION_PREFIXES_MAX} prefixes; '' is every id")
    if not 0 <= token.not_before < token.expires <= INT_MAX:
        raise Unauthenticated(why="the token expires before it begins, or its times are no times")
    is_short = token.space is None or token.role == "own"
    longest = SHORT_TOKEN_MS_MAX if is_short else TOKEN_MS_MAX
    if token.expires - token.not_before > longest:
        raise Unauthenticated(why=f"such a token lives at most {longest // 60_000} minutes")
    if len(token.nonce) != RANDOM_ID_BYTES:
        raise Unauthenticated(why=f"the nonce of a token has {RANDOM_ID_BYTES} bytes")
    try:
        for prefix in token.prefixes:
            ids.id_prefix(prefix)
        for did in (token.server, token.principal, token.space):
            if did is not None:
                identity.public_key(did)
    except (InvalidId, InvalidDid) as wrong:
        raise Unauthenticated(why=f"the token names something that is not valid ({wrong.code})") from None
