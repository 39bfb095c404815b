"""Exactly once on HTTP: what a commit is known by, from the caller's key or from a session of the server (HTTP-9)."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from blake3 import blake3

from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import RANDOM_ID_BYTES, Did, Local

TAG_SESSION: Final = "stemma.v1 http session"
TAG_OPERATION: Final = "stemma.v1 http operation"
TAG_NONCE: Final = "stemma.v1 http nonce"
SESSIONS_MAX: Final = 10_000
"""How many are remembered; a principal whose session is forgotten begins a new one."""
_KEY: Final = re.compile(r"[!-~]{1,128}")


class WriteIdentity(NamedTuple):
    """What one write is known by: `name` is a session or an operation id."""

    name: bytes
    local: Local
    nonce: bytes
    is_keyed: bool


def check_key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise Malformed(path="(Idempotency-Key)", why="it has 1 to 128 visible ASCII characters")
    return key


def keyed(principal: Did, key: str, space_key: bytes, *, tag: str = TAG_SESSION) -> WriteIdentity:
    """The identity that a key always gives. Without the space's secret the nonce could be guessed with the key."""
    name = blake3(encode((tag, principal, key))).digest()[:RANDOM_ID_BYTES]
    nonce = blake3(encode((TAG_NONCE, principal, key)), key=space_key).digest()[:RANDOM_ID_BYTES]
    return WriteIdentity(name, Local(1), nonce, is_keyed=True)


class OwnSessions:
    """The sessions of requests without a key: one for each principal in each space, with rising locals.

    The log of a space shows locals, so a session over several spaces would tell a reader of one of them how much the
    principal writes in the others.
    """

    def __init__(self, random: Callable[[int], bytes]) -> None:
        self._random = random
        self._last: OrderedDict[tuple[Did, Did], tuple[bytes, Local]] = OrderedDict()
        """The session and its last local, by space and principal."""

    def next(self, space: Did, principal: Did) -> WriteIdentity:
        """The identity of the next commit; it has to be submitted before another one is asked for."""
        session, local = self._last.pop((space, principal), (self._random(RANDOM_ID_BYTES), Local(0)))
        local = Local(local + 1)
        self._last[space, principal] = (session, local)
        if len(self._last) > SESSIONS_MAX:
            self._last.popitem(last=False)
        return WriteIdentity(session, local, self._random(RANDOM_ID_BYTES), is_keyed=False)

    def deferred(self, space: Did, principal: Did, session: bytes) -> None:
        """A commit of this session has no verdict: the next begins a new one, so that nobody waits behind it."""
        known = self._last.get((space, principal))
        if known is not None and known[0] == session:
            del self._last[space, principal]
