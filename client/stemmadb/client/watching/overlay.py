"""The seam to the nursery: what a watcher looks at."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from stemmadb.client.nursery.entities import Nothing
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value


class WatchOverlay(Protocol):
    """What is shown: confirmed, with the pending commits that apply on top.

    *Known* is what a watch holds, or what a pending commit that is shown writes. Anything else is `UNKNOWN`, also if
    it was read once: it is not kept true. A value is never changed in place; a changed entity has another one.

    A member of a watch may be `UNKNOWN` while it is asked for again (SYNC-4). The watch tells nothing until it is
    known, or a member no more.
    """

    @property
    def to(self) -> Version:
        """The confirmed version of all of it."""
        ...

    def value(self, branch: BranchName, id_: EntityId) -> Value | Nothing:
        """What is shown of an entity."""
        ...

    def members(self, watch: int) -> Collection[EntityId]:
        """What the server says the watch holds; quick to ask whether an id is in it."""
        ...

    def is_layered(self, branch: BranchName) -> bool:
        """Whether pending commits that are shown write on the branch."""
        ...

    def under(self, branch: BranchName, prefix: str) -> Iterable[EntityId]:
        """At least the known ids that begin so; others may be among them, and an id may come twice."""
        ...
