"""File descriptors: as many as the system gives, and connections leave some for the storage."""

from __future__ import annotations

import resource
from typing import Final, NamedTuple

RESERVED_MAX: Final = 4_096
"""For the files of open spaces; of few descriptors in all it is half."""
SPARE_SHARE: Final = 4
"""One of so many is for connections that are no WebSocket yet, or never will be."""


class Places(NamedTuple):
    """How many connections there may be, and how many beside them that are not WebSockets yet."""

    connections: int
    spare: int


def raise_limit() -> int:
    """Takes all that the process may have; returns how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def places(descriptors: int, *, wanted: Places) -> Places:
    """What is wanted, or as much of it as leaves the storage its share."""
    free = max(descriptors - min(RESERVED_MAX, descriptors // 2), SPARE_SHARE)
    spare = min(wanted.spare, free // SPARE_SHARE)
    return Places(min(wanted.connections, free - spare), spare)
