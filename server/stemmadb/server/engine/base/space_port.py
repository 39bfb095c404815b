"""What the operations of the engine (merges, undo, erasure, blobs, reads) ask of a space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from stemmadb.protocol.model.access.delegation import DelegatedRights
from stemmadb.protocol.model.commit.admission import Outcome
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log.commit_record import OperationIdentity
from stemmadb.protocol.model.values.ids import Did, Hash, TimeMs
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.storage.port import Destroyed, LogReader, SpaceLog

T = TypeVar("T")


class Asked(msgspec.Struct, frozen=True):
    """Who asks for a space-wide write, so that it is done exactly once (COMMIT-11), and the note with it.

    A principal that presents delegations has the rights in `delegated` only (ACL-4); `at` is the time by which they
    are judged before anything is planned for it. The decision has its own time.
    """

    identity: OperationIdentity
    request: Hash
    note: bytes | None = None
    delegated: tuple[DelegatedRights, ...] = ()
    at: TimeMs = TimeMs(0)


class SpaceApi(Protocol):
    """An open space. All of it is used from one event loop."""

    @property
    def did(self) -> Did: ...

    @property
    def limits(self) -> Limits: ...

    async def decide(self, proposal: Proposal, destroyed: Destroyed | None = None) -> Outcome:
        """Decides it in order with all others; returns once everything it was decided on is durable (COMMIT-10).

        `Unavailable` or `StorageFull` if there is no verdict. What is destroyed goes in the same transaction, and is
        scrubbed from the files before this returns (ERASE-1): while that cannot be done there is no verdict, and
        asking again tries it again.
        """
        ...

    async def read(self, ask: Callable[[LogReader], T]) -> T:
        """Runs a question on one read view of the log, in a worker thread; sees every commit acknowledged before."""
        ...

    async def in_turn(self, work: Callable[[SpaceLog], T]) -> T:
        """Runs work on the writing side of the log, alone, in a worker thread."""
        ...
