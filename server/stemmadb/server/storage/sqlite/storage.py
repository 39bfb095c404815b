"""The spaces of a data directory: a directory for each, with its file in it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Final

from stemmadb.protocol import identity
from stemmadb.protocol.errors import InvalidDid, StemmaError, UnknownSpace
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.storage.port import StorageFailed, Worker
from stemmadb.server.storage.sqlite import schema
from stemmadb.server.storage.sqlite.connection import close, open_reader, sync_path
from stemmadb.server.storage.sqlite.log import SCRUB_WAIT_MS, SqliteLog
from stemmadb.server.storage.sqlite.wal import segments
from stemmadb.server.storage.sqlite.wal.apply import Applier
from stemmadb.server.storage.sqlite.wal.blocks import Record
from stemmadb.server.storage.sqlite.wal.checkpointer import Checkpointer
from stemmadb.server.storage.sqlite.wal.group_wal import GroupWal, WalWriter
from stemmadb.server.storage.sqlite.wal.wait_for_checkpoint import wait_until_applied

SPACES: Final = "spaces"
FILE: Final = "space.db"
EMPTY_BYTES_MAX: Final = 4_096
"""A file without tables is no larger: SQLite writes one page before them."""
ENTITIES_MAX: Final = 65_536
"""How many entities the logs that are open know without asking, together; one takes about 500 bytes."""
SPACES_PER_RECOVERY_THREAD: Final = 32
"""How many spaces one thread recovers after a process was killed."""
RECOVERY_THREADS_MAX: Final = 16
ENTITIES_MIN: Final = 1_024
"""How many each of them may know, however many they are."""


class SqliteStorage:
    """Implements `port.Storage`.

    Whoever writes holds the directory (`directory.hold`), so that no second process does. A read-only storage needs
    no hold and can be used beside a writer: it changes no file's content, unless a killed process has left a group
    WAL. Any thread may use it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        vfs: str | None = None,
        read_only: bool = False,
        scrub_wait_ms: int = SCRUB_WAIT_MS,
        wal_writer: WalWriter | None = None,
        wal_directory: Path | None = None,
    ) -> None:
        """A worker has its group WAL in a directory of its own, and recovers that one only; without `wal_directory`
        it is in the directory itself, and those that workers have left are recovered too.

        With a WAL writer there is a group WAL, which is used from the event loop that the WAL writer reports to.

        The storage closes the WAL writer; if the constructor fails, the caller does.
        """
        self._directory = directory
        self._vfs = vfs
        self._read_only = read_only
        self._scrub_wait_ms = scrub_wait_ms
        self._lock = Lock()
        self._logs: list[SqliteLog] = []
        self._opening: set[Did] = set()
        self._to_recover: dict[Did, list[Record]] = {}
        """Records in the group WAL of an earlier process that the file of a space may lack."""
        self._unapplied: dict[Did, Applier] = {}
        """Records that could not be applied when the log of a space was closed."""
        self._checkpointer: Checkpointer | None = None
        self._wal_directories = [wal_directory] if wal_directory is not None else segments.directories(directory)
        if not read_only:
            self._recover()
        if wal_writer is not None:
            self._checkpointer = Checkpointer(self._wal_directories[0], vfs, wal_writer, lambda: len(self._logs))

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
            return True  # opening it says what is wrong

    def open(self, space: Did, *, create: bool = False, workers: Worker | None = None) -> SqliteLog:
        """The log of a space; `UnknownSpace` if there is none and it is not to be made."""
        log = self._open(space, create=create, workers=workers)
        try:
            self._recover_log(log)
        except BaseException:
            log.close()
            raise
        return log

    def _open(self, space: Did, *, create: bool, workers: Worker | None) -> SqliteLog:
        identity.public_key(space)  # a DID is safe as a name of a directory, and anything else is refused
        file = self.directory_of(space) / FILE
        with self._lock:
            self._logs = [log for log in self._logs if not log.is_closed]
            is_open = space in self._opening or any(log.space == space for log in self._logs)
            assert self._read_only or not is_open, f"{space} is open already"
            self._opening.add(space)
        try:
            log = self._opened(file, space, create=create, workers=workers)
        finally:
            with self._lock:
                self._opening.discard(space)
        with self._lock:
            self._logs.append(log)
        return log

    def _opened(self, file: Path, space: Did, *, create: bool, workers: Worker | None) -> SqliteLog:
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
            workers=workers,
        )
        if is_new:
            _make_private(file)
        return log

    def directory_of(self, space: Did) -> Path:
        """Where the files of a space are, or would be."""
        return self._directory / SPACES / space

    def room(self) -> int:
        """A fair part for each log: one that was opened before others shrinks to it when it is next written."""
        return max(ENTITIES_MIN, ENTITIES_MAX // max(1, len(self._logs)))

    def close(self) -> None:
        with self._lock:
            logs, self._logs = self._logs, []
        for log in logs:
            log.close()
        if self._checkpointer is not None:
            self._checkpointer.close(is_checkpointed=not self._unapplied)

    # -- the group WAL

    def group_wal(self) -> GroupWal | None:
        """The group WAL, if there is one; None while the one of an earlier process is still needed."""
        return None if self._checkpointer is None or self._to_recover else self._checkpointer.ask()

    def clear_group_wal(self) -> None:
        if self._to_recover:
            raise StorageFailed("a space that cannot be opened still needs the group WAL of an earlier process")
        if self._checkpointer is not None and self._checkpointer.wal is not None:
            self._checkpointer.wal.reset()

    def retain_unapplied(self, space: Did, applier: Applier) -> None:
        self._unapplied.setdefault(space, applier)  # an earlier one that was not recovered has all these records

    def _recover(self) -> None:
        """Recovers what a killed process left. A space that cannot be recovered now is when it is next opened."""
        self._to_recover = segments.read_all(self._wal_directories)
        # Each space waits for the disk several times.
        with ThreadPoolExecutor(
            min(1 + len(self._to_recover) // SPACES_PER_RECOVERY_THREAD, RECOVERY_THREADS_MAX)
        ) as threads:
            list(threads.map(self._recover_space, list(self._to_recover)))
        if not self._to_recover:
            segments.remove_all(self._wal_directories)

    @property
    def unrecovered(self) -> list[Did]:
        """Spaces with records in the group WAL of an earlier process that could not be recovered yet."""
        return list(self._to_recover)

    def _recover_space(self, space: Did) -> None:
        try:
            self.open(space).close()
        except UnknownSpace:
            del self._to_recover[space]  # the space was removed since
        except (StorageFailed, StemmaError):
            return

    def _recover_log(self, log: SqliteLog) -> None:
        """Recovers what a group WAL has of a log that was just opened."""
        if self._read_only:
            wait_until_applied(self._directory, log.space, log.tip, lambda: SqliteStorage(self._directory).close())
            return
        space, unapplied = log.space, self._unapplied.get(log.space)
        if space in self._to_recover:
            log.recover(self._to_recover[space])
            with self._lock:  # two threads may recover the last two
                if len(self._to_recover) == 1:
                    segments.remove_all(self._wal_directories)
                del self._to_recover[space]
        if unapplied is not None:
            log.recover(list(unapplied.unapplied))
            unapplied.forget()
            del self._unapplied[space]
        wal = None if self._checkpointer is None else self._checkpointer.wal
        if wal is not None and wal.is_broken:
            wal.repair()


def _is_did(name: str) -> bool:
    try:
        identity.public_key(name)
    except InvalidDid:
        return False
    return True


def _make_directory(directory: Path) -> None:
    """Makes the directory of a space, so that it is there after a power failure as well."""
    with segments.disk_failures():
        for step in (directory.parent.parent, directory.parent, directory):
            step.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_path(step.parent)


def _make_private(file: Path) -> None:
    """Leaves the file to its owner, as its directory is; SQLite makes files beside it like it from then on."""
    for one in file.parent.glob(f"{file.name}*"):
        one.chmod(0o600)
