"""The spaces of a data directory: a directory for each, with its file in it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Final

from stemmadb.protocol import identity
from stemmadb.protocol.errors import InvalidDid, StemmaError, UnknownSpace
from stemmadb.protocol.model.ids import Did
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite import daybook_files, schema
from stemmadb.server.storage.sqlite.clerk import Clerk
from stemmadb.server.storage.sqlite.connection import close, open_reader, sync_path
from stemmadb.server.storage.sqlite.daybook import Carrier, Daybook
from stemmadb.server.storage.sqlite.daybook_pages import Record
from stemmadb.server.storage.sqlite.daybook_waiting import until_posted
from stemmadb.server.storage.sqlite.log import SCRUB_WAIT_MS, SqliteLog
from stemmadb.server.storage.sqlite.posting import Posting

SPACES: Final = "spaces"
FILE: Final = "space.db"
EMPTY_BYTES_MAX: Final = 4_096
"""A file without tables is no larger: SQLite writes one page before them."""
ENTITIES_MAX: Final = 65_536
"""How many entities the logs that are open know without asking, together; one takes about 500 bytes."""
LEFT_TO_A_THREAD: Final = 32
"""Spaces that one thread brings in, of those that a process that was killed has left."""
BRINGING_THREADS_MAX: Final = 16
ENTITIES_MIN: Final = 1_024
"""How many each of them may know, however many they are."""


class SqliteStorage:
    """Implements `port.Storage`.

    Whoever writes holds the directory (`directory.hold`), so that no second process does. A read-only storage needs
    no hold and can be used beside a writer: it changes no file's content, unless a process that was killed has left a
    daybook. Any thread may use it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        vfs: str | None = None,
        read_only: bool = False,
        scrub_wait_ms: int = SCRUB_WAIT_MS,
        carrier: Carrier | None = None,
    ) -> None:
        """With a carrier there is a daybook, which is used from the event loop that the carrier tells.

        The carrier is closed with the storage, and is the caller's if there is none.
        """
        self._directory = directory
        self._vfs = vfs
        self._read_only = read_only
        self._scrub_wait_ms = scrub_wait_ms
        self._lock = Lock()
        self._logs: list[SqliteLog] = []
        self._opening: set[Did] = set()
        self._left: dict[Did, list[Record]] = {}
        """What the daybook of an earlier process has of a space, and its file may not have."""
        self._unsettled: dict[Did, Posting] = {}
        """What could not be posted when the log of a space was closed."""
        self._clerk: Clerk | None = None
        if not read_only:
            self._bring_in()
        if carrier is not None:
            self._clerk = Clerk(directory, vfs, carrier, lambda: len(self._logs))

    def spaces(self) -> list[Did]:
        """The spaces there are files of, by name; a file that nobody came to make tables in is none."""
        found = (self._directory / SPACES).glob(f"*/{FILE}")
        return sorted(Did(file.parent.name) for file in found if _is_did(file.parent.name) and self._is_made(file))

    def _is_made(self, file: Path) -> bool:
        size = file.stat().st_size
        if not 0 < size <= EMPTY_BYTES_MAX:
            return size > 0
        try:
            connection = open_reader(file, self._vfs)  # the tables may be in the write-ahead log
            try:
                return schema.version_of(connection, file) > 0
            finally:
                close(connection)
        except (StorageFailed, StemmaError):
            return True  # whoever opens it is told what is wrong

    def open(self, space: Did, *, create: bool = False) -> SqliteLog:
        """The log of a space; `UnknownSpace` if there is none and it is not to be made."""
        log = self._open(space, create=create)
        try:
            self._take_up(log)
        except BaseException:
            log.close()
            raise
        return log

    def _open(self, space: Did, *, create: bool) -> SqliteLog:
        identity.public_key(space)  # a DID is safe as a name of a directory, and anything else is refused
        file = self._directory / SPACES / space / FILE
        with self._lock:
            self._logs = [log for log in self._logs if not log.is_closed]
            is_open = space in self._opening or any(log.space == space for log in self._logs)
            assert self._read_only or not is_open, f"{space} is open already"
            self._opening.add(space)
        try:
            log = self._opened(file, space, create=create)
        finally:
            with self._lock:
                self._opening.discard(space)
        with self._lock:
            self._logs.append(log)
        return log

    def _opened(self, file: Path, space: Did, *, create: bool) -> SqliteLog:
        is_new = not file.exists()
        if is_new:
            if not create or self._read_only:
                raise UnknownSpace(space=space)
            _make_directory(file.parent)
        log = SqliteLog(
            file,
            space,
            vfs=self._vfs,
            read_only=self._read_only,
            create=create,
            scrub_wait_ms=self._scrub_wait_ms,
            owner=self,
        )
        if is_new:
            _make_private(file)
        return log

    def room(self) -> int:
        """A fair part for each log: one that was opened before others shrinks to it when it is next written."""
        return max(ENTITIES_MIN, ENTITIES_MAX // max(1, len(self._logs)))

    def close(self) -> None:
        with self._lock:
            logs, self._logs = self._logs, []
        for log in logs:
            log.close()
        if self._clerk is not None:
            self._clerk.close(is_settled=not self._unsettled)

    # -- the daybook

    @property
    def clerk(self) -> Clerk | None:
        return self._clerk

    def daybook(self) -> Daybook | None:
        """None while that of an earlier process is still needed."""
        return None if self._clerk is None or self._left else self._clerk.ask()

    def clear_daybook(self) -> None:
        if self._left:
            raise StorageFailed("a daybook that was left is still needed by a space that cannot be opened")
        if self._clerk is not None and self._clerk.book is not None:
            self._clerk.book.start_over()

    def keep_unsettled(self, space: Did, posting: Posting) -> None:
        self._unsettled.setdefault(space, posting)  # one that was not brought in has all that this one has

    def _bring_in(self) -> None:
        """Posts what a process that was killed has left. A space that cannot take it now does when it is opened."""
        self._left = daybook_files.read(self._directory)
        # Of each the disk is waited for several times.
        with ThreadPoolExecutor(min(1 + len(self._left) // LEFT_TO_A_THREAD, BRINGING_THREADS_MAX)) as threads:
            list(threads.map(self._bring_in_one, list(self._left)))
        if not self._left:
            daybook_files.remove(self._directory)

    def _bring_in_one(self, space: Did) -> None:
        try:
            self.open(space).close()
        except UnknownSpace:
            del self._left[space]  # it was removed since
        except (StorageFailed, StemmaError):
            return

    def _take_up(self, log: SqliteLog) -> None:
        """The log has just been opened: first of all it gets what a daybook has of it."""
        if self._read_only:
            until_posted(self._directory, log.space, log.tip, lambda: SqliteStorage(self._directory).close())
            return
        space, unsettled = log.space, self._unsettled.get(log.space)
        if space in self._left:
            log.bring_in(self._left[space])
            with self._lock:  # two may be the last ones
                if len(self._left) == 1:
                    daybook_files.remove(self._directory)
                del self._left[space]
        if unsettled is not None:
            log.bring_in(list(unsettled.unposted))
            unsettled.forget()
            del self._unsettled[space]
        book = None if self._clerk is None else self._clerk.book
        if book is not None and book.is_broken:
            book.mend()


def _is_did(name: str) -> bool:
    try:
        identity.public_key(name)
    except InvalidDid:
        return False
    return True


def _make_directory(directory: Path) -> None:
    """Makes the directory of a space, so that it is there after a power failure as well."""
    with daybook_files.disk_failures():
        for step in (directory.parent.parent, directory.parent, directory):
            step.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_path(step.parent)


def _make_private(file: Path) -> None:
    """Leaves the file to its owner, as its directory is; SQLite makes files beside it like it from then on."""
    for one in file.parent.glob(f"{file.name}*"):
        one.chmod(0o600)
