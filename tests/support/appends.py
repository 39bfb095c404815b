"""Appending in tests: to a log that was opened without workers, so that the call returns once it is durable."""

from __future__ import annotations

from collections.abc import Sequence

from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.storage import blocking
from stemmadb.server.storage.port import AcceptedWrite, AppendBatch, Snapshot, SpaceLog, no_snapshots


def append_to(
    log: SpaceLog, expected: Version, writes: Sequence[AcceptedWrite], snapshots: Sequence[Snapshot] = ()
) -> None:
    """Raises what the append failed with."""
    blocking.append(log, AppendBatch(expected, writes, (lambda: snapshots) if snapshots else no_snapshots))
