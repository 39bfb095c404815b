"""A commit before it has a name: what it writes, what it relied on, and what it was checked against."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from stemmadb.client.nursery.commit_names import NO_COMMITS, CommitNames
from stemmadb.client.nursery.entities import CachedEntity
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value

WriteKind: TypeAlias = Literal["set", "patch", "delete"]


class CommitWrite(NamedTuple):
    """One operation, encoded once: `body` goes to the journal and the server, `value` is what it means here.

    `value` is the whole value of a `set` and the list of operations of a `patch`. It belongs to the nursery: nobody
    else holds a reference to it, so that nothing the app does later can change it.
    """

    op: WriteKind
    id: EntityId
    body: bytes | None
    value: Value
    paths: tuple[str, ...] | None
    """What it writes, as JSON Pointers; None is the whole entity."""
    blind: bool = False


class PlannedRead(NamedTuple):
    """A read to declare: of a path of an entity or of a prefix, at a confirmed version, through pending commits."""

    version: Version
    id: EntityId | None = None
    prefix: str | None = None
    path: str = ""
    through: CommitNames = NO_COMMITS
    branch: BranchName | None = None
    """The branch read, if it is not the one written."""


class CommitPlan(NamedTuple):
    """What a transaction comes to. Without writes there is nothing to commit."""

    branch: BranchName
    writes: tuple[CommitWrite, ...]
    reads: tuple[PlannedRead, ...] = ()
    note: bytes | None = None
    """The encoded note."""
    bases: tuple[tuple[EntityId, CachedEntity], ...] = ()
    """What was read from the server for it: the nursery holds it beneath the pending layers of these entities."""
