"""Rows of a space's file that no answer of the log would show: what is stored and not what it should be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from stemmadb.server.storage.sqlite.connection import failures, open_reader
from stemmadb.server.storage.sqlite.schema import MIGRATIONS

_SCHEMA: Final = "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema ORDER BY type, name"

ODD: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "fact",
        "a digest is stored beside its body, or with a delete",
        "SELECT place FROM fact WHERE digest IS NOT NULL AND (body IS NOT NULL OR kind = 3)",
    ),
    (
        "fact",
        "it belongs to no commit",
        'SELECT place FROM fact WHERE place >> 20 NOT IN (SELECT version FROM "commit")',
    ),
    (
        "commit",
        "a digest is stored beside its note",
        'SELECT version FROM "commit" WHERE note IS NOT NULL AND note_digest IS NOT NULL',
    ),
    (
        "commit",
        "it has arguments that say nothing",
        "SELECT version FROM \"commit\" WHERE arguments = X'C0'",
    ),
    (
        "commit",
        "its session does not fit its local or operation id",
        'SELECT version FROM "commit" JOIN session USING (session)'
        " WHERE typeof(local) NOT IN ('integer', 'blob') OR (typeof(local) = 'blob') <> (id = X'')",
    ),
    ("entity", "no fact is of it", "SELECT entity FROM entity WHERE entity NOT IN (SELECT entity FROM fact)"),
    (
        "principal",
        "no session is its",
        "SELECT principal FROM principal WHERE principal NOT IN (SELECT principal FROM session)",
    ),
    (
        "session",
        "no commit is of it",
        'SELECT session FROM session WHERE session NOT IN (SELECT session FROM "commit")',
    ),
    (
        "branch",
        "its parent is not there",
        "SELECT branch FROM branch WHERE parent NOT IN (SELECT branch FROM branch)",
    ),
    (
        "commit",
        "its branch is not there",
        'SELECT version FROM "commit" WHERE branch NOT IN (SELECT branch FROM branch)',
    ),
    (
        "snapshot",
        "there is no such fact of that entity on that branch",
        "SELECT s.place FROM snapshot AS s LEFT JOIN fact AS f USING (place)"
        " WHERE f.entity IS NOT s.entity OR f.branch IS NOT s.branch",
    ),
    (
        "meta",
        "it is not a setting of this version",
        "SELECT key FROM meta WHERE key NOT IN ('space', 'floor', 'owes_scrub')"
        " OR key = 'owes_scrub' AND (typeof(value) <> 'integer' OR value NOT IN (0, 1))",
    ),
)
"""The table, what is wrong with a row of it, and how to find such rows."""


def odd(file: Path) -> Iterator[str]:
    """What is wrong, one sentence for each kind; nothing if all rows are as they were written."""
    connection = open_reader(file, None)
    try:
        with failures(connection):
            if connection.execute(_SCHEMA).fetchall() != _made():
                yield "the tables are not those of this version"
                return
            connection.execute("BEGIN")
            for table, why, query in ODD:
                for (row,) in connection.execute(f"{query} LIMIT 1"):
                    yield f"{table} {row}: {why}"
    finally:
        connection.close()


def _made() -> list[tuple[object, ...]]:
    """The tables of a file that was just made."""
    fresh = apsw.Connection(":memory:")
    try:
        for step in MIGRATIONS:
            fresh.execute(step)
        return fresh.execute(_SCHEMA).fetchall()
    finally:
        fresh.close()
