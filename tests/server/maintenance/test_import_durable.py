"""An import is durable before anybody can see the space."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from kept_spaces import fill
from space import SPACE
from stemmadb.server.maintenance import incoming
from stemmadb.server.maintenance.export import export
from stemmadb.server.maintenance.import_batches import import_spaces
from stemmadb.server.storage.blob_directory import sync_directory
from stemmadb.server.storage.memory import MemoryStorage


@pytest.mark.rule("KEEP-3")
def test_a_space_that_is_brought_in_is_durable_before_it_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []
    rename = os.rename

    def synced(directory: Path) -> None:
        done.append(("sync", directory.name))
        sync_directory(directory)

    def renamed(source: Path, target: Path) -> None:
        done.append(("rename", target.name))
        rename(source, target)

    log = MemoryStorage().open(SPACE, create=True)
    fill(log)
    stream = io.BytesIO()
    export(log, stream.write)
    stream.seek(0)
    monkeypatch.setattr(incoming, "sync_directory", synced)
    monkeypatch.setattr("os.rename", renamed)
    import_spaces(stream, tmp_path)
    seen = done.index(("rename", SPACE))
    assert {name for what, name in done[:seen] if what == "sync"} >= {SPACE, "blobs"}
    assert [one for one in done[seen + 1 :] if one[0] == "sync"] == [("sync", "spaces"), ("sync", tmp_path.name)]
