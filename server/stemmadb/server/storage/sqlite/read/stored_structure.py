"""Branches, tags and the compaction floor as a read view sees them (BRANCH-1, COMPACT-1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import BranchName, Hash, Version
from stemmadb.server.storage.port import StoredTag, Tip
from stemmadb.server.storage.sqlite import schema
from stemmadb.server.storage.sqlite.connection import Row
from stemmadb.server.storage.sqlite.read.read_view import ReadView

_BRANCH: Final = (
    "SELECT b.branch, b.name, p.name, b.fork, b.depth, b.deleted, b.merged "
    "FROM branch AS b LEFT JOIN branch AS p ON p.branch = b.parent"
)

_REVOKED: Final = (
    f'SELECT {schema.REVOKED}, min(version) FROM "commit" INDEXED BY commit_revoked WHERE {schema.IS_REVOCATION}'  # noqa: S608
)


class KnownStructure:
    """What was read of the structure at one tip: it holds for every read view until the next commit."""

    def __init__(self, tip: Tip) -> None:
        self.tip = tip
        self.branches: dict[str, tuple[int, BranchState]] = {}
        """The number and the state of each branch that was asked for and is there."""
        self.floor: Version | None = None


class StoredStructure:
    """The structure as one read view sees it; nothing is read twice at the same tip."""

    def __init__(self, view: ReadView, known: KnownStructure) -> None:
        self._view = view
        self._known = known

    def number(self, name: str) -> int | None:
        """The number of a branch; None if there never was one of that name."""
        found = self._find(name)
        return None if found is None else found[0]

    def branch(self, name: str) -> BranchState | None:
        found = self._find(name)
        return None if found is None else found[1]

    def _find(self, name: str) -> tuple[int, BranchState] | None:
        """A name that is not there is not remembered: a client can ask for any number of them."""
        found = self._known.branches.get(name)
        if found is None:
            row = self._view.row(f"{_BRANCH} WHERE b.name = ?", (name,))
            if row is not None:
                found = self._known.branches[name] = row[0], _state(row)
        return found

    def branches(self) -> list[BranchState]:
        return [_state(row) for row in self._view.rows(f"{_BRANCH} ORDER BY b.name")]

    def tags(self) -> list[StoredTag]:
        sql = "SELECT t.name, b.name, t.version FROM tag AS t JOIN branch AS b ON b.branch = t.branch ORDER BY t.name"
        return [StoredTag(*row) for row in self._view.rows(sql)]

    def floor(self) -> Version:
        floor = self._known.floor
        if floor is None:
            row = self._view.row("SELECT value FROM meta WHERE key = 'floor'")
            assert row is not None, "every file has a floor"
            floor = self._known.floor = Version(row[0])
        return floor

    def revoked(self, names: Iterable[Hash] | None) -> dict[Hash, Version]:
        if names is None:
            return {Hash(name): Version(version) for name, version in self._view.rows(f"{_REVOKED} GROUP BY 1")}
        found = (self._view.row(f"{_REVOKED} AND {schema.REVOKED} = ? GROUP BY 1", (name,)) for name in names)
        return {Hash(row[0]): Version(row[1]) for row in found if row is not None}

    def last_write(self, name: BranchName, upto: Version) -> Version:
        number = self.number(name)
        row = self._view.row(
            'SELECT max(ifnull((SELECT version FROM "commit" INDEXED BY commit_branch '
            "WHERE branch = ?1 AND version <= ?2 ORDER BY version DESC LIMIT 1), 0), "
            "ifnull((SELECT version FROM touched "
            "WHERE branch = ?1 AND version <= ?2 ORDER BY version DESC LIMIT 1), 0))",
            (number, upto),
        )
        assert row is not None, "an aggregate has one row"
        return Version(row[0])


def _state(row: Row) -> BranchState:
    _, name, parent, fork, depth, deleted, merged = row
    return BranchState(name=name, parent=parent, fork=fork, depth=depth, deleted=deleted, merged=merged)
