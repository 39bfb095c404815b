"""The index of one space while it is in use: follows the log, and answers searches from threads of its own.

One thread writes, one reads; the event loop waits for neither. Every answer of the index carries its version,
so that a caller can read the same version from the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import apsw

from stemmadb.client import Space
from stemmadb.memory.index import rows
from stemmadb.memory.index.feeder import OtherHistory, commits_after, is_of_this_log
from stemmadb.memory.index.index_file import drop_index, open_index
from stemmadb.memory.index.rows import Position
from stemmadb.memory.index.search import HEAD, Hit, IndexSearch, Question, present_namespaces
from stemmadb.protocol.errors import FutureVersion

T = TypeVar("T")
HISTORIES_MAX: Final = 5
"""How often one feeding starts again after restores of the server."""


class VersionedHits(NamedTuple):
    """What was found, the best first, as of a version of the log."""

    version: int
    hits: Sequence[Hit]
    is_partial: bool


class IndexedEntity(NamedTuple):
    """Where the index saw a uuid last, and whether it is still there."""

    entity: str
    is_there: bool


def one_thread(name: str) -> Executor:
    return ThreadPoolExecutor(1, name)


class SpaceIndex:
    """Open it with `await SpaceIndex.opened(...)`; it can be dropped and built again at any time."""

    def __init__(self, path: Path, space: Space, thread: Callable[[str], Executor] = one_thread) -> None:
        self._path = path
        self._space = space
        self._writer = thread("memory-index-writer")
        self._reader = thread("memory-index-reader")
        self._feeding = asyncio.Lock()
        self._position = Position(0, 0, "")
        self._head = 0
        self._behind_since: float | None = None
        self._is_strange = False
        """Whether the server may have another history than the one that was indexed."""
        self._stops: list[Callable[[], None]] = []
        self._following: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()

    @classmethod
    async def opened(cls, path: Path, space: Space, *, thread: Callable[[str], Executor] = one_thread) -> SpaceIndex:
        """Brings it up to the log, from the start if it belongs to another one, and follows the log from now on.

        `thread` is for tests in virtual time.
        """
        index = cls(path, space, thread)
        try:
            await index._open_files()
            await index._write(rows.scrub)  # a process that was killed may have left what it had deleted
            if not await is_of_this_log(space, index._position):
                await index.rebuild()
            index._stops = [space.on_head(index.heard_of), space.on_lost(lambda _: index._doubt())]
            await index.reach(space.status().server_head)
            index._following = asyncio.create_task(index._follow())
        except BaseException:
            await index.close()
            raise
        return index

    async def close(self) -> None:
        for stop in self._stops:
            stop()
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._close_files()
        self._writer.shutdown()
        self._reader.shutdown()

    # ------------------------------------------------------------ following the log

    @property
    def position(self) -> int:
        """The version that it has reached."""
        return self._position.version

    @property
    def head(self) -> int:
        """The newest version of the space that this process knows of."""
        return self._head

    @property
    def seconds_behind(self) -> float:
        """For how long it has lacked a version that exists."""
        if self._behind_since is None:
            return 0.0
        return asyncio.get_running_loop().time() - self._behind_since

    def heard_of(self, version: int) -> None:
        """The space has this version; after a restore of the server it may be a lower one than before."""
        if version < self._position.version:
            self._doubt()
        self._head = max(version, self._head)
        if self._head > self._position.version:
            if self._behind_since is None:
                self._behind_since = asyncio.get_running_loop().time()
            self._woken.set()

    def _doubt(self) -> None:
        self._is_strange = True
        self._head = 0
        self._woken.set()

    async def reach(self, version: int | None = None, *, within: float | None = None) -> bool:
        """Feeds the index up to a version, or up to what is known now; False if that takes longer than `within`."""
        wanted = self._head if version is None else version
        if self._position.version >= wanted and not self._is_strange:
            return True
        try:
            async with asyncio.timeout(within):
                await asyncio.shield(self._feed(wanted))
        except TimeoutError:
            return False
        return True

    async def _follow(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._feed(self._head)
            except Exception as error:
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "the index of memories cannot follow the log", "exception": error}
                )
                await asyncio.sleep(1)
                self._woken.set()

    async def _feed(self, wanted: int) -> None:
        async with self._feeding:
            for _ in range(HISTORIES_MAX):
                if self._is_strange:
                    self._is_strange = False
                    if not await is_of_this_log(self._space, self._position):
                        await self._start_over()
                if self._position.version >= wanted:
                    break
                try:
                    await self._feed_all()
                    break
                except (OtherHistory, FutureVersion):  # the server was restored while the log was read
                    self._doubt()
                    wanted = self._head = self._space.status().server_head
            if self._position.version >= self._head:
                self._behind_since = None

    async def _feed_all(self) -> None:
        async for batch in commits_after(self._space, self._position, self._versions_of):
            await self._write(partial(rows.add_commits, commits=batch))
            last = batch[-1]
            self._position = Position(last.version, last.time, last.hash)

    async def _versions_of(self, entity: str) -> Sequence[int]:
        return await self._write(lambda connection: rows.versions_of(connection, entity))

    async def rebuild(self) -> int:
        """Drops the index and builds it again from the log; the version that it has reached."""
        async with self._feeding:
            await self._start_over()
            await self._feed_all()
        return self.position

    async def scrub(self) -> None:
        """Returns once no file of the index has a byte of what was erased."""
        await self._write(rows.scrub)

    # ------------------------------------------------------------ answering

    async def search(self, question: Question) -> VersionedHits:
        """At the version that the index has reached, or at the question's if that is an earlier one."""
        return await self._read(lambda search, connection: _searched(search, connection, question))

    async def find(self, uuid: str) -> Sequence[IndexedEntity]:
        """The entities with this uuid, those that were deleted since included."""

        def ask(_search: IndexSearch, connection: apsw.Connection) -> list[IndexedEntity]:
            found = connection.execute(
                "SELECT DISTINCT d.entity, EXISTS(SELECT 1 FROM validity v WHERE v.entity=d.entity"
                " AND v.until IS NULL AND v.row IS NOT NULL) FROM doc d WHERE d.uuid=?",
                (uuid,),
            )
            return [IndexedEntity(str(entity), bool(is_there)) for entity, is_there in found]

        return await self._read(ask)

    async def with_target(self, nsh: str, target: str) -> Sequence[str]:
        """The entities of a namespace that have this target now."""

        def ask(_search: IndexSearch, connection: apsw.Connection) -> list[str]:
            found = connection.execute(
                "SELECT d.entity FROM doc d JOIN validity v ON v.row=d.row WHERE d.target=? AND d.ns=?"
                " AND v.until IS NULL",
                (target, rows.find_namespace_word(connection, nsh)),
            )
            return [str(entity) for (entity,) in found]

        return await self._read(ask)

    async def expired(self, before: int, limit: int) -> Sequence[str]:
        """Entities that are there and expired before a time."""

        def ask(_search: IndexSearch, connection: apsw.Connection) -> list[str]:
            found = connection.execute(
                "SELECT d.entity FROM doc d JOIN validity v ON v.row=d.row WHERE d.expires<=? AND v.until IS NULL"
                " LIMIT ?",
                (before, limit),
            )
            return [str(entity) for (entity,) in found]

        return await self._read(ask)

    async def ask(self, question: Callable[[apsw.Connection], T]) -> T:
        """Any other question, in one read of the index; for checks."""
        return await self._read(lambda _search, connection: question(connection))

    # ------------------------------------------------------------ threads and files

    async def _open_files(self) -> None:
        def open_writer() -> Position:
            self._write_connection = open_index(self._path)
            return rows.position(self._write_connection)

        def open_reader() -> None:
            self._read_connection = open_index(self._path)
            self._search = IndexSearch(self._read_connection)

        loop = asyncio.get_running_loop()
        self._position = await loop.run_in_executor(self._writer, open_writer)
        await loop.run_in_executor(self._reader, open_reader)

    async def _close_files(self) -> None:
        loop = asyncio.get_running_loop()
        for thread, name in ((self._reader, "_read_connection"), (self._writer, "_write_connection")):
            connection = self.__dict__.pop(name, None)
            if connection is not None:
                await loop.run_in_executor(thread, connection.close)

    async def _start_over(self) -> None:
        await self._close_files()
        await asyncio.get_running_loop().run_in_executor(self._writer, drop_index, self._path)
        await self._open_files()

    async def _write(self, work: Callable[[apsw.Connection], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writer, lambda: work(self._write_connection))

    async def _read(self, work: Callable[[IndexSearch, apsw.Connection], T]) -> T:
        def in_one_snapshot() -> T:
            connection = self._read_connection
            connection.execute("BEGIN")
            try:
                return work(self._search, connection)
            finally:
                connection.execute("COMMIT")

        return await asyncio.get_running_loop().run_in_executor(self._reader, in_one_snapshot)


def _searched(search: IndexSearch, connection: apsw.Connection, question: Question) -> VersionedHits:
    version = min(rows.position(connection).version, question.version)
    asked = question if question.version == HEAD else question._replace(version=version)
    found = search.search(asked._replace(namespaces=present_namespaces(connection, asked)))
    return VersionedHits(version, found.hits, found.is_partial)
