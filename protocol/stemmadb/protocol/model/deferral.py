"""Deferral: what happens to the later commits of a session when one could not be decided (COMMIT-10).

`unavailable`, `storage_full` and rate limits are not verdicts. The commit stays pending on the client, and every
later local of its session is deferred too until that one is sent again: locals are decided in order.
"""

from __future__ import annotations

from stemmadb.protocol.errors import Unready
from stemmadb.protocol.model.commit import Identity, LocalIdentity
from stemmadb.protocol.model.ids import Did, Local


class Deferrals:
    """For each session with an undecided commit, the lowest deferred local and why. Lives as long as a connection."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[Did, bytes], tuple[Local, Unready]] = {}

    def defer(self, identity: Identity, cause: Unready) -> None:
        """This one could not be decided; the lowest of a session is the one to wait for."""
        if isinstance(identity, LocalIdentity):
            session = (identity.principal, identity.session)
            held = self._waiting.get(session)
            if held is None or identity.local < held[0]:
                self._waiting[session] = (identity.local, cause)

    def holds_back(self, identity: Identity) -> Unready | None:
        """Why this one must be deferred without being decided; sending the awaited one again frees the session."""
        if not isinstance(identity, LocalIdentity):
            return None
        session = (identity.principal, identity.session)
        held = self._waiting.get(session)
        if held is None:
            return None
        if identity.local > held[0]:
            return held[1]
        if identity.local == held[0]:
            del self._waiting[session]
        return None

    def forget(self, principal: Did, session: bytes) -> None:
        """The connection ended; the client sends everything undecided again, in order (RESUME-2)."""
        self._waiting.pop((principal, session), None)
