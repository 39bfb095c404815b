"""Deferral: what happens to the later commits of a session when one could not be decided (COMMIT-10).

`unavailable`, `storage_full` and rate limits are not verdicts. The commit stays pending on the client, and every
later local of its session is deferred too until that one is sent again: locals are decided in order.
"""

from __future__ import annotations

from bisect import insort

from stemmadb.protocol.errors import Unready
from stemmadb.protocol.model.commit import Identity, LocalIdentity
from stemmadb.protocol.model.ids import Did, Local
from stemmadb.protocol.model.limits import DEFAULTS


class Deferrals:
    """For each session the locals that were told `deferred`, and why. Lives as long as a connection.

    All of them are awaited, the lowest first: if the second were forgotten once the first has come, a third could
    overtake it (COMMIT-5). Beyond `locals_max` they are held back without being awaited.
    """

    def __init__(self, awaited_max: int = DEFAULTS.locals_max) -> None:
        self._awaited_max = awaited_max
        self._waiting: dict[tuple[Did, bytes], tuple[list[Local], Unready]] = {}

    def defer(self, identity: Identity, cause: Unready) -> None:
        """This one could not be decided."""
        if isinstance(identity, LocalIdentity):
            awaited, _ = self._waiting.setdefault((identity.principal, identity.session), ([], cause))
            self._await(awaited, identity.local)

    def holds_back(self, identity: Identity) -> Unready | None:
        """Why this one must be deferred without being decided; it is then awaited itself."""
        if not isinstance(identity, LocalIdentity):
            return None
        session = (identity.principal, identity.session)
        if session not in self._waiting:
            return None
        awaited, cause = self._waiting[session]
        if identity.local > awaited[0]:
            self._await(awaited, identity.local)
            return cause
        if identity.local == awaited[0]:
            del awaited[0]
            if not awaited:
                del self._waiting[session]
        return None

    def _await(self, awaited: list[Local], local: Local) -> None:
        if local not in awaited and len(awaited) < self._awaited_max:
            insort(awaited, local)

    def forget(self, principal: Did, session: bytes) -> None:
        """The connection ended; the client sends everything undecided again, in order (RESUME-2)."""
        self._waiting.pop((principal, session), None)
