"""File descriptors: as many as the system gives, and connections leave some for the storage."""

from __future__ import annotations

import resource
from typing import Final, NamedTuple

from stemmadb.protocol.errors import Unavailable

RESERVED_MAX: Final = 4_096
"""For the files of open spaces; of few descriptors in all it is half."""
SPARE_SHARE: Final = 4
"""One of so many is for connections that are no WebSocket yet, or never will be."""


SPACE_DESCRIPTORS: Final = 12
"""Of one open space: its file, write-ahead log and index for the writer, and two for each idle reader."""
PARENT_DESCRIPTORS: Final = 32
"""What the parent of workers has open itself, with some to start a worker with."""
WORKER_DESCRIPTORS: Final = 4
"""Of the parent, for each worker: both ends of its lifeline, the control channel, and one while it starts."""


class ConnectionLimits(NamedTuple):
    """How many connections there may be, and how many beside them that are not WebSockets yet."""

    connections: int
    spare: int


def raise_limit() -> int:
    """Takes all that the process may have; returns how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def connection_limits(descriptors: int, *, wanted: ConnectionLimits) -> ConnectionLimits:
    """What is wanted, or as much of it as leaves the storage its share."""
    free = max(descriptors - _reserved(descriptors), SPARE_SHARE)
    spare = min(wanted.spare, free // SPARE_SHARE)
    return ConnectionLimits(min(wanted.connections, free - spare), spare)


def open_spaces(descriptors: int, *, wanted: int) -> int:
    """How many spaces are kept open: what is wanted, or as many as the share of the storage is enough for."""
    return max(1, min(wanted, _reserved(descriptors) // SPACE_DESCRIPTORS))


def check_workers(descriptors: int, workers: int) -> None:
    """`Unavailable` if the parent of so many workers could not start all of them."""
    most = max(1, (descriptors - PARENT_DESCRIPTORS) // WORKER_DESCRIPTORS)
    if workers > most:
        raise Unavailable(
            f"{workers} workers need more file descriptors than the {descriptors} that this process may open. "
            f"Start with --workers {most}, or raise the limit (`ulimit -n`)."
        )


def _reserved(descriptors: int) -> int:
    """The share of the storage."""
    return min(RESERVED_MAX, descriptors // 2)
