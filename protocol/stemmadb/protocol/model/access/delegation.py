"""Delegations: signed tokens by which an owner delegates rights, never wider from one link of a chain to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from stemmadb.protocol import identity
from stemmadb.protocol.errors import InvalidDelegation, InvalidDid, InvalidId
from stemmadb.protocol.model.access import access_roles
from stemmadb.protocol.model.access.access_roles import NOBODY, Rights, Role
from stemmadb.protocol.model.values import ids
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import HASH_BYTES, RANDOM_ID_BYTES, Did, Hash, TimeMs
from stemmadb.protocol.model.values.json_values import INT_MAX
from stemmadb.protocol.model.values.reference import hash_bytes

TAG_DELEGATION: Final = "stemma.v1 delegation"
DELEGATION_CHAIN_MAX: Final = 8
"""Tokens of a chain, the owner's and the last one included."""
DELEGATIONS_MAX: Final = 32
"""Tokens that a session shows, those in the middle of chains included."""
DELEGATION_BYTES_MAX: Final = 4 * 1024
DELEGATION_PREFIXES_MAX: Final = 64

_DELEGABLE: Final = frozenset({"read", "write"})
Sign: TypeAlias = Callable[[bytes], bytes]
"""Gives the issuer's Ed25519 signature over a payload, 64 bytes."""


