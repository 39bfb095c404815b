"""Interning: the numbers under which ids, principals, sessions and branches are stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, cast

import apsw

from stemmadb.protocol.model.log.commit_record import Identity
from stemmadb.protocol.model.values.ids import BranchName
from stemmadb.server.storage.memo import Memo
from stemmadb.server.storage.sqlite.connection import as_json, query
from stemmadb.server.storage.sqlite.insert import insert
from stemmadb.server.storage.stored_identities import session_of

PRINCIPALS_MAX: Final = 1_024
SESSIONS_MAX: Final = 4_096
BRANCHES_MAX: Final = 1_024


class Texts:
    """The numbers of the texts of one table: entity ids, or principals."""

    def __init__(self, connection: apsw.Connection, *, table: str, column: str, room: Callable[[], int]) -> None:
        self._connection = connection
        self._table = table
        self._column = column
        self.memo: Final[Memo[str, int]] = Memo(room)
        """The numbers that are in memory."""
        self._next = _next_number(connection, table)

    def numbers(self, texts: Sequence[str]) -> tuple[Sequence[int], Collection[str]]:
        """The number of each text, in order, and those of them that are new: they get theirs now."""
        known = list(map(self.memo.get, texts))
        if None not in known:
            return cast(list[int], known), ()
        missing = dict.fromkeys(text for text, number in zip(texts, known, strict=True) if number is None)
        learnt, new = self._learn(missing)
        numbers = [learnt[text] if number is None else number for text, number in zip(texts, known, strict=True)]
        return numbers, new

    def _learn(self, missing: Iterable[str]) -> tuple[dict[str, int], set[str]]:
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
        learnt = stored | made
        self.memo.update(learnt)
        self.memo.trim()
        return learnt, set(made)

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
        self._principals = Texts(connection, table="principal", column="did", room=lambda: PRINCIPALS_MAX)
        self.memo: Final[Memo[tuple[str, bytes], int]] = Memo(lambda: SESSIONS_MAX)
        """The numbers that are in memory."""
        self._next = _next_number(connection, "session")

    def numbers(self, identities: Iterable[Identity]) -> Sequence[int]:
        """The number of the session of each, in order; new ones get theirs now."""
        sessions = [session_of(identity) for identity in identities]
        known = list(map(self.memo.get, sessions))
        if None not in known:
            return cast(list[int], known)
        learnt = self._learn(list(dict.fromkeys(sessions)))
        return [learnt[session] for session in sessions]

    def _learn(self, sessions: list[tuple[str, bytes]]) -> dict[tuple[str, bytes], int]:
        principals, _ = self._principals.numbers([did for did, _ in sessions])
        filed = [(principal, id_) for principal, (_, id_) in zip(principals, sessions, strict=True)]
        stored = self._stored(filed)
        new = [session for session in filed if session not in stored]
        made = dict(zip(new, range(self._next, self._next + len(new)), strict=True))
        cells = [cell for session, number in made.items() for cell in (number, *session)]
        insert(self._connection, "session", "session,principal,id", cells)
        self._next += len(new)
        numbers = stored | made
        learnt = {session: numbers[place] for session, place in zip(sessions, filed, strict=True)}
        self.memo.update(learnt)
        self.memo.trim()
        return learnt

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
        self.memo: Final[Memo[str, int]] = Memo(lambda: BRANCHES_MAX)
        """The numbers that are in memory."""

    def number(self, name: BranchName) -> int:
        number = self.memo.get(name)
        if number is None:
            rows = query(self._connection, "SELECT branch FROM branch WHERE name = ?", (name,))
            assert rows, f"there is no branch {name!r}"
            number = self.memo[name] = int(rows[0][0])
            self.memo.trim()
        return number


def _next_number(connection: apsw.Connection, table: str) -> int:
    sql = f"SELECT ifnull(max({table}), 0) + 1 FROM {table}"  # noqa: S608  # our own names only
    return int(query(connection, sql)[0][0])
