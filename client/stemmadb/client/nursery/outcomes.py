"""What becomes of pending commits, and what a frame came to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.nursery.pending import Pending
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Hash, TimeMs, Version
from stemmadb.protocol.wire.messages.commit import Current


class Confirmation(NamedTuple):
    """Durable on the server."""

    pending: Pending
    version: Version
    time: TimeMs
    hash: Hash


class CommitRefusal(NamedTuple):
    """Not in the log, and never will be under this name."""

    pending: Pending
    code: str
    message: str
    details: Mapping[str, Any] = MappingProxyType({})
    stale: tuple[StaleRead, ...] = ()
    current: tuple[Current, ...] = ()
    decided: Version = EMPTY_SPACE
    """The version at which it was decided: what `current` is as of."""
    because: CommitName | None = None
    """The refused commit it depended on, if it was not refused itself (NURSERY-3)."""


class Integrated(NamedTuple):
    """The outcome of a frame, for the session to journal and report."""

    confirmed: tuple[Confirmation, ...] = ()
    refused: tuple[CommitRefusal, ...] = ()
    ended: tuple[tuple[int, StemmaError], ...] = ()
    """Watches that are over, and why."""
    strangers: bool = False
    """There was a verdict for a commit that was never made here: somebody else uses this session (NURSERY-5)."""