class Delegation(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """What an issuer signs, as an array in this order. It holds from `not_before` until just before `expires`.

    `parent` is the name of the token that gave the issuer these rights; None if the issuer is an owner.
    """

    tag: Literal["stemma.v1 delegation"] = TAG_DELEGATION
    issuer: Did
    audience: Did
    space: Did
    role: Role
    prefixes: tuple[str, ...]
    not_before: TimeMs
    expires: TimeMs
    nonce: bytes
    parent: Hash | None = None


class DelegatedRights(msgspec.Struct, frozen=True, kw_only=True):
    """What a chain delegates to its last audience, as far as the chain alone can tell; see `delegated_rights`."""

    role: Role
    prefixes: tuple[str, ...]
    not_before: TimeMs
    expires: TimeMs
    names: tuple[Hash, ...]
    """The tokens of the chain, the last one first: a revocation of any of them ends it."""
    issuers: tuple[Did, ...]
    """Who signed each of them, in the same order."""
    is_listed: bool = False
    """Whether it narrows what the access list gives its issuer: an access token without delegations (TOKEN-2)."""

    @property
    def owner(self) -> Did:
        """Who began the chain, and has to own the space for as long as anybody acts under it."""
        return self.issuers[-1]


_signed: Final = msgspec.msgpack.Decoder(tuple[bytes, bytes])
_delegation: Final = msgspec.msgpack.Decoder(Delegation)


def issue(delegation: Delegation, sign: Sign) -> bytes:
    """The bytes of a token; `InvalidDelegation` if nobody could ever use it."""
    _check(delegation)
    payload = encode(delegation)
    token = encode((payload, sign(payload)))
    _read(token, delegation.space)
    return token


def check(token: bytes, *, space: str) -> None:
    """`InvalidDelegation` if these are not the bytes of a token of the space."""
    _read(token, space)


def name_of(token: bytes) -> Hash:
    """What a revocation takes back, and what a token that was made from this one names as its parent."""
    return hash_bytes(token)


def verify(tokens: Sequence[bytes], *, space: str, audience: str) -> tuple[DelegatedRights, ...]:
    """What each chain delegates to the audience; checks all that needs neither the time nor the access list.

    The tokens come in any order. Those that no other was made from end their chains and have to be the audience's
    own; the others are there because a chain needs them, and delegate nothing by themselves.
    """
    if len(tokens) > DELEGATIONS_MAX:
        raise InvalidDelegation(why=f"{len(tokens)} tokens were shown and delegations_max is {DELEGATIONS_MAX}")
    known = {name_of(token): _read(token, space) for token in tokens}
    parents = {one.parent for one in known.values()}
    delegated = tuple(_chain_rights(name, known, audience) for name in known if name not in parents)
    assert delegated or not tokens, "no token can hold its own hash, so that every chain ends"
    return delegated


def delegated_rights(
    delegated: Iterable[DelegatedRights], *, roles: object, is_revoked: Callable[[Hash], bool], now: TimeMs
) -> Rights:
    """What one may do who acts under delegations: the weakest role of those that hold, for the ids of them all.

    One holds within its time, while the access list names who began it as an owner, and until a token of its chain
    is revoked. An access token alone holds while the access list names its principal at all, and never gives more
    than the list does. If none holds, nothing may be done.
    """
    holding = [
        (_role(one, roles), one.prefixes)
        for one in delegated
        if one.not_before <= now < one.expires and one.prefixes and not any(map(is_revoked, one.names))
    ]
    granted = [(role, prefixes) for role, prefixes in holding if role != "none"]
    if not granted:
        return NOBODY
    weakest = min((role for role, _ in granted), key=access_roles.strength)
    return Rights(weakest, access_roles.joined(prefix for _, prefixes in granted for prefix in prefixes))


def _role(one: DelegatedRights, roles: object) -> Role:
    """The role that one gives by the access list as it is now."""
    if not one.is_listed:
        return one.role if access_roles.is_owner(roles, one.owner) else "none"
    listed = roles.get(one.owner) if isinstance(roles, dict) else None
    if listed is None:
        return "none"
    return one.role if access_roles.includes(listed, one.role) else listed


def next_change(delegated: Iterable[DelegatedRights], after: TimeMs) -> TimeMs | None:
    """The first time later than this at which something delegated begins or ends by itself."""
    times = (time for one in delegated for time in (one.not_before, one.expires) if time > after)
    return min(times, default=None)


# ---------------------------------------------------------------- one token


def _read(token: bytes, space: str) -> Delegation:
    """What the token says, if it is well formed, meant for this space, and signed by its issuer."""
    if len(token) > DELEGATION_BYTES_MAX:
        raise InvalidDelegation(
            why=f"a token has {len(token)} bytes and delegation_bytes_max is {DELEGATION_BYTES_MAX}"
        )
    try:
        payload, signature = _signed.decode(token)
        delegation = _delegation.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidDelegation(why=f"a token cannot be read ({str(error)[:100]})") from None
    # A second form of the same token would have another name, and so outlive the revocation of the first.
    if encode((payload, signature)) != token or encode(delegation) != payload:
        raise InvalidDelegation(why="a token is not in the shortest form of msgpack")
    _check(delegation)
    if delegation.space != space:
        raise InvalidDelegation(why="a token was made for another space")
    if not identity.is_signed_by(delegation.issuer, signature, payload):
        raise InvalidDelegation(why="a token is not signed by its issuer")
    return delegation


def _check(delegation: Delegation) -> None:
    """Raises `InvalidDelegation` for what no signature makes right."""
    if delegation.role not in _DELEGABLE:
        raise InvalidDelegation(why=f"the role {delegation.role!r} cannot be delegated, only read and write can")
    _check_prefixes(delegation.prefixes)
    if not 0 <= delegation.not_before < delegation.expires <= INT_MAX:
        raise InvalidDelegation(why="a token expires before it begins, or its times are no times")
    if len(delegation.nonce) != RANDOM_ID_BYTES:
        raise InvalidDelegation(why=f"the nonce of a token has {RANDOM_ID_BYTES} bytes")
    if delegation.parent is not None and len(delegation.parent) != HASH_BYTES:
        raise InvalidDelegation(why=f"the parent of a token is a hash of {HASH_BYTES} bytes")
    try:
        identity.public_key(delegation.issuer)
        identity.public_key(delegation.audience)
    except InvalidDid:
        raise InvalidDelegation(why="the issuer or the audience of a token is no Ed25519 did:key") from None


def _check_prefixes(prefixes: tuple[str, ...]) -> None:
    if not prefixes:
        raise InvalidDelegation(why="the token delegates no ids; the empty prefix delegates them all")
    if len(prefixes) > DELEGATION_PREFIXES_MAX:
        maximum = DELEGATION_PREFIXES_MAX
        raise InvalidDelegation(why=f"a token has {len(prefixes)} prefixes and delegation_prefixes_max is {maximum}")
    try:
        for prefix in prefixes:
            ids.id_prefix(prefix)
    except InvalidId:
        raise InvalidDelegation(why="a prefix of a token can begin no id") from None


# ---------------------------------------------------------------- a chain of them


def _chain_rights(name: Hash, known: Mapping[Hash, Delegation], audience: str) -> DelegatedRights:
    """What the chain that ends with this token delegates; it is followed up to its owner."""
    last = link = known[name]
    if last.audience != audience:
        raise InvalidDelegation(why="the token was issued to another identity")
    names, issuers = [name], [last.issuer]
    while link.parent is not None:
        if len(names) == DELEGATION_CHAIN_MAX:
            raise InvalidDelegation(why=f"a chain is longer than delegation_chain_max, {DELEGATION_CHAIN_MAX}")
        above = known.get(link.parent)
        if above is None:
            raise InvalidDelegation(why="the token that another one was made from is not shown")
        _check_link(link, above)
        names.append(link.parent)
        issuers.append(above.issuer)
        link = above
    return DelegatedRights(
        role=last.role,
        prefixes=last.prefixes,
        not_before=last.not_before,
        expires=last.expires,
        names=tuple(names),
        issuers=tuple(issuers),
    )


def _check_link(link: Delegation, above: Delegation) -> None:
    """Nobody delegates more than was delegated to it."""
    if link.issuer != above.audience:
        raise InvalidDelegation(why="the parent token was issued to another identity")
    if not access_roles.includes(above.role, link.role):
        raise InvalidDelegation(why="the token delegates a stronger role than its parent")
    if not all(access_roles.covers(above.prefixes, prefix) for prefix in link.prefixes):
        raise InvalidDelegation(why="the token delegates ids that its parent does not")
    if link.not_before < above.not_before or link.expires > above.expires:
        raise InvalidDelegation(why="the token is valid for longer than its parent")
