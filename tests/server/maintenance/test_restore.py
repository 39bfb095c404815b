"""A restore brings a backup back as it was, or nothing at all, and leaves the backup alone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kept_spaces import LARGE, blob_of, fill
from snapshots import drop_snapshots
from space import BOB, SPACE
from stemmadb.protocol.errors import BrokenChain, DirectoryHeld, NotEmpty, StemmaError, UnknownSpace
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import TimeMs, Version
from stemmadb.server.maintenance import restore as restoring
from stemmadb.server.maintenance.backup import back_up
from stemmadb.server.maintenance.manifest import BYTES_MAX
from stemmadb.server.maintenance.restore import restore
from stemmadb.server.maintenance.verify import verify_space
from stemmadb.server.storage.directory import hold
from stemmadb.server.storage.sqlite import SqliteStorage

COPY = Path("spaces") / SPACE / "space.db"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of a space with one of everything, and of an empty one."""
    directory = tmp_path_factory.mktemp("source")
    storage = SqliteStorage(directory / "data")
    fill(storage.open(SPACE, create=True))
    storage.open(BOB, create=True)
    back_up(directory / "data", directory / "backup", now=lambda: TimeMs(1))
    storage.close()
    return directory / "backup"


@pytest.fixture
def backup(source: Path, tmp_path: Path) -> Path:
    shutil.copytree(source, tmp_path / "backup")
    return tmp_path / "backup"


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def refused(backup: Path, directory: Path, **how: Any) -> StemmaError:
    with pytest.raises(StemmaError) as found:
        restore(backup, directory, **how)
    assert not list(directory.glob("spaces/*"))
    assert not list(directory.glob(".incoming-*"))
    return found.value


@pytest.mark.rule("KEEP-2")
def test_a_restored_directory_has_every_space_as_it_was(backup: Path, tmp_path: Path) -> None:
    done = restore(backup, tmp_path / "data")
    assert [(one.space, one.version) for one in done] == sorted([(SPACE, 23), (BOB, 0)])
    storage = SqliteStorage(tmp_path / "data")
    assert verify_space(storage, SPACE) in done
    log = storage.open(SPACE)
    log.put_blob(blob_of(b"it can be written"), b"it can be written")
    storage.close()


@pytest.mark.rule("KEEP-2")
def test_a_restore_leaves_the_backup_untouched(backup: Path, tmp_path: Path) -> None:
    before = contents(backup)
    restore(backup, tmp_path / "data")
    storage = SqliteStorage(tmp_path / "data")
    drop_snapshots(storage.open(SPACE))
    storage.close()
    assert contents(backup) == before


def test_a_backup_on_a_medium_that_cannot_be_written_is_restored(backup: Path, tmp_path: Path) -> None:
    for path in sorted(backup.rglob("*"), reverse=True):
        path.chmod(0o500 if path.is_dir() else 0o400)
    restore(backup, tmp_path / "data")
    assert (tmp_path / "data" / COPY).stat().st_mode & 0o777 == 0o600


def test_a_named_space_is_restored_alone(backup: Path, tmp_path: Path) -> None:
    (done,) = restore(backup, tmp_path / "data", spaces=[BOB])
    assert done.space == BOB
    assert SqliteStorage(tmp_path / "data").spaces() == [BOB]


def test_a_space_that_is_not_in_the_backup_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    text = json.loads((source / "manifest.json").read_text())
    (tmp_path / "empty" / "manifest.json").write_text(json.dumps(text | {"spaces": []}))
    assert isinstance(refused(tmp_path / "empty", tmp_path / "data", spaces=[SPACE]), UnknownSpace)


@pytest.mark.rule("KEEP-2")
def test_a_directory_that_has_spaces_is_refused(backup: Path, tmp_path: Path) -> None:
    restore(backup, tmp_path / "data", spaces=[BOB])
    before = contents(tmp_path / "data")
    with pytest.raises(NotEmpty):
        restore(backup, tmp_path / "data", spaces=[SPACE])
    assert contents(tmp_path / "data") == before


