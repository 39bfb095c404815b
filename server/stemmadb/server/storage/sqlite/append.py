"""Appending: writes become rows, with as few statements for a batch as there can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import apsw

from stemmadb.protocol.model.commit.native import FastPath, native
from stemmadb.protocol.model.log import facts as model_facts
from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS, genesis
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Did, Hash, Version
from stemmadb.server.storage import positions
from stemmadb.server.storage.memo import Memo
from stemmadb.server.storage.port import AcceptedWrite, Snapshot
from stemmadb.server.storage.sqlite import destroy, fast_path_append, structure
from stemmadb.server.storage.sqlite.connection import Cell, as_json, query
from stemmadb.server.storage.sqlite.insert import insert
from stemmadb.server.storage.sqlite.interning import BranchNumbers, Sessions, Texts
from stemmadb.server.storage.sqlite.rows import ENTITY_BITS, Cells, LastFact, RowNumbers, head_key, make_rows
from stemmadb.server.storage.sqlite.schema import COMMIT_COLUMNS, FACT_COLUMNS
from stemmadb.server.storage.stored_identities import session_of
from stemmadb.server.storage.stored_records import KIND_NUMBERS

_ENTITY_MASK: Final = (1 << ENTITY_BITS) - 1

_NEWEST: Final = (
    "SELECT j.value, f.place, f.hash FROM json_each(?) AS j CROSS JOIN fact AS f ON f.place = ("
    "SELECT place FROM fact INDEXED BY fact_entity WHERE entity = j.value AND branch = ? AND place <= ? "
    "ORDER BY place DESC LIMIT 1)"
)


def tip(connection: apsw.Connection, space: Did) -> tuple[Version, Hash]:
    """The last commit; before the first there is the genesis of the space."""
    rows = query(connection, 'SELECT version, hash FROM "commit" ORDER BY version DESC LIMIT 1')
    return (Version(rows[0][0]), Hash(rows[0][1])) if rows else (EMPTY_SPACE, genesis(space))


_NATIVE: Final = native()


class Appender:
    """Writes batches inside the caller's transaction; after an error it is of no use any more."""

    def __init__(self, connection: apsw.Connection, room: Callable[[], int]) -> None:
        """`room` says of how many entities the number, and on a branch the last fact, may be kept in memory now."""
        self._connection = connection
        fast_path_append.set_up(connection)
        self._entities = Texts(connection, table="entity", column="id", room=room)
        self._sessions = Sessions(connection)
        self._branches = BranchNumbers(connection)
        self._heads: Memo[int, LastFact] = Memo(room)
        """Last facts, each under its `head_key`."""
        self._in_memory = RowNumbers(self._sessions.memo, self._branches.memo, self._entities.memo, self._heads)

    def rows_from_memory(self, batch: Sequence[AcceptedWrite]) -> list[Cell] | None:
        """The rows of fast-path commits where all they refer to is in memory, without a look at the file; else None.

        For the fast path, to be appended next: what comes after them is made on them. `forget` if they are not. Each
        row is a fact beside its commit, or beside nothing if that was named before.
        """
        for entry in batch:
            if entry.destroyed is not None:
                return None
        made = self._python_rows(batch) if _NATIVE is None else self._native_rows(batch, _NATIVE)
        if made is None:
            return None
        cells, written, size = made
        if size > fast_path_append.BYTES_MAX or len(cells) > fast_path_append.CELLS_MAX:
            return None
        self._take_heads(written)
        return cells

    def _native_rows(
        self, batch: Sequence[AcceptedWrite], fast_path: FastPath
    ) -> tuple[list[Cell], dict[int, LastFact], int] | None:
        commits = [(entry.commit, entry.facts) for entry in batch]
        return fast_path.rows(commits, *self._in_memory, KIND_NUMBERS)  # type: ignore[arg-type]  # the memos are dicts

    def _python_rows(self, batch: Sequence[AcceptedWrite]) -> tuple[list[Cell], dict[int, LastFact], int] | None:
        if not all(_is_ordinary_write(entry) for entry in batch):
            return None
        try:
            rows, written = make_rows(batch, self._in_memory)
        except KeyError:
            return None
        cells: list[Cell] = []
        for commit, fact in rows:
            cells += commit or fast_path_append.NO_COMMIT
            cells += fact or ()
        return cells, written, sum(map(_size, batch))

    def _take_heads(self, written: Mapping[int, LastFact]) -> None:
        """Taken out and put in again at the end: what was written last is kept longest."""
        heads = self._heads
        for key, head in written.items():
            heads.pop(key, None)
            heads[key] = head
        heads.trim()

    def forget(self) -> None:
        """What was made is not written: the last facts are those of the file."""
        self._heads.clear()

    def write(self, batch: Sequence[AcceptedWrite]) -> None:
        for run in _runs(batch):
            self._write_run(run)
            last = run[-1]
            if last.commit.arguments != NO_ARGUMENTS:
                structure.take(self._connection, last.commit)
            if last.destroyed is not None:
                destroy.destroy(self._connection, last.destroyed)

    def _write_run(self, run: Sequence[AcceptedWrite]) -> None:
        rows, written = make_rows(run, self._numbers(run))
        self._take_heads(written)
        for table, columns, its_rows in (
            ("commit", COMMIT_COLUMNS, [commit for commit, _ in rows if commit is not None]),
            ("fact", FACT_COLUMNS, [fact for _, fact in rows if fact is not None]),
            ("touched", ("branch", "version"), self._touched_rows(run)),
        ):
            insert(self._connection, table, ",".join(columns), [cell for row in its_rows for cell in row])

    def _numbers(self, run: Sequence[AcceptedWrite]) -> RowNumbers:
        """What the rows refer to, from memory and from the file; what is new gets a number now."""
        identities = [entry.commit.identity for entry in run]
        sessions = dict(zip(map(session_of, identities), self._sessions.numbers(identities), strict=True))
        facts = [fact for entry in run for fact in entry.facts]
        ids = [fact.id for fact in facts]
        numbers, new = self._entities.numbers(ids)
        entities: dict[str, int] = dict(zip(ids, numbers, strict=True))
        names = {fact.branch for fact in facts} | {entry.commit.branch for entry in run}
        branches: dict[str, int] = {name: self._branches.number(name) for name in names if name is not None}
        keys = {head_key(branches[fact.branch], entities[fact.id]): fact.id for fact in facts}
        cold = {key for key, id_ in keys.items() if key not in self._heads and id_ not in new}
        if cold:
            self._find_heads(cold)
        heads = {key: self._heads.get(key) or (0, model_facts.empty(id_)) for key, id_ in keys.items()}
        return RowNumbers(sessions, branches, entities, heads)

    def _touched_rows(self, run: Iterable[AcceptedWrite]) -> list[Cells]:
        touched = {
            (self._branches.number(name), entry.commit.version)
            for entry in run
            for name in entry.commit.fact_branches
        }
        return sorted(touched)

    def _find_heads(self, cold: set[int]) -> None:
        """Looks up the newest facts that new ones will follow, through fork points; one query for a span."""
        for branch in {key >> ENTITY_BITS for key in cold}:
            left = {key & _ENTITY_MASK for key in cold if key >> ENTITY_BITS == branch}
            for number, upto in structure.lineage(self._connection, branch):
                values = (as_json(sorted(left)), number, positions.last(upto))
                for entity, place, hash_ in query(self._connection, _NEWEST, values):
                    self._heads[branch << ENTITY_BITS | entity] = (place, hash_)
                    left.discard(entity)
                if not left:
                    break


