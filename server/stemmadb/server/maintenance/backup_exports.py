"""The backup of a database: a set of export streams with a manifest, and how it comes back.

    TARGET/manifest.json
    TARGET/exports/<did>/0-120-<hash>.jsonl        all of a space, as of version 120
    TARGET/exports/<did>/120-150-<hash>.jsonl      what came since

A space that has moved gets one more stream, with the commits and blobs since the last. It is exported whole again
where something was erased or compacted, so that no later backup holds it, and where it has many streams. A stream is
there before the manifest names it, and streams that the manifest does not name go last, so that an interrupted backup
is a good older one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from stemmadb.protocol.errors import BrokenChain, NotEmpty, StemmaError, Unavailable, UnknownSpace
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Did, Hash, TimeMs, Version
from stemmadb.server.maintenance import manifest as manifests
from stemmadb.server.maintenance.backup import BackedUp, Failed, give_up, hash_at, known_spaces
from stemmadb.server.maintenance.export import Exported, export, has_destroyed
from stemmadb.server.maintenance.import_space import receive
from stemmadb.server.maintenance.incoming import IncomingSpaces
from stemmadb.server.maintenance.manifest import ExportPart, SpaceExports
from stemmadb.server.maintenance.progress import OnProgress, quiet
from stemmadb.server.maintenance.regular_files import open_regular
from stemmadb.server.maintenance.stream import BlobLine, EndLine, LineReader
from stemmadb.server.maintenance.verify import Verified, verify
from stemmadb.server.storage.blob_directory import sync_directory
from stemmadb.server.storage.directory import LOCK, hold
from stemmadb.server.storage.port import SpaceLog, Storage, StorageFailed

EXPORTS: Final = "exports"
ARRIVING: Final = ".arriving"
NAME_LETTERS: Final = 8
PARTS_MAX: Final = 64
"""Streams of a space; then it is exported whole again."""
EXPORTS_MAX: Final = 3
"""How often a space is exported again because something was destroyed meanwhile."""


def back_up_database(
    storage: Storage,
    target: Path,
    *,
    now: Callable[[], TimeMs],
    spaces: Sequence[Did] | None = None,
    on_progress: OnProgress = quiet,
    failed: Failed = give_up,
) -> list[BackedUp]:
    """Exports all spaces, or those named, into a new backup or an older one of the same database.

    Promises what `back_up` does for a directory: each space is verified, and an older state of it stays if it does
    not verify (`BrokenChain`) or does not continue what the manifest names (`NotEmpty`).
    """
    wanted = known_spaces(storage, spaces)
    with hold(target):
        _check_target(target)
        backup = _Backup(storage, target, now, on_progress)
        return list(_taken(backup, wanted, failed))


def restore_database(
    backup: Path, place: IncomingSpaces, *, spaces: Sequence[Did] | None = None, on_progress: OnProgress = quiet
) -> list[Verified]:
    """Brings all spaces of a backup, or those named, into an empty database or directory, and then shows them all.

    `BrokenChain` or `BadStream` if a stream is not what the manifest says; then nothing is left behind.
    """
    wanted = _wanted(backup, spaces)
    place.check_empty()
    restored = [_restore_one(backup, place, entry, on_progress) for entry in wanted]
    place.publish()
    return restored


def _taken(backup: _Backup, spaces: Sequence[Did], failed: Failed) -> Iterator[BackedUp]:
    for space in spaces:
        try:
            yield backup.take(space)
        except (StemmaError, StorageFailed, OSError) as error:
            failed(space, error)


def _check_target(target: Path) -> None:
    if manifests.load_exports(target) is not None:
        return
    if any(found.name not in (LOCK, manifests.WAITING) for found in target.iterdir()):
        raise NotEmpty(directory=str(target))
    manifests.save(target, manifests.NO_EXPORTS)


class _Backup:
    """One run of a backup, space by space."""

    def __init__(self, storage: Storage, target: Path, now: Callable[[], TimeMs], on_progress: OnProgress) -> None:
        self._storage = storage
        self._target = target
        self._now = now
        self._on_progress = on_progress

    def take(self, space: Did) -> BackedUp:
        manifest = manifests.load_exports(self._target) or manifests.NO_EXPORTS
        known = manifest.of(space)
        log = self._storage.open(space)
        try:
            self._check_continues(log, known)
            if known is not None and self._is_current(log, known):
                self._sweep(known)
                return _backed_up(known, is_new=False)
            verify(log, on_progress=self._on_progress)
            entry = self._export(log, known)
        finally:
            log.close()
        manifests.save(self._target, manifest.with_(entry))
        self._sweep(entry)
        return _backed_up(entry, is_new=True)

    def _check_continues(self, log: SpaceLog, known: SpaceExports | None) -> None:
        if known is not None and hash_at(log, Version(known.version)) != known.hash:
            raise NotEmpty(
                f"The backup holds version {known.version} of {log.space}, which is not in the history of the space "
                "now. The backup stays as it is. Back up to another directory.",
                directory=str(self._folder(log.space)),
            )

    def _is_current(self, log: SpaceLog, known: SpaceExports) -> bool:
        with log.reader() as reader:
            is_same = reader.tip().version == known.version and manifests.hash_blobs(reader.blobs()) == known.blobs
        return is_same and self._has_files(known)

    def _has_files(self, known: SpaceExports) -> bool:
        paths = [(self._folder(known.space) / part.file, part.bytes) for part in known.parts]
        return all(path.is_file() and path.stat().st_size == size for path, size in paths)

    def _export(self, log: SpaceLog, known: SpaceExports | None) -> SpaceExports:
        for _ in range(EXPORTS_MAX):
            kept = self._kept(log, known)
            with log.reader() as reader:
                blobs = [(reference.write(blob.hash), blob.hash) for blob in reader.blobs()]
                all_blobs = manifests.hash_blobs(reader.blobs())
            had = frozenset(name for part in kept for name in part.blobs)
            after = Version(kept[-1].version) if kept else EMPTY_SPACE
            try:
                part, done = self._write(log, after, [hash_ for name, hash_ in blobs if name in had])
            except Unavailable:  # something was destroyed meanwhile
                continue
            if kept and self._is_destroyed(log, after):
                continue
            return SpaceExports(
                space=log.space,
                version=done.version,
                hash=reference.write(done.hash),
                time=self._now(),
                blobs=all_blobs,
                parts=[*kept, part],
            )
        raise Unavailable(f"Something of {log.space} was erased again and again while it was exported. Try again.")

    def _kept(self, log: SpaceLog, known: SpaceExports | None) -> list[ExportPart]:
        """The streams that the next one can go on from; none if what they hold is not there any more."""
        if known is None or len(known.parts) >= PARTS_MAX or not self._has_files(known):
            return []
        with log.reader() as reader:
            there = {reference.write(blob.hash) for blob in reader.blobs()}
        if not known.named_blobs <= there or self._is_destroyed(log, Version(known.version)):
            return []
        return known.parts

    def _is_destroyed(self, log: SpaceLog, after: Version) -> bool:
        with log.reader() as reader:
            return has_destroyed(reader, after)

    def _write(self, log: SpaceLog, after: Version, without: Sequence[Hash]) -> tuple[ExportPart, Exported]:
        """A stream in a file of its own, read back before anybody relies on it."""
        folder = self._folder(log.space)
        for step in (folder.parent, folder):
            step.mkdir(mode=0o700, exist_ok=True)
            sync_directory(step.parent)
        waiting = folder / ARRIVING
        with open(os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            done = export(log, file.write, after=after, without=without, on_progress=self._on_progress)
            file.flush()
            os.fsync(file.fileno())
        with waiting.open("rb") as file:
            blobs, hash_ = _read_back(LineReader(file), done)
        name = f"{after}-{done.version}-{hash_}.jsonl"
        os.replace(waiting, folder / name)
        sync_directory(folder)
        return ExportPart(file=name, after=after, version=done.version, bytes=done.bytes, blobs=blobs), done

    def _sweep(self, entry: SpaceExports) -> None:
        """Removes streams that no manifest names any more (ERASE-1)."""
        folder, named = self._folder(entry.space), {part.file for part in entry.parts}
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name not in named:
                path.unlink()
        if folder.is_dir():
            sync_directory(folder)

    def _folder(self, space: str) -> Path:
        return self._target / EXPORTS / space


def _read_back(lines: LineReader, done: Exported) -> tuple[list[str], str]:
    """The blobs in a stream, and letters of its hash for its name; `BrokenChain` if it is not what was written."""
    header, blobs = lines.begin(), []
    line = lines.next()
    while not isinstance(line, EndLine):
        if isinstance(line, BlobLine):
            blobs.append(line.hash)
        line = lines.next()
    if header is None or header.hash != reference.write(done.hash) or line.stream != lines.hash_before():
        raise BrokenChain(version=done.version, place=f"file {ARRIVING}", why="it is not what was written")
    return blobs, line.stream.removeprefix("b3:")[:NAME_LETTERS]


def _backed_up(entry: SpaceExports, *, is_new: bool) -> BackedUp:
    return BackedUp(
        space=Did(entry.space), version=Version(entry.version), hash=reference.read(entry.hash), is_new=is_new
    )


def _wanted(backup: Path, spaces: Sequence[Did] | None) -> list[SpaceExports]:
    manifest = manifests.load_exports(backup)
    if manifest is None:
        raise FileNotFoundError(errno.ENOENT, "there is no backup here", str(backup / manifests.NAME))
    if spaces is None:
        return manifest.spaces
    found = {space: manifest.of(space) for space in spaces}
    for space, entry in found.items():
        if entry is None:
            raise UnknownSpace(space=space)
    return [entry for entry in found.values() if entry is not None]


def _restore_one(backup: Path, place: IncomingSpaces, entry: SpaceExports, on_progress: OnProgress) -> Verified:
    log = place.open(Did(entry.space))
    try:
        with ExitStack() as opened:
            first, *later = (_stream(backup, entry, part, opened) for part in entry.parts)
            header = first.begin()
            if header is None or (header.space, header.after) != (entry.space, 0):
                first.fail(f"the stream of {entry.space} belongs here")
            done = receive(first, header, log, later=later, on_progress=on_progress)
    finally:
        log.close()
    if (done.version, reference.write(done.hash)) != (entry.version, entry.hash):
        why = f"the streams of {entry.space} do not end with the commit that the manifest names"
        raise BrokenChain(version=entry.version, place=f"file {manifests.NAME}", why=why)
    return done


def _stream(backup: Path, entry: SpaceExports, part: ExportPart, opened: ExitStack) -> LineReader:
    path = Path(EXPORTS, entry.space, part.file)
    file = opened.enter_context(open_regular(backup, path))
    if os.fstat(file.fileno()).st_size != part.bytes:
        raise BrokenChain(version=0, place=f"file {path}", why=f"it has not the {part.bytes} bytes expected")
    return LineReader(file)
