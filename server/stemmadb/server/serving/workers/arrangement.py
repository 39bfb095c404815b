"""How a data directory is divided among workers, and how it comes to be divided in another way.

Whoever calls this holds the directory with those of all workers, and has recovered what they left.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.serving.ownership.worker_ownership import worker_of
from stemmadb.server.serving.workers import members, places
from stemmadb.server.storage.directory import worker_directories
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite.wal import segments


def settle(data: Path, workers: int) -> None:
    """Divides what is divided, and removes what so many workers do not need; 1 is one process for everything."""
    if workers > 1:
        for place in worker_directories(data):
            if int(place.name) >= workers and _has_group_wal(place):
                raise StorageFailed(f"the group_wal files in {place} are still needed; start as before")
    members.divide(data, workers)
    if workers > 1:
        places.make(data, workers)
    elif not any(_has_group_wal(place) for place in worker_directories(data)):
        places.remove(data)


def check_recovered(data: Path, workers: int, unrecovered: Collection[Did]) -> None:
    """`StorageFailed` if a space that cannot be recovered now has its last commits with another worker."""
    for space in unrecovered:
        own = places.place(data, worker_of(space, workers))
        for place in segments.directories(data):
            if place != own and space in segments.read(place):
                before = max(1, len(worker_directories(data)))
                raise StorageFailed(
                    f"the last commits to {space} cannot be recovered now; start with --workers {before} as before"
                )


def _has_group_wal(place: Path) -> bool:
    return any((place / name).exists() for name in segments.NAMES)
