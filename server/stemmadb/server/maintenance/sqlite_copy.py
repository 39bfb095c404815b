"""A consistent copy of a space's file while it is in use.

`VACUUM INTO` copies what one read transaction sees, row by row. A copy of pages would be faster, and would take along
what was erased a moment ago and is not yet scrubbed from unused pages (ERASE-1).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stemmadb.server.maintenance.progress import MaintenanceProgress, OnProgress
from stemmadb.server.storage.sqlite.connection import failures, open_reader, sync_path

STEPS: Final = 100_000
"""Instructions of SQLite between two looks at how far it is; a Ctrl-C is heeded then too."""


def copy_database(file: Path, target: Path, on_progress: OnProgress) -> None:
    """Copies to a file that is not there yet; it is durable when this returns, its name is not."""
    total = file.stat().st_size
    connection = open_reader(file, None)

    def look() -> bool:
        done = target.stat().st_size if target.exists() else 0
        on_progress(MaintenanceProgress("copying the log", min(done, total), total))
        return False

    try:
        with failures(connection):
            # The connection cannot write to its own file; the copy is another one.
            connection.pragma("query_only", 0)
            connection.set_progress_handler(look, STEPS)
            connection.execute("VACUUM INTO ?", (str(target),))
    finally:
        connection.close()
    target.chmod(0o600)
    sync_path(target)
    on_progress(MaintenanceProgress("copying the log", total, total))