def _is_ordinary_write(entry: AcceptedWrite) -> bool:
    """True for an ordinary write: at least one fact, all on the branch of the commit."""
    commit = entry.commit
    return commit.arguments == NO_ARGUMENTS and bool(commit.facts) and commit.branch is not None


def _size(entry: AcceptedWrite) -> int:
    """The bytes of the bodies and of the note."""
    return len(entry.commit.note or b"") + sum([len(fact.body or b"") for fact in entry.facts])


def _runs(batch: Sequence[AcceptedWrite]) -> Iterator[Sequence[AcceptedWrite]]:
    """Parts of the batch that end with each entry that changes the structure, or destroys: later ones must see it."""
    start = 0
    for end, entry in enumerate(batch, 1):
        if entry.destroyed is not None or entry.commit.arguments != NO_ARGUMENTS or end == len(batch):
            yield batch[start:end]
            start = end


def store_snapshots(connection: apsw.Connection, snapshots: Iterable[Snapshot]) -> None:
    """Entity and branch are those of the fact, which must be there."""
    for snapshot in snapshots:
        connection.execute(
            "INSERT OR REPLACE INTO snapshot (place, entity, branch, body) "
            "SELECT place, entity, branch, ? FROM fact WHERE place = ?",
            (snapshot.body, positions.number_of(snapshot.place)),
        )
        assert connection.changes() == 1, "a snapshot of a fact that is not there"
