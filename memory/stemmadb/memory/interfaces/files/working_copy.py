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
ONE_BY_ONE_MAX: Final = 32
"""Up to so many files are made durable one by one; above, one sync of the system is quicker."""


class WorkingCopy:
    """Paths are relative to `.claude/memory/`, which may be a symlink."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.root = Path(os.path.realpath(project / MEMORY))
        self._top = str(self.root)

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
        every = [path for path in self._walk(top) if not path.endswith(TEMPORARY)] if top.is_dir() else []
        found = {path: self.read(f"{BASE}/{path}") for path in every}
        return {path: data for path, data in found.items() if data is not None}

    def read(self, path: str) -> bytes | None:
        """None if there is no such file; a symlink is no file."""
        try:
            opened = os.open(f"{self._top}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            found = os.fstat(opened)
            if not stat.S_ISREG(found.st_mode):
                return None
            data = os.read(opened, found.st_size + 1)
            while len(data) > found.st_size and (more := os.read(opened, 1 << 20)):  # it grows
                data += more
            return data
        finally:
            os.close(opened)

    # ------------------------------------------------------------ writing

    def replace(self, files: Mapping[str, bytes]) -> None:
        """Writes these files. All are durable before the first is renamed."""
        self._make_parents(files)
        for path, data in files.items():
            _write_new(f"{self._top}/{path}{TEMPORARY}", data, is_durable=len(files) <= ONE_BY_ONE_MAX)
        if len(files) > ONE_BY_ONE_MAX:
            os.sync()
        for path in files:
            os.replace(f"{self._top}/{path}{TEMPORARY}", f"{self._top}/{path}")

    def record_base(self, files: Mapping[str, bytes], gone: Iterable[str] = ()) -> None:
        """What the files are as of this sync. Not synced to disk: without it, everything is compared again."""
        self._make_parents([f"{BASE}/{path}" for path in files])
        for path, data in files.items():
            target = f"{self._top}/{BASE}/{path}"
            _write_new(target + TEMPORARY, data, is_durable=False)
            os.replace(target + TEMPORARY, target)
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

    def _make_parents(self, paths_: Iterable[str]) -> None:
        for parent in sorted({path.rpartition("/")[0] for path in paths_}):
            directory = self.root / parent
            directory.mkdir(parents=True, exist_ok=True)
            if os.path.realpath(directory) != str(directory):
                raise InvalidRequest(f"{directory} leads elsewhere by a symlink. Remove the symlink.")


def _write_new(path: str, data: bytes, *, is_durable: bool) -> None:
    """Writes a file that is not there: never one that a symlink leads to."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    with open(path, "xb") as file:
        file.write(data)
        if is_durable:
            file.flush()
            os.fsync(file.fileno())
