"""Restore: brings the spaces of a backup into an empty data directory, each verified before anybody can see it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from stemmadb.protocol.errors import BrokenChain, NotEmpty, UnknownSpace
from stemmadb.protocol.model.log.commit_record import genesis
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Did, Version
from stemmadb.server.maintenance import manifest as manifests
from stemmadb.server.maintenance.backup import DATABASE
from stemmadb.server.maintenance.incoming import SPACES, incoming, publish
from stemmadb.server.maintenance.manifest import SpaceBackup
from stemmadb.server.maintenance.progress import Counter, OnProgress, quiet
from stemmadb.server.maintenance.regular_files import copy_regular
from stemmadb.server.maintenance.verify import Verified, verify
from stemmadb.server.storage.blob_directory import FOLDER as BLOBS
from stemmadb.server.storage.blob_directory import blob_path
from stemmadb.server.storage.directory import hold
from stemmadb.server.storage.port import SpaceLog
from stemmadb.server.storage.sqlite import SqliteStorage


def restore(
    backup: Path, directory: Path, *, spaces: Sequence[Did] | None = None, on_progress: OnProgress = quiet
) -> list[Verified]:
    """Copies all spaces of a backup, or those named, verifies the copies, and then shows them all.

    `NotEmpty` if the directory has spaces, `DirectoryHeld` if it is in use, `BrokenChain` if a copy does not verify
    or is not what the manifest says. The backup is only read, and on any failure no space is left behind.
    """
    wanted = _wanted(backup, spaces)
    with hold(directory):
        if any(directory.glob(f"{SPACES}/*")):
            raise NotEmpty(directory=str(directory))
        SqliteStorage(directory).close()  # removes a group WAL that was left: it belongs to no restored space
        with incoming(directory) as place:
            (place / SPACES).mkdir()
            restored = [_restore_one(backup, place, entry, on_progress) for entry in wanted]
            publish(place, directory)
    return restored


def _wanted(backup: Path, spaces: Sequence[Did] | None) -> list[SpaceBackup]:
    manifest = manifests.load(backup)
    if manifest is None:
        raise FileNotFoundError(errno.ENOENT, "there is no backup here", str(backup / manifests.NAME))
    if spaces is None:
        return manifest.spaces
    found = [(space, manifest.of(space)) for space in spaces]
    for space, entry in found:
        if entry is None:
            raise UnknownSpace(space=space)
    return [entry for _, entry in found if entry is not None]


def _restore_one(backup: Path, place: Path, entry: SpaceBackup, on_progress: OnProgress) -> Verified:
    folder = Path(SPACES, entry.space)
    (place / folder / BLOBS).mkdir(mode=0o700, parents=True)
    os.chmod(place / folder, 0o700)
    copy_regular(backup, folder / DATABASE, place / folder / DATABASE, bytes_max=entry.bytes)
    storage = SqliteStorage(place, read_only=True)
    try:
        log = storage.open(Did(entry.space))
        try:
            _copy_blobs(backup, place, folder, log, on_progress)
            verified = verify(log, on_progress=on_progress)
            with log.reader() as reader:
                found = reader.commits([Version(entry.version)]).get(Version(entry.version))
        finally:
            log.close()
    finally:
        storage.close()
    # A backup that was interrupted may be ahead of its manifest, never behind it.
    hash_ = found.hash if found is not None else genesis(entry.space)
    if reference.write(hash_) != entry.hash:
        why = f"the copy of {entry.space} does not hold the commit that the manifest names"
        raise BrokenChain(version=entry.version, place=f"file {manifests.NAME}", why=why)
    return verified


def _copy_blobs(backup: Path, place: Path, folder: Path, log: SpaceLog, on_progress: OnProgress) -> None:
    """The blobs that the copied log names, each of the size it names. `verify` reports those that are missing."""
    with log.reader() as reader:
        named = [blob for blob in reader.blobs() if blob.in_file]
    counter = Counter(on_progress, "copying files", len(named), every=1)
    for blob in named:
        path = blob_path(folder, blob.hash)
        with suppress(FileNotFoundError):
            copy_regular(backup, path, place / path, bytes_max=blob.size)
        counter.add()