def test_a_directory_in_use_is_refused(backup: Path, tmp_path: Path) -> None:
    with hold(tmp_path / "data"):
        assert isinstance(refused(backup, tmp_path / "data"), DirectoryHeld)


def test_a_directory_that_is_no_backup_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no backup here"):
        restore(tmp_path / "nothing", tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.rule("KEEP-2", "FACT-3")
def test_a_damaged_copy_is_refused(backup: Path, tmp_path: Path) -> None:
    data = bytearray((backup / COPY).read_bytes())
    at = data.index(b"urn:only")
    data[at] ^= 1
    (backup / COPY).write_bytes(data)
    assert isinstance(refused(backup, tmp_path / "data"), BrokenChain)


@pytest.mark.rule("BLOB-1")
def test_a_damaged_or_missing_blob_is_refused(backup: Path, tmp_path: Path) -> None:
    file = backup / "spaces" / SPACE / "blobs" / reference.write(blob_of(LARGE).hash)
    file.write_bytes(LARGE[:-1])
    assert isinstance(refused(backup, tmp_path / "data"), BrokenChain)
    file.unlink()
    assert isinstance(refused(backup, tmp_path / "data"), BrokenChain)


@pytest.mark.parametrize("change", [{"version": 22}, {"version": 24}, {"hash": "b3:" + "a" * 52}, {"version": 0}])
def test_a_copy_that_is_not_what_the_manifest_names_is_refused(
    backup: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    text = json.loads((backup / "manifest.json").read_text())
    kept = next(one for one in text["spaces"] if one["space"] == SPACE)
    kept.update(change)
    (backup / "manifest.json").write_text(json.dumps(text))
    found = refused(backup, tmp_path / "data")
    assert found.facts["place"] == "file manifest.json"


def test_a_copy_that_is_ahead_of_its_manifest_is_restored(backup: Path, tmp_path: Path) -> None:
    storage = SqliteStorage(backup, read_only=True)
    with storage.open(SPACE).reader() as reader:
        older = reader.commits([Version(20)])[Version(20)]
    storage.close()
    text = json.loads((backup / "manifest.json").read_text())
    kept = next(one for one in text["spaces"] if one["space"] == SPACE)
    kept.update(version=20, hash=reference.write(older.hash))
    (backup / "manifest.json").write_text(json.dumps(text))
    assert (SPACE, 23) in [(one.space, one.version) for one in restore(backup, tmp_path / "data")]


def test_an_interrupted_restore_leaves_nothing_behind(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(restoring, "verify", interrupt)
    with pytest.raises(KeyboardInterrupt):
        restore(backup, tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["lock"]


def _link(path: Path, tmp_path: Path) -> None:
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")


def _fifo(path: Path, _tmp_path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _endless(path: Path, _tmp_path: Path) -> None:
    """A sparse file: 1 TiB that takes no room here, and would take all of it in a copy."""
    os.truncate(path, 1 << 40)


def _blob_file(backup: Path) -> Path:
    return next((backup / COPY).parent.glob("blobs/*"))


@pytest.mark.rule("KEEP-2")
@pytest.mark.parametrize("spoil", [_link, _fifo, _endless])
@pytest.mark.parametrize("which", ["manifest", "database", "blob"])
def test_a_restore_takes_regular_files_of_the_expected_size_only(
    backup: Path, tmp_path: Path, which: str, spoil: Callable[[Path, Path], None]
) -> None:
    files = {"manifest": backup / "manifest.json", "database": backup / COPY, "blob": _blob_file(backup)}
    if (which, spoil) == ("manifest", _endless):
        os.truncate(files[which], BYTES_MAX + 1)
    else:
        spoil(files[which], tmp_path)
    error = refused(backup, tmp_path / "data")
    assert isinstance(error, BrokenChain)
    assert files[which].name in error.message


@pytest.mark.rule("KEEP-2")
@pytest.mark.parametrize("folder", [COPY.parent, COPY.parent / "blobs"])
def test_a_restore_follows_no_link_to_a_folder(backup: Path, tmp_path: Path, folder: Path) -> None:
    _link(backup / folder, tmp_path)
    assert isinstance(refused(backup, tmp_path / "data"), BrokenChain)
