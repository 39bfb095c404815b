"""Fast-path commits on the wire where the compiled fast path is there: messages read, and verdicts told, in one go.

What the fast path reads is what `codec.read_client`, `codec.read_content` and `proposal.prepare` make of the same
bytes, and its frames are what `codec.encode` makes of the same verdicts. Whatever is not a fast-path commit in the
one shortest form, or has anything wrong with it, is left to them.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from stemmadb.protocol.model.commit.native import FastPath, native
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log.commit_record import Commit, LocalIdentity
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict

Own: TypeAlias = tuple[Commit, tuple[bytes | None, ...]]
"""A commit of the session that is told, with the salts of its facts: bodies are not kept for a verdict that waits."""
_NATIVE: Final = native()


def verdict_on(own: Own) -> AcceptedVerdict:
    commit, salts = own
    identity = commit.identity
    assert isinstance(identity, LocalIdentity), "only fast-path commits have verdicts"
    return records.accepted(commit, salts, session=identity.session)


class FastPathCommits:
    """Those of one session, by the bounds of its server."""

    __slots__ = ("_bounds", "_bytes_max", "_limits", "_native", "_principal", "_session", "frame")

    def __init__(self, fast_path: FastPath, principal: Did, session: bytes, limits: Limits) -> None:
        self._native = fast_path
        self.frame: Final = fast_path.frame
        """A frame with the verdicts on own commits, encoded."""
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
        """What a message proposes, if it is a fast-path commit of the session."""
        if type(data) is not bytes or len(data) > self._bytes_max:
            return None
        proposal: Proposal | None = self._native.read(
            data, self._principal, self._session, self._bounds, self._limits
        )
        return proposal


def fast_path_commits(principal: Did, session: bytes, limits: Limits) -> FastPathCommits | None:
    """None where the compiled fast path is not there."""
    return None if _NATIVE is None else FastPathCommits(_NATIVE, principal, session, limits)
