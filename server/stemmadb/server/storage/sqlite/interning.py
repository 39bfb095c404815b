"""Interning: the numbers under which ids, principals, sessions and branches are stored."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

import apsw

from stemmadb.protocol.model.commit import Identity, LocalIdentity
from stemmadb.protocol.model.ids import BranchName
from stemmadb.server.storage.sqlite.connection import Cell, as_json, query
from stemmadb.server.storage.sqlite.inserting import insert

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ENTITIES_MAX: Final = 16_384
PRINCIPALS_MAX: Final = 1_024
SESSIONS_MAX: Final = 4_096
BRANCHES_MAX: Final = 1_024

NO_SESSION: Final = b""
"""The session of writes that carry an operation id."""


class Memo(dict[K, V], Generic[K, V]):
    """A map with a bound, kept when `trim` is called: the entries that were put in first go first."""

    def __init__(self, entries_max: int) -> None:
        super().__init__()
        self._entries_max = entries_max

    def trim(self) -> None:
        over = len(self) - self._entries_max
        if over > 0:
            for key in [key for _, key in zip(range(over), self, strict=False)]:
                del self[key]


class Texts:
    """The numbers of the texts of one table: entity ids, or principals."""

    def __init__(self, connection: apsw.Connection, *, table: str, column: str, entries_max: int) -> None:
        self._connection = connection
        self._table = table
        self._column = column
        self._memo: Memo[str, int] = Memo(entries_max)
        self._next = _next_number(connection, table)

    def numbers(self, texts: Iterable[str]) -> tuple[dict[str, int], set[str]]:
        """The number of each text, and those of them that are new: they get theirs now."""
        memo = self._memo
        found: dict[str, int] = {}
        missing: dict[str, None] = {}
        for text in texts:
            number = memo.get(text)
            if number is None:
                missing[text] = None
            else:
                found[text] = number
        new = self._learn(missing, found) if missing else set()
        return found, new

    def _learn(self, missing: dict[str, None], found: dict[str, int]) -> set[str]:
        stored = self._stored(missing)
        new = [text for text in missing if text not in stored]
        made = dict(zip(new, range(self._next, self._next + len(new)), strict=True))
        insert(
            self._connection,
            self._table,
            f"{self._table},{self._column}",
            [cell for text, number in made.items() for cell in (number, text)],
        )
        self._next += len(new)
        for numbers in (stored, made):
            found.update(numbers)
            self._memo.update(numbers)
        self._memo.trim()
        return set(new)

    def _stored(self, texts: Iterable[str]) -> dict[str, int]:
        sql = (
            f"SELECT t.{self._column}, t.{self._table} FROM json_each(?) AS j "  # noqa: S608  # our own names only
            f"CROSS JOIN {self._table} AS t ON t.{self._column} = j.value"
        )
        return dict(query(self._connection, sql, (as_json(list(texts)),)))


class Sessions:
    """The numbers of sessions; a session belongs to a principal."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._principals = Texts(connection, table="principal", column="did", entries_max=PRINCIPALS_MAX)
        self._memo: Memo[tuple[str, bytes], int] = Memo(SESSIONS_MAX)
        self._next = _next_number(connection, "session")

    def numbers(self, identities: Iterable[Identity]) -> dict[tuple[str, bytes], int]:
        """The number of each principal's session; new ones get theirs now."""
        memo = self._memo
        found: dict[tuple[str, bytes], int] = {}
        missing: dict[tuple[str, bytes], None] = {}
        for identity in identities:
            session = session_of(identity)
            number = memo.get(session)
            if number is None:
                missing[session] = None
            else:
                found[session] = number
        if missing:
            self._learn(list(missing), found)
        return found

    def _learn(self, missing: list[tuple[str, bytes]], found: dict[tuple[str, bytes], int]) -> None:
        principals, _ = self._principals.numbers(did for did, _ in missing)
        stored = self._stored([(principals[did], id_) for did, id_ in missing])
        cells: list[Cell] = []
        for did, id_ in missing:
            number = stored.get((principals[did], id_))
            if number is None:
                number = self._next
                self._next += 1
                cells += (number, principals[did], id_)
            found[did, id_] = self._memo[did, id_] = number
        insert(self._connection, "session", "session,principal,id", cells)
        self._memo.trim()

    def _stored(self, sessions: list[tuple[int, bytes]]) -> dict[tuple[int, bytes], int]:
        asked = as_json([(principal, id_.hex()) for principal, id_ in sessions])
        sql = (
            "SELECT s.principal, s.id, s.session FROM json_each(?) AS j CROSS JOIN session AS s "
            "ON s.principal = j.value ->> 0 AND s.id = unhex(j.value ->> 1)"
        )
        return {(principal, id_): number for principal, id_, number in query(self._connection, sql, (asked,))}


class BranchNumbers:
    """The numbers of branches, which never change once a branch is made."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._memo: Memo[str, int] = Memo(BRANCHES_MAX)

    def number(self, name: BranchName) -> int:
        number = self._memo.get(name)
        if number is None:
            rows = query(self._connection, "SELECT branch FROM branch WHERE name = ?", (name,))
            assert rows, f"there is no branch {name!r}"
            number = self._memo[name] = int(rows[0][0])
            self._memo.trim()
        return number


def session_of(identity: Identity) -> tuple[str, bytes]:
    """The key of the session under which an identity is filed."""
    if isinstance(identity, LocalIdentity):
        return identity.principal, identity.session
    return identity.principal, NO_SESSION


def number_in_session(identity: Identity) -> int | bytes:
    return identity.local if isinstance(identity, LocalIdentity) else identity.operation


def _next_number(connection: apsw.Connection, table: str) -> int:
    sql = f"SELECT ifnull(max({table}), 0) + 1 FROM {table}"  # noqa: S608  # our own names only
    return int(query(connection, sql)[0][0])
