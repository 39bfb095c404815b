"""Reading beside a daybook: what was acknowledged before a read-only log is opened is in its file first.

The process that holds the directory posts in its next quiet moment, or soon after. Where nobody holds it, the one who
had it was killed, and whoever comes first posts what it has left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from stemmadb.protocol.errors import DirectoryHeld
from stemmadb.protocol.model.ids import EMPTY_SPACE, Did, Version
from stemmadb.server.storage import directory as directories
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite import daybook_files as files

WAIT_SECONDS_MAX: Final = 10.0
PAUSE_SECONDS: Final = 0.02
PAUSE_SECONDS_MAX: Final = 0.5
"""Each look reads the daybook, which may be large."""


def until_posted(directory: Path, space: Did, tip: Callable[[], Version], bring_in: Callable[[], None]) -> None:
    """Returns once the file of the space has all that a daybook had when this was called.

    `tip` is the last version in the file; `bring_in` posts what was left in a directory that is held for it.
    """
    wanted, end, pause = _last(directory, space), time.monotonic() + WAIT_SECONDS_MAX, PAUSE_SECONDS
    while tip() < wanted:
        if not directories.is_held(directory) and _is_brought_in(directory, bring_in):
            if _has_next(directory, space, tip()):
                raise StorageFailed(f"what was committed to {space} last cannot be brought into its file now")
            return  # what does not follow the log is of another
        if time.monotonic() > end:
            raise StorageFailed(f"what was committed to {space} last is not in its file yet; try again")
        time.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)
        wanted = min(wanted, _last(directory, space))  # a page that failed is taken back


def _last(directory: Path, space: Did) -> Version:
    records = files.read(directory).get(space)
    return records[-1].last if records else EMPTY_SPACE


def _has_next(directory: Path, space: Did, tip: Version) -> bool:
    return any(record.first == tip + 1 for record in files.read(directory).get(space, ()))


def _is_brought_in(directory: Path, bring_in: Callable[[], None]) -> bool:
    """False if another was first."""
    try:
        with directories.hold(directory):
            bring_in()
    except DirectoryHeld:
        return False
    except OSError as error:
        raise StorageFailed(f"a daybook was left that cannot be brought in: {error}") from error
    return True
