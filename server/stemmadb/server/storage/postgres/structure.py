"""Branches, tags and the compaction floor: a fold of the structural commits, kept in their own rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from stemmadb.protocol.model.log.commit_record import (
    BranchCreate,
    BranchDelete,
    Commit,
    Compact,
    Merge,
    TagCreate,
    TagDelete,
)
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import BranchName, Hash, Version
from stemmadb.server.storage.port import AcceptedWrite, StoredTag
from stemmadb.server.storage.postgres import schema
from stemmadb.server.storage.postgres.connection import PgConnection, Row
from stemmadb.server.storage.postgres.numbers import OwnedNumbers
from stemmadb.server.storage.postgres.read_view import PostgresView

_COLUMNS: Final = "b.branch, b.name, p.name, b.fork, b.depth, b.deleted, b.merged"
_LINES: Final = f"""
WITH RECURSIVE line (branch, parent) AS (
  SELECT branch, parent FROM branch WHERE space = %(space)s::int AND name = ANY (%(names)s::text[])
  UNION SELECT b.branch, b.parent FROM line AS l
  JOIN branch AS b ON b.space = %(space)s::int AND b.branch = l.parent
)
SELECT {_COLUMNS} FROM line AS l JOIN branch AS b ON b.space = %(space)s::int AND b.branch = l.branch
LEFT JOIN branch AS p ON p.space = %(space)s::int AND p.branch = b.parent
"""  # noqa: S608  # our own text
_ALL: Final = (
    f"SELECT {_COLUMNS} FROM branch AS b LEFT JOIN branch AS p ON p.space = b.space AND p.branch = b.parent "  # noqa: S608
    "WHERE b.space = %(space)s::int ORDER BY b.name"
)
_TAGS: Final = (
    "SELECT t.name, b.name, t.version FROM tag AS t JOIN branch AS b ON b.space = t.space AND b.branch = t.branch "
    "WHERE t.space = %(space)s::int ORDER BY t.name"
)
_REVOKED: Final = (
    f"SELECT {schema.REVOKED}, min(version) FROM commit "  # noqa: S608  # our own text
    f"WHERE space = %(space)s::int AND {schema.IS_REVOCATION}"
)
_LAST_WRITES: Final = """
SELECT j.name, j.upto, greatest(
  (SELECT version FROM commit WHERE space = %(space)s::int AND branch = b.branch AND version <= j.upto
   ORDER BY branch DESC, version DESC LIMIT 1),
  (SELECT version FROM touched WHERE space = %(space)s::int AND branch = b.branch AND version <= j.upto
   ORDER BY branch DESC, version DESC LIMIT 1))
FROM unnest(%(names)s::text[], %(upto)s::bigint[]) AS j (name, upto)
JOIN branch AS b ON b.space = %(space)s::int AND b.name = j.name
"""
_TOUCH: Final = (
    "INSERT INTO touched (space, branch, version) SELECT %s::int, u.branch, u.version "
    "FROM unnest(%s::int[], %s::bigint[]) AS u (branch, version)"
)


def take(connection: PgConnection, numbers: OwnedNumbers, commit: Commit) -> None:
    """A structural commit was appended: the rows follow it in the same transaction (BRANCH-1, MERGE-1, COMPACT-1)."""
    space = numbers.space
    match commit.details:
        case BranchCreate(name=name, parent=parent, fork=fork):
            _change(
                connection,
                "INSERT INTO branch (space, branch, name, parent, fork, depth, deleted, merged) "
                "SELECT space, %s, %s, branch, %s, depth + 1, NULL, 0 FROM branch "
                "WHERE space = %s::int AND name = %s",
                (numbers.next_branch(), name, fork, space, parent),
            )
        case BranchDelete(name=name):
            sql = "UPDATE branch SET deleted = %s WHERE space = %s::int AND name = %s"
            _change(connection, sql, (commit.version, space, name))
        case Merge():
            sql = "UPDATE branch SET merged = %s WHERE space = %s::int AND name = %s"
            _change(connection, sql, (commit.version, space, commit.branch))
        case TagCreate(name=name, branch=branch, version=version):
            _change(
                connection,
                "INSERT INTO tag (space, name, branch, version) "
                "SELECT space, %s, branch, %s FROM branch WHERE space = %s::int AND name = %s",
                (name, version, space, branch),
            )
        case TagDelete(name=name):
            _change(connection, "DELETE FROM tag WHERE space = %s::int AND name = %s", (space, name))
        case Compact(floor=floor):
            _change(connection, "UPDATE tip SET floor = greatest(floor, %s) WHERE space = %s::int", (floor, space))
        case _:
            pass


def _change(connection: PgConnection, sql: str, values: Sequence[object]) -> None:
    assert connection.change(sql, values) == 1, "a structural commit names something that is not there"


def touch(connection: PgConnection, numbers: OwnedNumbers, run: Iterable[AcceptedWrite]) -> None:
    """Notes the branches on which writes without a branch have facts."""
    touched = sorted(
        {
            (numbers.branch(connection, name).number, entry.commit.version)
            for entry in run
            for name in entry.commit.fact_branches
        }
    )
    if touched:
        branches, versions = zip(*touched, strict=True)
        connection.change(_TOUCH, (numbers.space, list(branches), list(versions)))


class PostgresStructure:
    """The structure of one read view; what was asked for once is known to all questions that share the read view."""

    def __init__(self, view: PostgresView) -> None:
        self._view = view
        self._numbers: dict[str, int] = {}
        self._states: dict[str, BranchState | None] = {}

    def number(self, name: str) -> int | None:
        """The number of a branch; None if there never was one of that name."""
        self.branches_named([name])
        return self._numbers.get(name)

    def branches_named(self, names: Iterable[str]) -> dict[str, BranchState]:
        """Those that there are. The branches they continue are read along: whoever asks will want them next."""
        wanted = list(dict.fromkeys(names))
        unknown = [name for name in wanted if name not in self._states]
        if unknown:
            self._states |= dict.fromkeys(unknown)
            for row in self._view.rows(_LINES, {"names": unknown}):
                self._take(row)
        return {name: state for name in wanted if (state := self._states[name]) is not None}

    def branches(self) -> list[BranchState]:
        return [self._take(row) for row in self._view.rows(_ALL)]

    def _take(self, row: Row) -> BranchState:
        number, name, parent, fork, depth, deleted, merged = row
        state = BranchState(name=name, parent=parent, fork=fork, depth=depth, deleted=deleted, merged=merged)
        self._numbers[name], self._states[name] = number, state
        return state

    def tags(self) -> list[StoredTag]:
        return [StoredTag(*row) for row in self._view.rows(_TAGS)]

    def revoked(self, names: Iterable[Hash] | None) -> dict[Hash, Version]:
        if names is None:
            found = self._view.rows(f"{_REVOKED} GROUP BY 1")
        else:
            sql = f"{_REVOKED} AND {schema.REVOKED} = ANY (%(wanted)s::bytea[]) GROUP BY 1"
            found = self._view.rows(sql, {"wanted": list(names)})
        return {Hash(name): Version(version) for name, version in found}

    def last_writes(self, asked: Iterable[tuple[BranchName, Version]]) -> dict[tuple[BranchName, Version], Version]:
        pairs = list(dict.fromkeys(asked))
        if not pairs:
            return {}
        values = {"names": [name for name, _ in pairs], "upto": [upto for _, upto in pairs]}
        found = {(name, upto): version or 0 for name, upto, version in self._view.rows(_LAST_WRITES, values)}
        return {pair: Version(found.get(pair, 0)) for pair in pairs}
