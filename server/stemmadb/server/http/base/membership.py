"""Which spaces name a principal in their access list: a table beside the spaces, which can be built again.

`membership.db` in the data directory is written whenever an access list is loaded or set. It holds nothing that the
spaces do not hold: `stemmadb space reindex` makes it anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.log_events import Log

if TYPE_CHECKING:
    import sqlite3

LOG: Final = Log("http")
FILE: Final = "membership.db"
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS member (principal TEXT, space TEXT, role TEXT, PRIMARY KEY (principal, space)) "
    "WITHOUT ROWID"
)


class SpaceLists(Protocol):
    """What the server knows of the access lists of all spaces."""

    def listed(self, space: Did, roles: object) -> None:
        """The access list of a space, as it is now."""
        ...

    async def of(self, principal: Did) -> list[dict[str, Any]]:
        """The spaces of a principal, by DID."""
        ...

    async def all(self) -> list[dict[str, Any]]:
        """Every space that is known, for an operator: never its contents."""
        ...

    async def settled(self) -> None:
        """Waits for what was listed so far: it is written, or could not be. The server calls it before it stops."""
        ...


class SpaceMembership:
    """The table of one data directory. Each use opens the file, in a thread: listing spaces is rare."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._lock = asyncio.Lock()
        self._known: dict[Did, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def listed(self, space: Did, roles: object) -> None:
        """The access list of a space, as it is now; written soon, in the order of the calls."""
        mark = hash(tuple(sorted(roles.items()))) if isinstance(roles, dict) else 0
        if self._known.get(space) != mark:
            self._known[space] = mark
            task = asyncio.get_running_loop().create_task(self._write(space, roles))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _write(self, space: Did, roles: object) -> None:
        import sqlite3  # noqa: PLC0415  # as in `_opened`

        async with self._lock:
            try:
                await asyncio.to_thread(write, self._data, {space: roles})
            except (OSError, sqlite3.Error) as failed:  # a full disk, say: the next load of the list tries again
                self._known.pop(space, None)
                LOG.warning("members_not_written", why=str(failed))

    async def settled(self) -> None:
        """Waits for what was listed so far."""
        await asyncio.gather(*self._tasks)

    async def of(self, principal: Did) -> list[dict[str, Any]]:
        """The spaces of a principal, by DID."""
        rows = await asyncio.to_thread(
            self._select, "SELECT space, role FROM member WHERE principal = ?", (principal,)
        )
        return [{"space": space, "role": role} for space, role in rows]

    async def all(self) -> list[dict[str, Any]]:
        """Every space that is known, for an operator: never its contents."""
        await self.settled()
        rows = await asyncio.to_thread(self._select, "SELECT space, count(*) FROM member GROUP BY space", ())
        return [{"space": space, "principals": count} for space, count in rows]

    def _select(self, query: str, values: tuple[str, ...]) -> list[Any]:
        connection = _opened(self._data)
        try:
            return connection.execute(query + " ORDER BY space", values).fetchall()
        finally:
            connection.close()


def write(data: Path, lists: Mapping[Did, object], *, afresh: bool = False) -> None:
    """Replaces what is known of these spaces; `afresh` forgets all others."""
    connection = _opened(data)
    try:
        with connection:
            if afresh:
                connection.execute("DELETE FROM member")
            for space, roles in lists.items():
                connection.execute("DELETE FROM member WHERE space = ?", (space,))
                connection.executemany("INSERT INTO member VALUES (?, ?, ?)", _rows(space, roles))
    finally:
        connection.close()


def rows(data: Path) -> list[tuple[str, str, str]]:
    """All rows of a table: principal, space, role."""
    connection = _opened(data)
    try:
        return connection.execute("SELECT principal, space, role FROM member").fetchall()
    finally:
        connection.close()


def _opened(data: Path) -> sqlite3.Connection:
    import sqlite3  # noqa: PLC0415  # a server that is not asked for its spaces does not need it at its start

    path = data / FILE
    path.touch(mode=0o600, exist_ok=True)
    connection = sqlite3.connect(path, timeout=10)
    connection.execute(_SCHEMA)
    return connection


def _rows(space: Did, roles: object) -> Iterable[tuple[str, str, str]]:
    if isinstance(roles, dict):
        for principal, role in roles.items():
            yield principal, space, role
