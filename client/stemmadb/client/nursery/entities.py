"""What is held of an entity, and what is shown of it."""

from __future__ import annotations

import enum
from typing import Final, Literal, NamedTuple, TypeAlias

from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Local, Version
from stemmadb.protocol.model.values.json_values import Value

Key: TypeAlias = tuple[BranchName, EntityId]


class Nothing(enum.Enum):
    """In the place of a value."""

    ABSENT = "absent"
    """Known not to be there."""
    UNKNOWN = "unknown"
    """Not held here: nobody may guess (SYNC-4)."""


ABSENT: Final = Nothing.ABSENT
UNKNOWN: Final = Nothing.UNKNOWN
Absent: TypeAlias = Literal[Nothing.ABSENT]


class CachedEntity(NamedTuple):
    """Confirmed: the value of an entity, and version and hash of its last fact (NURSERY-1).

    `as_of` is None for what is watched, which is true at `to`; anything else has the version it was read at.
    """

    value: Value | Absent
    version: Version
    hash: Hash
    as_of: Version | None = None


class CommitName(NamedTuple):
    """An own commit: the session it was made in, and its number there (COMMIT-5)."""

    session: bytes
    local: Local


class ShownLayer(NamedTuple):
    """What one pending commit does to one entity, as the view shows it."""

    name: CommitName
    paths: tuple[str, ...] | None
    """What it writes there, as JSON Pointers; None is the whole entity."""
    value: Value | Nothing
    """What is shown with this layer on top."""


class Shown(NamedTuple):
    """An entity in a view: its value, the confirmed version beneath, and the pending commits it is seen through.

    A layer that is skipped, since it no longer applies, is not among `layers`.
    """

    value: Value | Nothing
    basis: Version
    """The version to declare for a read of it: the view's own for what is watched, else the one it was read at."""
    layers: tuple[ShownLayer, ...] = ()
