"""The modules that every commit goes through, compiled, where that was done: the same code, for less work.

A process that serves asks for them before it imports them; tests and tools go on with the modules in Python. They are
used only if all sources are as they were when they were compiled: they hold constants of each other
(docs/decisions/0013).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

DIRECTORY: Final = Path(__file__).parent / "_compiled"
MADE_FROM: Final = "made-from"
"""The file with the fingerprint of the sources, written last."""
GROUP: Final = "stemmadb_hot__mypyc"
"""The module that has the code of all of them."""
PACKAGES: Final = ("stemmadb.protocol", "stemmadb.server")


class Compiled(MetaPathFinder):
    """Finds them in one directory, each under its whole name."""

    def __init__(self, files: dict[str, Path]) -> None:
        self._files = files

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
        /,
    ) -> ModuleSpec | None:
        file = self._files.get(fullname)
        return None if file is None else spec_from_file_location(fullname, file)


def use() -> bool:
    """Whether they are used from here on; not once one of them was imported as it is in Python."""
    from stemmadb.protocol.model.compiled import OFF  # noqa: PLC0415  # this file is also read by who compiles it

    if is_used():
        return True
    files = _files(DIRECTORY)
    if OFF in sys._xoptions or not files or not files.keys().isdisjoint(sys.modules) or not _is_fresh():
        return False
    sys.meta_path.insert(0, Compiled(files))
    try:
        import_module(GROUP)
    except ImportError:  # of another machine, or damaged
        sys.meta_path.pop(0)
        return False
    return True


def is_used() -> bool:
    return any(isinstance(finder, Compiled) for finder in sys.meta_path)


def _files(directory: Path) -> dict[str, Path]:
    """By the name of the module."""
    suffix = EXTENSION_SUFFIXES[0]
    return {file.name.removesuffix(suffix): file for file in directory.glob(f"*{suffix}")}


def _is_fresh() -> bool:
    try:
        return (DIRECTORY / MADE_FROM).read_text() == fingerprint(_roots())
    except OSError:
        return False


def _roots() -> Iterator[Path]:
    for package in PACKAGES:
        found = find_spec(package)
        assert found is not None, "one of them is this package, and the other it needs"
        assert found.origin is not None, "they have a file of their own"
        yield Path(found.origin).parent


def fingerprint(packages: Iterable[Path]) -> str:
    """Of all sources of these packages, and of the interpreter."""
    digest = hashlib.sha256(sys.version.encode())
    for package in packages:
        for source in sorted(package.rglob("*.py")):
            digest.update(f"{source.relative_to(package)}\0".encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()
