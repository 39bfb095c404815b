"""Delegations as text: rights passed to another identity, delegated further, and revoked (ACL-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias, TypeVar

from stemmadb.client.keys.identity import Identity
from stemmadb.client.reading.entries import Receipt, receipt
from stemmadb.client.reading.times import milliseconds
from stemmadb.client.requester import Requester
from stemmadb.protocol.errors import InvalidDelegation, UnsupportedProtocol
from stemmadb.protocol.model.access import access_roles, access_token, delegation, text_form
from stemmadb.protocol.model.access.delegation import DelegatedRights, Delegation
from stemmadb.protocol.model.query.query import EVERY
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import RANDOM_ID_BYTES, Did, Hash, TimeMs
from stemmadb.protocol.wire.messages.access import RevokeRequest
from stemmadb.protocol.wire.messages.base import Written
from stemmadb.protocol.wire.version import REVOKE_OWN

CLOCK_SKEW_MS: Final = 5 * 60 * 1000
"""A token begins this long ago, so that it holds at once on a server whose clock is behind."""
_Text = TypeVar("_Text", str, str | bytes)

DelegableRole: TypeAlias = Literal["read", "write"]
Expiry: TypeAlias = datetime | timedelta | int | float
"""A time with a zone, or how long from now: a timedelta or seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTerms:
    """Which rights are delegated, to whom, and until when. Prefixes are written `urn:todo:*`; `*` is every id."""

    audience: str
    role: DelegableRole
    prefixes: Sequence[str]
    expires: Expiry


class Delegator:
    """Delegates the rights of one identity in one space.

    token = await space.delegate("did:key:z6Mk...", "write", prefixes=["urn:todo:*"], expires=timedelta(days=7))
    await space.revoke(token)

    A token is text. If the delegator holds the rights by delegation itself, its own tokens are part of it.
    """

    def __init__(
        self,
        requester: Requester,
        identity: Identity,
        *,
        space: Did,
        now: Callable[[], TimeMs],
        held: Sequence[bytes] = (),
    ) -> None:
        self._requester = requester
        self._identity = identity
        self._space = space
        self._now = now
        self._tokens = tuple(held)

    def delegate(self, terms: DelegationTerms) -> str:
        """The token to hand over. Nothing is written: it is worth as much as its issuer's rights are when it is used.

        `InvalidDelegation` if nobody could ever use it, or if it would delegate more than the delegator has.
        """
        now = self._now()
        role, expires = terms.role, _expiry(terms.expires, now)
        if expires <= now:
            raise _not_delegable("it would have expired already. Choose a later expiry")
        prefixes = tuple(map(_bare, _several(terms.prefixes)))
        begins = TimeMs(max(0, now - CLOCK_SKEW_MS))
        above = self._above(role, prefixes, expires) if self._tokens else None
        token = delegation.issue(
            Delegation(
                issuer=self._identity.did,
                audience=Did(terms.audience),
                space=self._space,
                role=role,
                prefixes=prefixes,
                not_before=begins if above is None else max(begins, above.not_before),
                expires=expires,
                nonce=self._requester.random(RANDOM_ID_BYTES),
                parent=None if above is None else above.names[0],
            ),
            self._identity.sign,
        )
        return text_form.write_chain((token, *self._chain(above)))

    async def revoke(self, token: str) -> Receipt:
        """Takes back a token and all that were made from it, for good. Needs the role `own`, or to have signed it.

        What is no token would be revoked too, and the real one be left, so it is checked first. A name `b3:...`, as
        `console --web` prints it, cannot be checked.
        """
        if token.startswith(reference.PREFIX):
            name = reference.read(token)
            return receipt(await self._requester.write(RevokeRequest, Written, delegation=name))
        more: dict[str, Any] = {}
        if token.startswith(access_token.PREFIX):
            first, _ = access_token.read_text(token)
            if access_token.read(first).principal == self._identity.did:
                with suppress(UnsupportedProtocol):  # there only an owner can
                    self._requester.check_feature(REVOKE_OWN)
                    more = {"token": first}
        else:
            first = read_tokens((token,))[0]
            delegation.check(first, space=self._space)
        name = delegation.name_of(first)
        return receipt(await self._requester.write(RevokeRequest, Written, delegation=name, **more))

    def _above(self, role: DelegableRole, prefixes: tuple[str, ...], expires: TimeMs) -> DelegatedRights:
        """The chain held by this identity that includes the rights to be delegated."""
        for delegated in delegation.verify(self._tokens, space=self._space, audience=self._identity.did):
            includes = access_roles.includes(delegated.role, role) and expires <= delegated.expires
            if includes and all(access_roles.covers(delegated.prefixes, prefix) for prefix in prefixes):
                return delegated
        raise InvalidDelegation(why="this identity cannot delegate more than was delegated to it")

    def _chain(self, above: DelegatedRights | None) -> tuple[bytes, ...]:
        names: tuple[Hash, ...] = () if above is None else above.names
        known = {delegation.name_of(token): token for token in self._tokens}
        return tuple(known[name] for name in names)


def read_tokens(texts: Iterable[str | bytes]) -> tuple[bytes, ...]:
    """The tokens in these texts, each once, as `session.open` shows them; bytes are taken for a single token."""
    tokens: dict[bytes, None] = {}
    for text in _several(texts):
        for token in (text,) if isinstance(text, bytes) else map(_token, text.strip().split(text_form.SEPARATOR)):
            tokens[token] = None
    return tuple(tokens)


def _bare(prefix: str) -> str:
    """Without its `*`, which must be there: the id `urn:todo:1` alone would delegate `urn:todo:10` as well."""
    if not prefix.endswith(EVERY):
        raise _not_delegable(f"a prefix ends with '*', as 'urn:todo:*', and {prefix[:80]!r} does not")
    return prefix.removesuffix(EVERY)


def _not_delegable(why: str) -> InvalidDelegation:
    return InvalidDelegation(f"This cannot be delegated: {why}.", why=why)


def _several(given: Iterable[_Text]) -> Iterable[_Text]:
    """One alone is one, and not as many as it has letters: the letter `*` of a prefix would delegate everything."""
    return (given,) if isinstance(given, str) else given


def _token(text: str) -> bytes:
    try:
        token = text_form.read(text)
    except ValueError:
        token = b""
    if not token:
        raise InvalidDelegation(why="the text is not that of a token, which is base64url")
    return token


def _expiry(expires: Expiry, now: TimeMs) -> TimeMs:
    if isinstance(expires, datetime):
        return milliseconds(expires)
    length = expires if isinstance(expires, timedelta) else timedelta(seconds=expires)
    return TimeMs(now + length // timedelta(milliseconds=1))
