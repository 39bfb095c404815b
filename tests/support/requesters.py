"""Askers over an in-process service, whose connections get lost where a test says so, and pending writes on top."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from service_peers import ALICE, Key, Peer, ServiceHarness, service_harness
from stemmadb.client.nursery.entities import ABSENT, Nothing
from stemmadb.protocol.errors import PatchFailed, StemmaError
from stemmadb.protocol.model import patch as patches
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.ids import MAIN, RANDOM_ID_BYTES, BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.messages.base import Part, Request, WriteRequest
from stemmadb.protocol.wire.version import FEATURES

P = TypeVar("P", bound=Part)
Loss: TypeAlias = Literal["no", "question", "answer"]
"""What of a question is lost with its connection: nothing, the question, or only the answer."""


class PeerRequester:
    """Asks through a peer; after a loss through a new one, the same question again (COMMIT-11)."""

    def __init__(self, at: ServiceHarness, key: Key = ALICE, **standing: Any) -> None:
        self._house = at
        self._key = key
        self._standing = standing
        self._session = at.random(RANDOM_ID_BYTES)
        self._peer: Peer | None = None
        self.losses: deque[Loss] = deque()
        """What happens to the next requests, one after the other; nothing, once it is empty."""
        self.asked: list[type[Request]] = []
        """Every kind of question sent, in order, those that were lost included."""
        self.meanwhile: deque[Any] = deque()
        """What to await after the next answers came and before they are given."""

    @property
    def limits(self) -> Limits:
        return self._house.limits

    def check_feature(self, feature: str) -> None:
        assert feature in FEATURES, "the service under test announces all of them"

    def has_feature(self, feature: str) -> bool:
        return feature in FEATURES

    def random(self, count: int) -> bytes:
        return self._house.random(count)

    async def ask(
        self,
        kind: type[Request],
        answer: type[P],
        *,
        timeout: float | None = None,  # noqa: ARG002 - nothing takes time here
        **fields: Any,
    ) -> P:
        assert kind.answer is answer, f"{kind.__name__} is answered by {kind.answer.__name__}"
        while (result := await self._try(kind, fields)) is None:
            self.lose()
        assert isinstance(result, answer)
        if self.meanwhile:
            await self.meanwhile.popleft()()
        return result

    async def write(
        self, kind: type[WriteRequest], answer: type[P], *, timeout: float | None = None, **fields: Any
    ) -> P:
        once = {"operation": self.random(RANDOM_ID_BYTES), "nonce": self.random(RANDOM_ID_BYTES)}
        return await self.ask(kind, answer, timeout=timeout, **fields, **once)

    def lose(self) -> None:
        """The connection is gone; the next question makes a new one."""
        if self._peer is not None and not self._peer.is_lost:
            self._peer.lose()
        self._peer = None

    async def _try(self, kind: type[Request], fields: dict[str, Any]) -> Part | None:
        """The answer; None if it was lost."""
        if self._peer is None:
            self._peer = await self._house.peer(self._key, session=self._session).open(**self._standing)
        loss = self.losses.popleft() if self.losses else "no"
        self.asked.append(kind)
        if loss == "question":
            return None
        try:
            result = await self._peer.ask(kind, **fields)
        except StemmaError:
            if loss == "no":
                raise
            return None
        return result if loss == "no" else None


class RequestWorld(NamedTuple):
    """A harness, one who asks, and one who commits in a session of its own."""

    harness: ServiceHarness
    requester: PeerRequester
    writer: Peer

    async def commit(self, *operations: Operation, **more: Any) -> Version:
        """Commits; the version."""
        verdict = await self.writer.commit(*operations, **more)
        version: Version = verdict.version
        return version


@asynccontextmanager
async def request_world(key: Key = ALICE, *, writer: Key = ALICE, **settings: Any) -> AsyncIterator[RequestWorld]:
    """A harness whose space is at version 1: its access list."""
    async with service_harness(**settings) as it:
        yield RequestWorld(it, PeerRequester(it, key), await it.peer(writer).open())


class PendingWrite(NamedTuple):
    id: EntityId
    op: Literal["set", "patch", "delete"]
    value: Any = None


class PendingWrites:
    """Own pending commits, each of one write; one that does not apply is not shown."""

    def __init__(self, branch: BranchName = MAIN) -> None:
        self._branch = branch
        self.pending: list[PendingWrite] = []
        self._accepted: dict[EntityId, Version] = {}

    def add(self, id_: str, op: Literal["set", "patch", "delete"], value: Any = None) -> None:
        self.pending.append(PendingWrite(EntityId(id_), op, value))

    def accept(self, version: int) -> None:
        """The oldest was accepted at this version."""
        self._accepted[self.pending.pop(0).id] = Version(version)

    def layered(self, branch: BranchName) -> frozenset[EntityId]:
        return frozenset(one.id for one in self._of(branch))

    def over(self, branch: BranchName, id_: EntityId, value: Value | Nothing) -> Value | Nothing:
        for one in self._of(branch):
            if one.id == id_:
                value = _applied(one, value)
        return value

    def accepted_after(self, branch: BranchName, id_: EntityId, version: Version) -> bool:
        return branch == self._branch and self._accepted.get(id_, 0) > version

    def _of(self, branch: BranchName) -> Iterable[PendingWrite]:
        return self.pending if branch == self._branch else ()


def _applied(write: PendingWrite, value: Value | Nothing) -> Value | Nothing:
    if write.op == "set":
        held: Value = write.value
        return held
    if write.op == "delete" or isinstance(value, Nothing):
        return ABSENT
    try:
        return patches.apply(value, write.value)
    except PatchFailed:
        return value
