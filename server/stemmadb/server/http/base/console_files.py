"""The built files of the web console: found in the package of HTTP in a wheel, or in build/console/ of a tree."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

PACKAGED: Final = "console_files"
"""The folder of `stemmadb.server.http` that a wheel has them in; scripts/build_console.py puts them there."""
INDEX: Final = "index.html"
PAIR: Final = "pair.html"
ASSETS: Final = "assets"
TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
"""What an asset may be; files with other endings are not given out."""
ZIPPED: Final = frozenset({".css", ".js", ".json", ".svg"})


class ConsoleAsset(msgspec.Struct, frozen=True):
    """A file whose name holds its hash, so that it never changes; `zipped` is None where that gains nothing."""

    content_type: str
    plain: bytes
    zipped: bytes | None


class BuiltConsole(msgspec.Struct, frozen=True):
    """All of it, in memory: about half a megabyte."""

    index: str
    pair: str
    assets: Mapping[str, ConsoleAsset]


class ConsoleFiles:
    """Reads the files when they are first asked for, and again after another build. Blocks: call it in a thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read_at: int | None = None
        self._built: BuiltConsole | None = None

    def current(self) -> BuiltConsole | None:
        """None if the console was not built, or is being built now."""
        try:
            changed = (self._directory / INDEX).stat().st_mtime_ns
            if changed != self._read_at:
                self._built, self._read_at = _read(self._directory), changed
        except OSError:
            return None
        return self._built


def console_directory() -> Path:
    """Where the files are, or would be."""
    here = Path(__file__).resolve().parents[1]
    packaged = here / PACKAGED
    return packaged if packaged.is_dir() else here.parents[3] / "build" / "console"


def _read(directory: Path) -> BuiltConsole:
    assets = {file.name: _asset(file) for file in sorted((directory / ASSETS).iterdir()) if file.suffix in TYPES}
    return BuiltConsole((directory / INDEX).read_text(), (directory / PAIR).read_text(), assets)


def _asset(file: Path) -> ConsoleAsset:
    plain = file.read_bytes()
    zipped = gzip.compress(plain, compresslevel=6, mtime=0) if file.suffix in ZIPPED else None
    return ConsoleAsset(TYPES[file.suffix], plain, zipped)
