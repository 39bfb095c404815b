"""Who asks: the access token of a request, with the delegations shown beside it (TOKEN-2, TOKEN-3).

Only what needs neither the time nor the log is remembered: that the signatures are right. No part of a token is ever
logged.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from blake3 import blake3

from stemmadb.protocol.errors import InvalidDelegation, RateLimited, StemmaError, Unauthenticated
from stemmadb.protocol.model.access import access_token, delegation
from stemmadb.protocol.model.access.access_token import AccessToken
from stemmadb.protocol.model.access.delegation import DelegatedRights
from stemmadb.protocol.model.values.ids import Did, Hash, TimeMs
from stemmadb.server.service.base.rate_limits import Bucket

VERIFIED_MAX: Final = 10_000
FAILURES_PER_SECOND: Final = 50
"""Of one address."""
ADDRESSES_MAX: Final = 10_000
_SCHEME: Final = "bearer"


class Bearer(NamedTuple):
    """A token whose signatures are right, as the rights that it leaves its principal."""

    token: AccessToken
    name: Hash
    delegated: tuple[DelegatedRights, ...]

    @property
    def principal(self) -> Did:
        return self.token.principal


class Bearers:
    """The tokens that one server has seen lately."""

    def __init__(self, server: Did, now: Callable[[], TimeMs]) -> None:
        self._server = server
        self._now = now
        self._verified: OrderedDict[bytes, Bearer] = OrderedDict()
        self._failures: OrderedDict[str, Bucket] = OrderedDict()

    def read(self, headers: Sequence[str], *, space: Did | None, address: str) -> Bearer:
        """The bearer of a request; `Unauthenticated`, or `RateLimited` for an address that fails too often."""
        try:
            bearer = self._find(headers)
            access_token.check_now(bearer.token, server=self._server, space=space, now=self._now())
        except StemmaError as failure:
            wait_ms = self._bucket(address).take(self._now())
            if wait_ms:
                raise RateLimited(retry_after_ms=wait_ms) from None
            raise failure.without_trace() from None
        return bearer

    def _find(self, headers: Sequence[str]) -> Bearer:
        if len(headers) != 1:
            raise Unauthenticated(why="one header Authorization is needed; make a token with 'stemmadb token'")
        digest = blake3(headers[0].encode()).digest()
        known = self._verified.get(digest)
        if known is not None:
            self._verified.move_to_end(digest)
            return known
        bearer = self._verify(headers[0])
        self._verified[digest] = bearer
        if len(self._verified) > VERIFIED_MAX:
            self._verified.popitem(last=False)
        return bearer

    def _verify(self, header: str) -> Bearer:
        scheme, _, text = header.partition(" ")
        if scheme.lower() != _SCHEME:
            raise Unauthenticated(why="the header Authorization has the form 'Bearer stk1...'")
        data, links = access_token.read_text(text.strip())
        token = access_token.read(data)
        name = access_token.name_of(data)
        if links and token.space is None:
            raise InvalidDelegation(why="a server token takes no delegations")
        chains = delegation.verify(links, space=token.space or "", audience=token.principal) if links else ()
        return Bearer(token, name, access_token.link(token, name, chains))

    def _bucket(self, address: str) -> Bucket:
        bucket = self._failures.get(address)
        if bucket is None:
            bucket = self._failures[address] = Bucket(FAILURES_PER_SECOND, self._now())
            if len(self._failures) > ADDRESSES_MAX:
                self._failures.popitem(last=False)
        return bucket
