"""Delegations as text: rights lent to another identity, lent on, and taken back (ACL-4)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias, TypeVar

from stemmadb.client.asking import Asker
from stemmadb.client.keys.identity import Identity
from stemmadb.client.reading.entries import Receipt, receipt
from stemmadb.client.reading.times import milliseconds
from stemmadb.protocol.errors import InvalidDelegation
from stemmadb.protocol.model import access, delegation
from stemmadb.protocol.model.delegation import Delegation, Lent
from stemmadb.protocol.model.ids import RANDOM_ID_BYTES, Did, Hash, TimeMs
from stemmadb.protocol.model.query import EVERY
from stemmadb.protocol.wire.messages.access import RevokeRequest
from stemmadb.protocol.wire.messages.base import Written

CLOCK_SKEW_MS: Final = 5 * 60 * 1000
"""A token begins this long ago, so that it holds at once on a server whose clock is behind."""
_LINK: Final = "."
_Text = TypeVar("_Text", str, str | bytes)

Lendable: TypeAlias = Literal["read", "write"]
Expiry: TypeAlias = datetime | timedelta | int | float
"""A time with a zone, or how long from now: a timedelta or seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """What is to be lent, to whom, and until when. Prefixes are written `urn:todo:*`; `*` is every id."""

    audience: str
    role: Lendable
    prefixes: Sequence[str]
    expires: Expiry


class Delegating:
    """Lends the rights of one identity in one space.

    token = await space.delegate("did:key:z6Mk...", "write", prefixes=["urn:todo:*"], expires=timedelta(days=7))
    await space.revoke(token)

    A token is text. Where the rights were themselves lent, the tokens they came by are part of it.
    """

    def __init__(
        self,
        asker: Asker,
        identity: Identity,
        *,
        space: Did,
        now: Callable[[], TimeMs],
        held: Sequence[bytes] = (),
    ) -> None:
        self._asker = asker
        self._identity = identity
        self._space = space
        self._now = now
        self._held = tuple(held)

    def delegate(self, loan: Loan) -> str:
        """The token to hand over. Nothing is written: it is worth as much as its issuer's rights are when it is used.

        `InvalidDelegation` if nobody could ever use it, or more would be lent than was.
        """
        now = self._now()
        role, expires = loan.role, _expiry(loan.expires, now)
        if expires <= now:
            raise _unlendable("it would be over already. Let it expire later than now")
        prefixes = tuple(map(_bare, _several(loan.prefixes)))
        begins = TimeMs(max(0, now - CLOCK_SKEW_MS))
        above = self._above(role, prefixes, expires) if self._held else None
        token = delegation.issue(
            Delegation(
                issuer=self._identity.did,
                audience=Did(loan.audience),
                space=self._space,
                role=role,
                prefixes=prefixes,
                not_before=begins if above is None else max(begins, above.not_before),
                expires=expires,
                nonce=self._asker.random(RANDOM_ID_BYTES),
                parent=None if above is None else above.names[0],
            ),
            self._identity.sign,
        )
        return _text((token, *self._chain(above)))

    async def revoke(self, token: str) -> Receipt:
        """Takes back a token and all that were made from it, for good. Needs the role `own`."""
        first = read_tokens((token,))[0]
        delegation.check(first, space=self._space)  # what is no token would be revoked too, and the real one be left
        name = delegation.name_of(first)
        return receipt(await self._asker.write(RevokeRequest, Written, delegation=name))

    def _above(self, role: Lendable, prefixes: tuple[str, ...], expires: TimeMs) -> Lent:
        """Of what is lent to us, what this can be lent from."""
        for lent in delegation.verify(self._held, space=self._space, audience=self._identity.did):
            includes = access.includes(lent.role, role) and expires <= lent.expires
            if includes and all(access.covers(lent.prefixes, prefix) for prefix in prefixes):
                return lent
        raise InvalidDelegation(why="what was lent to this identity is less than what it would lend on")

    def _chain(self, above: Lent | None) -> tuple[bytes, ...]:
        names: tuple[Hash, ...] = () if above is None else above.names
        known = {delegation.name_of(token): token for token in self._held}
        return tuple(known[name] for name in names)


def read_tokens(texts: Iterable[str | bytes]) -> tuple[bytes, ...]:
    """The tokens in these texts, each once, as `session.open` shows them; bytes are taken for a single token."""
    tokens: dict[bytes, None] = {}
    for text in _several(texts):
        for token in (text,) if isinstance(text, bytes) else map(_token, text.strip().split(_LINK)):
            tokens[token] = None
    return tuple(tokens)


def _bare(prefix: str) -> str:
    """Without its `*`, which must be there: the id `urn:todo:1` alone would lend `urn:todo:10` as well."""
    if not prefix.endswith(EVERY):
        raise _unlendable(f"a prefix ends with '*', as 'urn:todo:*', and {prefix[:80]!r} does not")
    return prefix.removesuffix(EVERY)


def _unlendable(why: str) -> InvalidDelegation:
    return InvalidDelegation(f"Nothing can be lent so: {why}.", why=why)


def _several(given: Iterable[_Text]) -> Iterable[_Text]:
    """One alone is one, and not as many as it has letters: the letter `*` of a prefix would lend everything."""
    return (given,) if isinstance(given, str) else given


def _text(tokens: Iterable[bytes]) -> str:
    return _LINK.join(base64.urlsafe_b64encode(token).decode().rstrip("=") for token in tokens)


def _token(text: str) -> bytes:
    try:
        token = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        token = b""
    if not token:
        raise InvalidDelegation(why="the text is not that of a token, which is base64url")
    return token


def _expiry(expires: Expiry, now: TimeMs) -> TimeMs:
    if isinstance(expires, datetime):
        return milliseconds(expires)
    length = expires if isinstance(expires, timedelta) else timedelta(seconds=expires)
    return TimeMs(now + length // timedelta(milliseconds=1))
