"""Plain commits on the wire where the compiled lane is there: messages read, and verdicts told, in one go.

What the lane reads is what `codec.read_client`, `codec.read_content` and `proposal.prepare` make of the same bytes,
and its frames are what `codec.encode` makes of the same verdicts. Whatever is not a plain commit in the one shortest
form, or has anything wrong with it, is left to them.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from stemmadb.protocol.model.commit import Commit, LocalIdentity
from stemmadb.protocol.model.compiled import Lane, native
from stemmadb.protocol.model.ids import Did, Hash, Version
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.model.proposal import Proposal
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.codec import Data
from stemmadb.protocol.wire.messages.commit import Accepted

Own: TypeAlias = tuple[Commit, tuple[bytes | None, ...]]
"""A commit of the session that is told, with the salts of its facts: bodies are not kept for a verdict that waits."""
_NATIVE: Final = native()


def verdict_on(own: Own) -> Accepted:
    commit, salts = own
    identity = commit.identity
    assert isinstance(identity, LocalIdentity), "only plain commits have verdicts"
    return records.accepted(commit, salts, session=identity.session)


class PlainCommits:
    """Those of one session, by the bounds of its server."""

    __slots__ = ("_bounds", "_bytes_max", "_limits", "_native", "_principal", "_session")

    def __init__(self, lane: Lane, principal: Did, session: bytes, limits: Limits) -> None:
        self._native = lane
        self._principal = principal
        self._session = session
        self._limits = limits
        self._bytes_max = min(limits.message_bytes_max, limits.schema_bytes_max)
        self._bounds = (
            limits.id_bytes_max,
            limits.operations_max,
            limits.reads_max,
            limits.value_bytes_max,
            limits.depth_max,
        )

    def read(self, data: Data) -> Proposal | None:
        """What a message proposes, if it is a plain commit of the session."""
        if type(data) is not bytes or len(data) > self._bytes_max:
            return None
        proposal: Proposal | None = self._native.read(
            data, self._principal, self._session, self._bounds, self._limits
        )
        return proposal

    def frame(self, from_: Version, to: Version, hash_: Hash, own: list[Own]) -> bytes:
        """A frame with the verdicts on these, encoded."""
        return self._native.frame(from_, to, hash_, own)


def plain_commits(principal: Did, session: bytes, limits: Limits) -> PlainCommits | None:
    """None where the lane is not there."""
    return None if _NATIVE is None else PlainCommits(_NATIVE, principal, session, limits)
