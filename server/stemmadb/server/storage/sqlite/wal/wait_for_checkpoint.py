"""A read-only log waits until its file has every commit that was acknowledged before it was opened.

The process that holds the directory applies its records the next time it is quiet, or soon after. If no process holds
the directory, its last holder was killed, and the first process that comes recovers the group WAL it left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from stemmadb.protocol.errors import DirectoryHeld
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Did, Version
from stemmadb.server.storage import directory as directories
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite.wal import segments

WAIT_SECONDS_MAX: Final = 10.0
PAUSE_SECONDS: Final = 0.02
PAUSE_SECONDS_MAX: Final = 0.5
"""Each attempt reads the segments, which may be large."""


def wait_until_applied(directory: Path, space: Did, tip: Callable[[], Version], recover: Callable[[], None]) -> None:
    """Returns once the file of the space has all records that the group WAL had when this was called.

    `tip` is the last version in the file; `recover` recovers a directory that the caller holds.
    """
    wanted, end, pause = _last(directory, space), time.monotonic() + WAIT_SECONDS_MAX, PAUSE_SECONDS
    while tip() < wanted:
        if not directories.is_held(directory) and _recovered(directory, recover):
            if _has_next(directory, space, tip()):
                raise StorageFailed(f"the last commits to {space} cannot be recovered now")
            return  # records that do not follow the log belong to another log
        if time.monotonic() > end:
            raise StorageFailed(f"the last commits to {space} are not in its file yet; try again")
        time.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)
        wanted = min(wanted, _last(directory, space))  # a block that failed is cleared again


def _last(directory: Path, space: Did) -> Version:
    records = segments.read_all(segments.directories(directory)).get(space)
    return records[-1].last if records else EMPTY_SPACE


def _has_next(directory: Path, space: Did, tip: Version) -> bool:
    return any(
        record.first == tip + 1 for record in segments.read_all(segments.directories(directory)).get(space, ())
    )


def _recovered(directory: Path, recover: Callable[[], None]) -> bool:
    """False if another process was first."""
    try:
        with directories.hold(directory):
            recover()
    except DirectoryHeld:
        return False
    except OSError as error:
        raise StorageFailed(f"the group WAL that was left behind cannot be recovered: {error}") from error
    return True
