"""Short words for writes beside fast-path commits on a real space: who asks, and what overtakes a plan."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from space import ALICE, session_of
from stemmadb.protocol.model.commit.admission import Outcome
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log.commit_record import OperationIdentity
from stemmadb.protocol.model.log.facts import digest_of
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.space_port import Asked, SpaceApi
from stemmadb.server.storage.port import Destroyed, LogReader, SpaceLog, Tip

T = TypeVar("T")


def asked(operation: str, *, author: Did = ALICE, request: str = "", note: bytes | None = None) -> Asked:
    """A write with an operation id; the request is the same for the same id unless it is given."""
    identity = OperationIdentity(author, session_of(operation))
    return Asked(identity, digest_of(b"", (request or operation).encode()), note)


async def tip_of(space: SpaceApi) -> Tip:
    """Where its log ends."""

    def ask(reader: LogReader) -> Tip:
        return reader.tip()

    return await space.read(ask)


class Overtaken:
    """A space on which something else happens each time between a plan and its decision."""

    def __init__(self, space: SpaceApi, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._space = space
        self._meanwhile = meanwhile
        self.decisions = 0

    @property
    def did(self) -> Did:
        return self._space.did

    @property
    def limits(self) -> Limits:
        return self._space.limits

    async def decide(self, proposal: Proposal, destroyed: Destroyed | None = None) -> Outcome:
        self.decisions += 1
        await self._meanwhile()
        return await self._space.decide(proposal, destroyed)

    async def read(self, ask: Callable[[LogReader], T]) -> T:
        return await self._space.read(ask)

    async def in_turn(self, work: Callable[[SpaceLog], T]) -> T:
        return await self._space.in_turn(work)
