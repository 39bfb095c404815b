"""The seam of requests: what the reading half of the client needs of a session."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from stemmadb.client.nursery.entities import Nothing
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.messages.base import Part, Request, WriteRequest

P = TypeVar("P", bound=Part)


class Requester(Protocol):
    """Sends requests to the server. Without a connection a request waits for one, at most `timeout` seconds."""

    @property
    def limits(self) -> Limits:
        """The bounds that the server announced, or the defaults before it did."""
        ...

    def check_feature(self, feature: str) -> None:
        """`UnsupportedProtocol` if the server is known to be too old for it."""
        ...

    def has_feature(self, feature: str) -> bool:
        """Whether the server announced it."""
        ...

    async def ask(self, kind: type[Request], answer: type[P], *, timeout: float | None = None, **fields: Any) -> P:
        """The answer; raises the typed error that was answered, `Unreachable` or `TimedOut`.

        A question whose connection was lost is asked again on the next: reading twice does no harm.
        """
        ...

    async def write(
        self, kind: type[WriteRequest], answer: type[P], *, timeout: float | None = None, **fields: Any
    ) -> P:
        """The same for a write beside ordinary commits: it gets its operation id and nonce here, once, and is sent
        again with the same ones after a lost connection, so that it is done once (COMMIT-11)."""
        ...

    def random(self, count: int) -> bytes:
        """Random bytes."""
        ...


class PendingOverlay(Protocol):
    """Own pending writes on top of what a server read brought."""

    def layered(self, branch: BranchName) -> frozenset[EntityId]:
        """The entities that pending commits write on a branch."""
        ...

    def over(self, branch: BranchName, id_: EntityId, value: Value | Nothing) -> Value | Nothing:
        """What is shown where the confirmed value is this one: pending commits that apply, on top of it."""
        ...

    def accepted_after(self, branch: BranchName, id_: EntityId, version: Version) -> bool:
        """Whether an own commit that wrote it was accepted after this version, so that a read at it would miss it."""
        ...
