"""Reading beside a daybook: what was acknowledged before a read-only log is opened is in its file first.

The process that holds the directory posts in its next quiet moment, or soon after. Where nobody holds it, the one who
had it was killed, and whoever comes first posts what it has left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from stemmadb.protocol.errors import DirectoryHeld
from stemmadb.protocol.model.ids import Did, Version
from stemmadb.server.storage import directory as directories
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite import daybook_files as files

WAIT_SECONDS_MAX: Final = 10.0
PAUSE_SECONDS: Final = 0.01


def until_posted(directory: Path, space: Did, tip: Callable[[], Version], bring_in: Callable[[], None]) -> None:
    """Returns once the file of the space has all that a daybook had when this was called.

    `tip` is the last version in the file; `bring_in` posts what was left in a directory that is held for it.
    """
    wanted, end = files.last_version(directory, space), time.monotonic() + WAIT_SECONDS_MAX
    while tip() < wanted:
        if not directories.is_held(directory):
            _bring_in(directory, bring_in)
            if not files.last_version(directory, space):
                return  # what does not follow the log is of another, and gone
        if time.monotonic() > end:
            raise StorageFailed(f"what was committed to {space} last is not in its file yet; try again")
        time.sleep(PAUSE_SECONDS)


def _bring_in(directory: Path, bring_in: Callable[[], None]) -> None:
    with suppress(DirectoryHeld):  # another was first
        try:
            with directories.hold(directory):
                bring_in()
        except OSError as error:
            raise StorageFailed(f"a daybook was left that cannot be brought in: {error}") from error
