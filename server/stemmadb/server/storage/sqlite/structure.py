"""The rows of branches, tags and the compaction floor: a fold of the structural commits, written with them."""

from __future__ import annotations

import apsw

from stemmadb.protocol.model.log.commit_record import (
    BranchCreate,
    BranchDelete,
    Commit,
    Compact,
    Merge,
    TagCreate,
    TagDelete,
)
from stemmadb.server.storage import positions
from stemmadb.server.storage.sqlite.connection import Cell, query


def take(connection: apsw.Connection, commit: Commit) -> None:
    """A structural commit was appended: the rows follow it in the same transaction (BRANCH-1, MERGE-1, COMPACT-1)."""
    match commit.details:
        case BranchCreate(name=name, parent=parent, fork=fork):
            _change(
                connection,
                "INSERT INTO branch (name, parent, fork, depth, deleted, merged) "
                "SELECT ?, branch, ?, depth + 1, NULL, 0 FROM branch WHERE name = ?",
                (name, fork, parent),
            )
        case BranchDelete(name=name):
            _change(connection, "UPDATE branch SET deleted = ? WHERE name = ?", (commit.version, name))
        case Merge():
            _change(connection, "UPDATE branch SET merged = ? WHERE name = ?", (commit.version, commit.branch))
        case TagCreate(name=name, branch=branch, version=version):
            _change(
                connection,
                "INSERT INTO tag (name, branch, version) SELECT ?, branch, ? FROM branch WHERE name = ?",
                (name, version, branch),
            )
        case TagDelete(name=name):
            _change(connection, "DELETE FROM tag WHERE name = ?", (name,))
        case Compact(floor=floor):
            _change(connection, "UPDATE meta SET value = max(value, ?) WHERE key = 'floor'", (floor,))
        case _:
            pass


def _change(connection: apsw.Connection, sql: str, values: tuple[Cell, ...]) -> None:
    connection.execute(sql, values)
    assert connection.changes() == 1, "a structural commit names something that is not there"


def lineage(connection: apsw.Connection, number: int) -> list[tuple[int, int]]:
    """The branches a new fact on a branch continues, nearest first: each with the last version that counts.

    A deleted branch needs no end of its own: nothing was written on it after it was deleted.
    """
    spans: list[tuple[int, int]] = []
    above: int | None = number
    upto = positions.VERSION_MAX
    while above is not None:
        spans.append((above, upto))
        above, fork = query(connection, "SELECT parent, fork FROM branch WHERE branch = ?", (above,))[0]
        upto = min(upto, fork)
    return spans
