"""The journal on disk: pending work, confirmed commits and rejected commits survive the app (NURSERY-5)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from stemmadb.client.journal.database import JournalDatabase
from stemmadb.client.journal.lock import JournalLock, hold
from stemmadb.client.journal.port import Done, JournalState, JournalStep
from stemmadb.client.journal.problems import reason, refused
from stemmadb.client.journal.writer import JournalWriter
from stemmadb.protocol.model.values.ids import Did

DID_KEY: Final = "did:key:"


def journal_file(directory: Path, *, space: Did, principal: Did) -> Path:
    """The file of a principal in a space; a colon cannot be in a file's name everywhere."""
    return directory / f"{space.removeprefix(DID_KEY)}.{principal.removeprefix(DID_KEY)}.journal"


class DiskJournal:
    """One file in a directory, for one principal in one space, held by one at a time.

    Opening it and `load` wait for the disk: call them in a thread where that matters. `DirectoryHeld` if another has
    it, `NewerStorage` if a newer StemmaDB wrote it, `JournalFailed` if it cannot be used, which says what to do.

    Example::

        journal = DiskJournal("~/.my-app/journal", space=space, principal=identity.did)
        state = journal.load()
        journal.write(JournalStep(add=(commit,)), done)     # done(None) once it is on disk
        await journal.close()
    """

    keeps = True

    def __init__(
        self,
        path: Path | str,
        *,
        space: Did,
        principal: Did,
        factory: type[sqlite3.Connection] = sqlite3.Connection,
        cache: bool = False,
    ) -> None:
        """With `cache` the file also has the confirmed values of watches (CACHE-1)."""
        directory = Path(path).expanduser()
        self.file: Final = journal_file(directory, space=space, principal=principal)
        self._holding = self._hold(directory)
        try:
            self._database = JournalDatabase(
                self.file, space=space, principal=principal, factory=factory, cache=cache
            )
        except BaseException as error:
            self._holding.close()
            if isinstance(error, OSError | sqlite3.Error):
                raise refused(self.file, reason(error)) from error
            raise
        self._writer = JournalWriter(self._database, self._has_ended)
        self._closing: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None

    @property
    def syncs(self) -> int:
        """How often the disk was synced for steps: less often than there were steps when they came together."""
        return self._database.syncs

    @property
    def is_cache_full(self) -> bool:
        return self._database.is_cache_full

    def load(self) -> JournalState:
        return self._database.load()

    def write(self, step: JournalStep, done: Done) -> None:
        assert self._closing is None, "the journal is closed"
        self._writer.put(step, done)

    async def close(self) -> None:
        """Waits until every step was told, and lets the file go; safe to call twice, and to cancel."""
        if self._closing is None:
            loop = asyncio.get_running_loop()
            self._closing = (loop, loop.create_future())
            self._writer.end()
        await asyncio.shield(self._closing[1])

    def _hold(self, directory: Path) -> JournalLock:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return hold(self.file.with_name(f"{self.file.name}.lock"))
        except OSError as error:
            raise refused(self.file, reason(error)) from error

    def _has_ended(self) -> None:
        """Called by the writer's thread, after everybody was told."""
        self._holding.close()
        assert self._closing is not None
        loop, ended = self._closing
        with suppress(RuntimeError):  # the loop was closed while nobody waited any more
            loop.call_soon_threadsafe(ended.set_result, None)
