"""The directory `.claude/memory/` of a project: what is in it, what it was at the last sync, and safe writes.

A file is replaced by renaming a complete one, under the lock that the scripts take too. `.stemma/base/` has each file
as of the last sync. It is written after the file: a crash in between makes a file look changed to what the store has,
and the next sync finds both to be the same.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from stemmadb.memory.rules.refusals import InvalidRequest
from stemmadb.memory.rules.tasks import paths

MEMORY: Final = ".claude/memory"
BASE: Final = f"{paths.STATE}/base"
CONFLICTS: Final = f"{paths.STATE}/conflicts"
TEMPORARY: Final = ".tmp"


class WorkingCopy:
    """Paths are relative to `.claude/memory/`, which may be a symlink."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.root = Path(os.path.realpath(project / MEMORY))

    def make(self) -> None:
        """The directories, and a `.gitignore` that keeps our own state out of git."""
        for name in ("tasks", "lib", BASE, CONFLICTS):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        (self.root / paths.STATE / ".gitignore").write_text("*\n")

    def check(self) -> None:
        """`InvalidRequest` unless `init` was here."""
        if not (self.root / BASE).is_dir():
            raise InvalidRequest(f"{self.project} has no task files yet. Run 'stemmadb memory files init' there.")

    @contextmanager
    def locked(self, name: str = "") -> Iterator[None]:
        """One writer at a time: the lock of the scripts, or with a name that of another directory."""
        directory = os.open(self.root / name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)

    # ------------------------------------------------------------ reading

    def scan(self) -> tuple[dict[str, bytes], dict[str, str]]:
        """The files of the plan with their bytes, and why others are left out. The index is not among them."""
        found: dict[str, bytes] = {}
        refused: dict[str, str] = {}
        for path in self._walk(self.root):
            if path == paths.INDEX or path.endswith(TEMPORARY):
                continue
            why = paths.refusal_of(path)
            if why is None:
                data = self.read(path)
                if data is None:
                    refused[path] = "is not a file that can be read, or a symlink."
                else:
                    found[path] = data
            elif not path.endswith((".sh", ".swp", "~", ".lock")):
                refused[path] = why
        return found, refused

    def _walk(self, top: Path, prefix: str = "") -> Iterator[str]:
        with os.scandir(top) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                path = prefix + entry.name
                if path in paths.OURS:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(top / entry.name, f"{path}/")
                else:
                    yield path

    def base(self) -> dict[str, bytes]:
        """The files as of the last sync."""
        top = self.root / BASE
        found = {path: (top / path).read_bytes() for path in self._walk(top)} if top.is_dir() else {}
        return {path: data for path, data in found.items() if not path.endswith(TEMPORARY)}

    def read(self, path: str) -> bytes | None:
        """None if there is no such file; a symlink is no file."""
        try:
            opened = os.open(self.root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        with os.fdopen(opened, "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(opened).st_mode) else None

    # ------------------------------------------------------------ writing

    def replace(self, files: Mapping[str, bytes]) -> None:
        """Writes these files. All are durable before the first is renamed."""
        for path, data in files.items():
            self._prepare(path, data)
        for path in files:
            _sync_file(self._temporary(path))
        for path in files:
            os.replace(self._temporary(path), self.root / path)

    def record_base(self, files: Mapping[str, bytes], gone: Iterable[str] = ()) -> None:
        """What the files are as of this sync. Not synced to disk: without it, everything is compared again."""
        for path, data in files.items():
            self._prepare(f"{BASE}/{path}", data)
            os.replace(self._temporary(f"{BASE}/{path}"), self.root / BASE / path)
        for path in gone:
            (self.root / BASE / path).unlink(missing_ok=True)

    def remove(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)
        parent = (self.root / path).parent
        with suppress(OSError):  # not empty
            if parent not in (self.root, self.root / "tasks"):
                parent.rmdir()

    def set_aside(self, path: str, theirs: str | None) -> None:
        """The store's version of a file with a conflict, to look at; an empty file if the store has none."""
        self.replace({f"{CONFLICTS}/{path}.theirs": (theirs or "").encode()})

    def settle(self, conflicts: Iterable[str]) -> None:
        """Removes what was set aside for files that have no conflict any more."""
        top = self.root / CONFLICTS
        wanted = {f"{path}.theirs" for path in conflicts} | {f"{paths.INDEX}.mine"}
        for path in list(self._walk(top)) if top.is_dir() else ():
            if path not in wanted:
                self.remove(f"{CONFLICTS}/{path}")

    def _prepare(self, path: str, data: bytes) -> None:
        target = self._temporary(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if os.path.realpath(target.parent) != str(target.parent):
            raise InvalidRequest(f"{path} leads out of .claude/memory/ by a symlink. Remove the symlink.")
        target.unlink(missing_ok=True)
        with open(target, "xb") as file:
            file.write(data)

    def _temporary(self, path: str) -> Path:
        return self.root / f"{path}{TEMPORARY}"


def _sync_file(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
