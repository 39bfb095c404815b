"""Backup: copies the spaces of a data directory, which may be in use, to another directory.

A backup is laid out as a data directory is, with a manifest beside the spaces: `verify` can read it as it is. Each
space is consistent by itself, as of one version. Blob files are there before the copy of the log that names them, the
copy before the manifest, and files that no copy names go last, so that an interrupted backup is a good older one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from stemmadb.protocol.errors import BrokenChain, NotEmpty, StemmaError, Unavailable, UnknownSpace
from stemmadb.protocol.model.log.commit_record import genesis
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Did, Hash, TimeMs, Version
from stemmadb.server.engine.blobs.blob_files import blocks, hash_of
from stemmadb.server.maintenance import manifest as manifests
from stemmadb.server.maintenance.incoming import PREFIX, SPACES, incoming
from stemmadb.server.maintenance.manifest import SpaceBackup
from stemmadb.server.maintenance.progress import Counter, OnProgress, quiet
from stemmadb.server.maintenance.sqlite_copy import copy_database
from stemmadb.server.maintenance.verify import verify_space
from stemmadb.server.storage.blob_directory import BlobDirectory, blob_path, sync_directory
from stemmadb.server.storage.directory import LOCK, hold
from stemmadb.server.storage.port import SpaceLog, Storage, StorageFailed
from stemmadb.server.storage.sqlite import SqliteStorage
from stemmadb.server.storage.sqlite.storage import FILE

DATABASE: Final = FILE
COPIES_MAX: Final = 3
"""How often a space is copied again because blobs that the copy names went away meanwhile."""


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """A space of the backup as it is now; `is_new` unless its copy was up to date."""

    space: Did
    version: Version
    hash: Hash
    is_new: bool


Failed: TypeAlias = Callable[[Did, Exception], None]
"""Is told of a space that could not be copied, and why; unless it raises, the others go on."""


def give_up(space: Did, error: Exception) -> None:  # noqa: ARG001
    raise error


def back_up(
    source: Path,
    target: Path,
    *,
    now: Callable[[], TimeMs],
    spaces: Sequence[Did] | None = None,
    on_progress: OnProgress = quiet,
    failed: Failed = give_up,
) -> list[BackedUp]:
    """Copies all spaces, or those named, into a new backup or into an older one of the same directory.

    A space that has not moved and blob files that are there are not copied again. Spaces of an older backup that are
    not copied now stay in it. `NotEmpty` if the target has something else in it, `DirectoryHeld` if it is in use.

    An older copy of a space stays if the new one does not verify (`BrokenChain`), or does not continue the history
    that the manifest names (`NotEmpty`).
    """
    storage = SqliteStorage(source, read_only=True)
    try:
        wanted = known_spaces(storage, spaces)
        with hold(target):
            _check_target(target)
            with incoming(target) as place:
                backup = _Backup(storage, source, target, place, now, on_progress)
                return list(_taken(backup, wanted, failed))
    finally:
        storage.close()


def _taken(backup: _Backup, spaces: Sequence[Did], failed: Failed) -> Iterator[BackedUp]:
    for space in spaces:
        try:
            yield backup.take(space)
        except (StemmaError, StorageFailed, OSError) as error:
            failed(space, error)


def known_spaces(storage: Storage, spaces: Sequence[Did] | None) -> list[Did]:
    """Those named, or all of them; `UnknownSpace` for one that is not there."""
    there = storage.spaces()
    for space in spaces or ():
        if space not in there:
            raise UnknownSpace(space=space)
    return there if spaces is None else list(spaces)


def _check_target(target: Path) -> None:
    if manifests.load(target) is not None:
        return
    ours = (LOCK, manifests.WAITING)
    if any(found.name not in ours and not found.name.startswith(PREFIX) for found in target.iterdir()):
        raise NotEmpty(directory=str(target))
    manifests.save(target, manifests.EMPTY)


class _Backup:
    """One run of a backup, space by space."""

    def __init__(
        self,
        storage: Storage,
        source: Path,
        target: Path,
        place: Path,
        now: Callable[[], TimeMs],
        on_progress: OnProgress,
    ) -> None:
        self._storage = storage
        self._source = source / SPACES
        self._target = target
        self._place = place
        self._now = now
        self._on_progress = on_progress

    def take(self, space: Did) -> BackedUp:
        manifest = manifests.load(self._target) or manifests.EMPTY
        known = manifest.of(space)
        now = self._looked_at(self._storage, space)
        is_new = known is None or _is_moved(known, now.entry) or not self._file(space).exists()
        if is_new:
            now = self._copy(space)
            self._check(space, known)
            size = (self._place / SPACES / space / DATABASE).stat().st_size
            if known is not None and known.bytes < size:  # if it is interrupted, the older entry fits the new file
                manifests.save(self._target, manifest.with_(msgspec.structs.replace(known, bytes=size)))
            self._place_copy(space)
            manifests.save(self._target, manifest.with_(msgspec.structs.replace(now.entry, bytes=size)))
        else:
            self._copy_blobs(space, now.in_files)
        self._sweep(space, now.in_files)
        return BackedUp(
            space=space, version=Version(now.entry.version), hash=reference.read(now.entry.hash), is_new=is_new
        )

    def _copy(self, space: Did) -> _Look:
        """Copies the log, then the blobs that the copy names: blobs come before what names them in a log as well."""
        for _ in range(COPIES_MAX):
            folder = self._place / SPACES / space
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, mode=0o700)
            copy_database(self._source / space / DATABASE, folder / DATABASE, self._on_progress)
            copy = SqliteStorage(self._place, read_only=True)
            try:
                look = self._looked_at(copy, space)
            finally:
                copy.close()
            if self._copy_blobs(space, look.in_files):
                return look
        raise Unavailable(f"blobs of {space} went away again and again while they were copied. Try again later.")

    def _check(self, space: Did, known: SpaceBackup | None) -> None:
        """Raises unless the copy continues the one that it replaces, and verifies."""
        copy = SqliteStorage(self._place, read_only=True)
        try:
            verify_space(copy, space, on_progress=self._on_progress, blobs_in=self._target / SPACES / space)
            if known is not None and _hash_in(copy, space, Version(known.version)) != known.hash:
                raise NotEmpty(
                    f"The backup holds version {known.version} of {space}, which is not in the history of the space "
                    "now. The backup stays as it is. Back up to another directory.",
                    directory=str(self._file(space).parent),
                )
        finally:
            copy.close()

    def _copy_blobs(self, space: Did, blobs: Collection[Hash]) -> bool:
        """Copies the files that are missing; false if one of them is not there any more."""
        counter = Counter(self._on_progress, "copying blobs", len(blobs), every=1)
        for hash_ in blobs:
            target = blob_path(self._target / SPACES / space, hash_)
            if not target.exists() and not self._copy_blob(space, hash_):
                return False
            counter.add()
        return True

    def _copy_blob(self, space: Did, hash_: Hash) -> bool:
        source, waiting = blob_path(self._source / space, hash_), self._place / "blob"
        try:
            shutil.copyfile(source, waiting)
        except FileNotFoundError:
            if self._is_named(space, hash_):
                raise _broken_blob(hash_, "its file is missing") from None
            return False
        with waiting.open("rb") as file:
            if hash_of(blocks(file)) != hash_:
                raise _broken_blob(hash_, "its file was changed")
            os.fsync(file.fileno())
        folder = self._target / SPACES / space
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        BlobDirectory(folder).put(hash_, waiting)
        return True

    def _is_named(self, space: Did, hash_: Hash) -> bool:
        log = self._storage.open(space)
        try:
            with log.reader() as reader:
                return reader.blob(hash_) is not None
        finally:
            log.close()

    def _place_copy(self, space: Did) -> None:
        file = self._file(space)
        file.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        for beside in ("-wal", "-shm", "-journal"):  # of an older file, if somebody has opened it to write
            file.with_name(file.name + beside).unlink(missing_ok=True)
        os.replace(self._place / SPACES / space / DATABASE, file)
        sync_directory(file.parent)
        sync_directory(file.parent.parent)

    def _sweep(self, space: Did, wanted: Collection[Hash]) -> None:
        """Removes the files of blobs that were erased or compacted away since the last backup (ERASE-1)."""
        files = BlobDirectory(self._file(space).parent)
        files.remove({name.hash for name in files.names()}.difference(wanted))

    def _file(self, space: Did) -> Path:
        return self._target / SPACES / space / DATABASE

    def _looked_at(self, storage: Storage, space: Did) -> _Look:
        log = storage.open(space)
        try:
            with log.reader() as reader:
                tip = reader.tip()
                entry = SpaceBackup(
                    space=space,
                    version=tip.version,
                    hash=reference.write(tip.hash),
                    time=self._now(),
                    blobs=manifests.hash_blobs(reader.blobs()),
                    bytes=0,
                )
                return _Look(entry, [blob.hash for blob in reader.blobs() if blob.in_file])
        finally:
            log.close()


class _Look(msgspec.Struct, frozen=True):
    """A space as the manifest tells it, and its blobs that are files."""

    entry: SpaceBackup
    in_files: list[Hash]


def _hash_in(storage: Storage, space: Did, version: Version) -> str | None:
    log = storage.open(space)
    try:
        return hash_at(log, version)
    finally:
        log.close()


def hash_at(log: SpaceLog, version: Version) -> str | None:
    """The hash of the commit at a version; None if the space does not go so far."""
    if version == EMPTY_SPACE:
        return reference.write(genesis(log.space))
    with log.reader() as reader:
        found = reader.commits([version]).get(version)
        return None if found is None else reference.write(found.hash)


def _is_moved(old: SpaceBackup, new: SpaceBackup) -> bool:
    return (old.version, old.hash, old.blobs) != (new.version, new.hash, new.blobs)


def _broken_blob(hash_: Hash, why: str) -> BrokenChain:
    return BrokenChain(version=0, place=f"blob {reference.write(hash_)}", why=why)
