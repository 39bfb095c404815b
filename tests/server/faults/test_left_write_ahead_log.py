"""A write-ahead log that was left is written again, all of it, before it is trusted (COMMIT-10)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from appends import append_to
from faulty_vfs import Synced, Written, faulty
from logs import LogMaker
from space import SPACE, set_
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.storage.sqlite import SqliteStorage
from stemmadb.server.storage.sqlite.storage import FILE, SPACES

WAL = f"{FILE}-wal"
COMMITS = 60


@pytest.mark.rule("COMMIT-10")
def test_a_long_write_ahead_log_that_was_left_is_written_again_to_its_end(tmp_path: Path) -> None:
    """SQLite's own files take no more than 128 KiB at once, and say that the disk is full."""
    storage, maker = SqliteStorage(tmp_path / "data"), LogMaker()
    log = storage.open(SPACE, create=True)
    for number in range(COMMITS):
        append_to(log, Version(number), [maker.commit(set_("urn:x:1", "x" * 8_000, blind=True))])
    shutil.copytree(tmp_path / "data", tmp_path / "left")
    storage.close()
    size = (tmp_path / "left" / SPACES / SPACE / WAL).stat().st_size
    assert size > 256 * 1024
    with faulty() as vfs:
        left = SqliteStorage(tmp_path / "left", vfs=vfs.name)
        left.open(SPACE).close()
        left.close()
        events = [event for event in vfs.events if isinstance(event, Written | Synced) and event.file == WAL]
    synced = next(at for at, event in enumerate(events) if isinstance(event, Synced))
    written = [event for event in events[:synced] if isinstance(event, Written)]
    assert sum(len(event.data) for event in written) == size
