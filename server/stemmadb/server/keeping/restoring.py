"""Restore: brings the spaces of a backup into an empty data directory, each verified before anybody can see it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from stemmadb.protocol.errors import BrokenChain, NotEmpty, UnknownSpace
from stemmadb.protocol.model import reference
from stemmadb.protocol.model.commit import genesis
from stemmadb.protocol.model.ids import Did, Version
from stemmadb.server.engine.blob_files import FOLDER as BLOBS
from stemmadb.server.keeping import manifest as manifests
from stemmadb.server.keeping.backing_up import DATABASE
from stemmadb.server.keeping.incoming import SPACES, incoming, publish
from stemmadb.server.keeping.manifest import Kept
from stemmadb.server.keeping.progress import Counter, Tell, quiet
from stemmadb.server.keeping.verifying import Verified, verify
from stemmadb.server.storage.directory import hold
from stemmadb.server.storage.sqlite import SqliteStorage
from stemmadb.server.storage.sqlite.connection import sync_path


def restore(
    backup: Path, directory: Path, *, spaces: Sequence[Did] | None = None, tell: Tell = quiet
) -> list[Verified]:
    """Copies all spaces of a backup, or those named, verifies the copies, and then shows them all.

    `NotEmpty` if the directory has spaces, `DirectoryHeld` if it is in use, `BrokenChain` if a copy does not verify
    or is not what the manifest says. The backup is only read, and on any failure no space is left behind.
    """
    wanted = _wanted(backup, spaces)
    with hold(directory):
        if any(directory.glob(f"{SPACES}/*")):
            raise NotEmpty(directory=str(directory))
        SqliteStorage(directory).close()  # a daybook that was left goes: it is not of what comes now
        with incoming(directory) as place:
            (place / SPACES).mkdir()
            restored = [_restore_one(backup, place, kept, tell) for kept in wanted]
            publish(place, directory)
    return restored


def _wanted(backup: Path, spaces: Sequence[Did] | None) -> list[Kept]:
    manifest = manifests.load(backup)
    if manifest is None:
        raise FileNotFoundError(errno.ENOENT, "there is no backup here", str(backup / manifests.NAME))
    if spaces is None:
        return manifest.spaces
    found = [(space, manifest.of(space)) for space in spaces]
    for space, kept in found:
        if kept is None:
            raise UnknownSpace(space=space)
    return [kept for _, kept in found if kept is not None]


def _restore_one(backup: Path, place: Path, kept: Kept, tell: Tell) -> Verified:
    source, target = backup / SPACES / kept.space, place / SPACES / kept.space
    _copy(source, target, tell)
    storage = SqliteStorage(place, read_only=True)
    try:
        log = storage.open(Did(kept.space))
        try:
            verified = verify(log, tell=tell)
            with log.reader() as reader:
                found = reader.commits([Version(kept.version)]).get(Version(kept.version))
        finally:
            log.close()
    finally:
        storage.close()
    # A backup that was interrupted may be ahead of its manifest, never behind it.
    hash_ = found.hash if found is not None else genesis(kept.space)
    if reference.write(hash_) != kept.hash:
        why = f"the copy of {kept.space} does not hold the commit that the manifest names"
        raise BrokenChain(version=kept.version, place=f"file {manifests.NAME}", why=why)
    return verified


def _copy(source: Path, target: Path, tell: Tell) -> None:
    files = [Path(DATABASE), *_blobs(source)]
    counter = Counter(tell, "copying files", len(files), every=1)
    target.mkdir(mode=0o700)
    (target / BLOBS).mkdir(mode=0o700)
    for file in files:
        shutil.copyfile(source / file, target / file)
        os.chmod(target / file, 0o600)
        sync_path(target / file)
        counter.add()


def _blobs(source: Path) -> Iterator[Path]:
    if (source / BLOBS).is_dir():
        for name in sorted(os.listdir(source / BLOBS)):
            yield Path(BLOBS, name)
