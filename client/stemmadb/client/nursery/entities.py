"""What is held of an entity, and the names of own commits."""

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
