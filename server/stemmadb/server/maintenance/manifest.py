"""The manifest of a backup, of a directory or of a database: which spaces it has, and how far each of them goes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

import msgspec
from blake3 import blake3

from stemmadb.protocol.errors import BrokenChain, NotEmpty, StemmaError
from stemmadb.protocol.identity import public_key
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.body import encode
from stemmadb.server.maintenance.regular_files import open_regular
from stemmadb.server.storage.blob_directory import sync_directory
from stemmadb.server.storage.port import StoredBlob

NAME: Final = "manifest.json"
WAITING: Final = f".{NAME}"
"""A manifest that was not finished: an interrupted backup leaves it, and the next one replaces it."""
FORMAT: Final = 1
BYTES_MAX: Final = 1 << 28
"""Of a manifest: enough for half a million spaces."""


class SpaceBackup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One space: the last commit of its copy, when that was made, and the blobs it has, as one hash.

    `bytes` is the most that its database file may have; a restore copies no more.
    """

    space: str
    version: int
    hash: str
    time: int
    blobs: str
    bytes: int


class Manifest(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="stemmadb", tag="backup", forbid_unknown_fields=True
):
    format: Literal[1] = FORMAT
    spaces: list[SpaceBackup]

    def of(self, space: str) -> SpaceBackup | None:
        return next((entry for entry in self.spaces if entry.space == space), None)

    def with_(self, entry: SpaceBackup) -> Manifest:
        """The same with this space as it is now."""
        others = [other for other in self.spaces if other.space != entry.space]
        return Manifest(spaces=sorted([*others, entry], key=lambda one: one.space))


class ExportPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One export stream, in a file of exactly so many bytes, with the commits after a version up to another."""

    file: str
    after: int
    version: int
    bytes: int
    blobs: list[str]


class SpaceExports(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One space of a database: its last commit, the blobs it had as one hash, and its streams in order."""

    space: str
    version: int
    hash: str
    time: int
    blobs: str
    parts: list[ExportPart]

    @property
    def named_blobs(self) -> frozenset[str]:
        return frozenset(name for part in self.parts for name in part.blobs)


class ExportsManifest(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="stemmadb", tag="exports", forbid_unknown_fields=True
):
    """The backup of a database is a set of exports."""

    format: Literal[1] = FORMAT
    spaces: list[SpaceExports]

    def of(self, space: str) -> SpaceExports | None:
        return next((entry for entry in self.spaces if entry.space == space), None)

    def with_(self, entry: SpaceExports) -> ExportsManifest:
        """The same with this space as it is now."""
        others = [other for other in self.spaces if other.space != entry.space]
        return ExportsManifest(spaces=sorted([*others, entry], key=lambda one: one.space))


EMPTY: Final = Manifest(spaces=[])
NO_EXPORTS: Final = ExportsManifest(spaces=[])
_PART: Final = re.compile(r"[0-9a-z-]+\.jsonl")
_decoder: Final = msgspec.json.Decoder(Manifest | ExportsManifest)


def hash_blobs(blobs: Iterable[StoredBlob]) -> str:
    """Changes when a blob comes or goes, which takes no version."""
    hasher = blake3()
    for blob in blobs:
        hasher.update(encode(blob))
    return reference.write(hasher.digest())


def load(directory: Path) -> Manifest | None:
    """The manifest there, None without one; `BrokenChain` if it cannot be read, `NotEmpty` if it is of a database."""
    found = load_any(directory)
    if isinstance(found, ExportsManifest):
        raise NotEmpty(f"{str(directory)!r} is the backup of a database.", directory=str(directory))
    return found


def load_exports(directory: Path) -> ExportsManifest | None:
    """The same of the backup of a database."""
    found = load_any(directory)
    if isinstance(found, Manifest):
        raise NotEmpty(f"{str(directory)!r} is the backup of a data directory.", directory=str(directory))
    return found


def load_any(directory: Path) -> Manifest | ExportsManifest | None:
    """The manifest of whatever it is a backup of."""
    try:
        with open_regular(directory, Path(NAME)) as file:
            data = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    if len(data) > BYTES_MAX:
        raise BrokenChain(version=0, place=f"file {NAME}", why=f"it has more than {BYTES_MAX} bytes")
    try:
        manifest: Manifest | ExportsManifest = _decoder.decode(data)
        for entry in manifest.spaces:
            public_key(entry.space)
            reference.read(entry.hash)
            if isinstance(entry, SpaceExports):
                _check_parts(entry)
    except (msgspec.DecodeError, UnicodeDecodeError, StemmaError) as wrong:
        raise BrokenChain(version=0, place=f"file {NAME}", why=f"it cannot be read ({wrong})") from wrong
    return manifest


def _check_parts(entry: SpaceExports) -> None:
    version = 0
    for part in entry.parts:
        if part.after != version or not _PART.fullmatch(part.file):
            raise msgspec.ValidationError(f"the streams of {entry.space} do not follow each other")
        version = part.version
    if version != entry.version or not entry.parts:
        raise msgspec.ValidationError(f"the streams of {entry.space} end elsewhere")


def save(directory: Path, manifest: Manifest | ExportsManifest) -> None:
    """Replaces the manifest, all or nothing; durable when this returns."""
    waiting = directory / WAITING
    with waiting.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(waiting, directory / NAME)
    sync_directory(directory)
