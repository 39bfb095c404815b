"""Appending: entries become rows, with as few statements for a batch as there can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import apsw

from stemmadb.protocol.model.commit.native import FastPath, native
from stemmadb.protocol.model.log import facts as model_facts
from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS, Commit, genesis
from stemmadb.protocol.model.log.facts import NO_BODY, Fact
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Did, Hash, Version
from stemmadb.server.storage.port import AcceptedWrite, Snapshot, StorageFailed
from stemmadb.server.storage.sqlite import destroy, fast_path_append, positions, structure
from stemmadb.server.storage.sqlite.connection import Cell, as_json, query
from stemmadb.server.storage.sqlite.insert import insert
from stemmadb.server.storage.sqlite.interning import (
    BranchNumbers,
    Memo,
    Sessions,
    Texts,
    number_in_session,
    session_of,
)
from stemmadb.server.storage.sqlite.schema import COMMIT_COLUMNS, FACT_COLUMNS, KIND_NUMBERS

_ENTITY_BITS: Final = 40
_ENTITY_MASK: Final = (1 << _ENTITY_BITS) - 1

_NEWEST: Final = (
    "SELECT j.value, f.place, f.hash FROM json_each(?) AS j CROSS JOIN fact AS f ON f.place = ("
    "SELECT place FROM fact INDEXED BY fact_entity WHERE entity = j.value AND branch = ? AND place <= ? "
    "ORDER BY place DESC LIMIT 1)"
)


def tip(connection: apsw.Connection, space: Did) -> tuple[Version, Hash]:
    """The last commit; before the first there is the genesis of the space."""
    rows = query(connection, 'SELECT version, hash FROM "commit" ORDER BY version DESC LIMIT 1')
    return (Version(rows[0][0]), Hash(rows[0][1])) if rows else (EMPTY_SPACE, genesis(space))


_Cells: TypeAlias = tuple[Cell, ...]


_Made: TypeAlias = tuple[list[Cell], dict[int, tuple[int, bytes]], int]
"""The cells of rows, the last facts after them, and the bytes of bodies and notes in them."""
_NATIVE: Final = native()


class _Rows(NamedTuple):
    """Those of a run of entries: one for each commit, and one for each fact of all of them."""

    commits: list[_Cells]
    facts: list[_Cells]


class Appender:
    """Writes entries inside the caller's transaction; after an error it is of no use any more."""

    def __init__(self, connection: apsw.Connection, room: Callable[[], int]) -> None:
        """`room` says of how many entities the number, and on a branch the last fact, may be kept in memory now."""
        self._connection = connection
        fast_path_append.set_up(connection)
        self._entities = Texts(connection, table="entity", column="id", room=room)
        self._sessions = Sessions(connection)
        self._branches = BranchNumbers(connection)
        self._heads: Memo[int, tuple[int, bytes]] = Memo(room)
        """The places and hashes of last facts, each under the number of its branch and its entity in one."""

    def rows_from_memory(self, batch: Sequence[AcceptedWrite]) -> list[Cell] | None:
        """The rows of fast-path commits where all they refer to is in memory, without a look at the file; else None.

        For the fast path, to be appended next: what comes after them is made on them. `forget` if they are not. Each
        row is a fact beside its commit, or beside nothing if that was named before.
        """
        found = self._python_rows(batch) if _NATIVE is None else self._compiled_rows(batch, _NATIVE)
        if found is None:
            return None
        cells, written, size = found
        if size > fast_path_append.BYTES_MAX or len(cells) > fast_path_append.CELLS_MAX:
            return None
        self._take_heads(written)
        return cells

    def _compiled_rows(self, batch: Sequence[AcceptedWrite], fast_path: FastPath) -> _Made | None:
        commits = []
        for entry in batch:
            if entry.destroyed is not None:
                return None
            commits.append((entry.commit, entry.facts))
        sessions, branches, entities = self._sessions.memo, self._branches.memo, self._entities.memo
        return fast_path.rows(commits, sessions, branches, entities, self._heads, KIND_NUMBERS)

    def _python_rows(self, batch: Sequence[AcceptedWrite]) -> _Made | None:
        """One loop, since it is run on an event loop for every commit."""
        sessions, branches, entities, heads = (
            self._sessions.memo,
            self._branches.memo,
            self._entities.memo,
            self._heads,
        )
        cells: list[Cell] = []
        written: dict[int, tuple[int, bytes]] = {}
        size = 0
        for entry in batch:
            commit, note = entry.commit, entry.commit.note
            session, branch = sessions.get(session_of(commit.identity)), branches.get(commit.branch or "")
            if session is None or branch is None or not _is_ordinary_write(entry):
                return None
            beside = _commit_row(commit, session, branch)
            size += 0 if note is None else len(note)
            for fact in entry.facts:
                entity = entities.get(fact.id)
                if entity is None:
                    return None
                key = branch << _ENTITY_BITS | entity
                head = written.get(key) or heads.get(key)
                if head is None:
                    return None
                cells += beside
                cells += _fact_row(fact, entity, branch, head)
                written[key] = (fact.version << positions.INDEX_BITS | fact.index, fact.hash)
                size += 0 if fact.body is None else len(fact.body)
                beside = fast_path_append.NO_COMMIT
        return cells, written, size

    def _take_heads(self, written: Mapping[int, tuple[int, bytes]]) -> None:
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
        sessions = self._sessions.numbers([entry.commit.identity for entry in run])
        facts = [fact for entry in run for fact in entry.facts]
        entities, new = self._entities.numbers([fact.id for fact in facts])
        keys = self._keys(facts, entities)
        cold = {key: fact.id for key, fact in zip(keys, facts, strict=True) if key not in self._heads}
        if cold:
            self._find_heads({key for key, id_ in cold.items() if id_ not in new})
        self._insert(self._rows(run, sessions, facts, entities, keys), self._touched_rows(run))

    def _keys(self, facts: Sequence[Fact], entities: Sequence[int]) -> list[int]:
        branches = {name: self._branches.number(name) << _ENTITY_BITS for name in {fact.branch for fact in facts}}
        return [branches[fact.branch] | entity for fact, entity in zip(facts, entities, strict=True)]

    def _rows(
        self,
        run: Sequence[AcceptedWrite],
        sessions: Sequence[int],
        facts: Sequence[Fact],
        entities: Sequence[int],
        keys: Sequence[int],
    ) -> _Rows:
        names = {entry.commit.branch for entry in run}
        branches = {name: None if name is None else self._branches.number(name) for name in names}
        rows: list[_Cells] = []
        for entry, session in zip(run, sessions, strict=True):
            commit = entry.commit
            assert len(commit.facts) <= positions.INDEX_MAX, "a commit has no more facts than there are indexes"
            rows.append(_commit_row(commit, session, branches[commit.branch]))
        return _Rows(rows, self._fact_rows(facts, entities, keys))

    def _fact_rows(self, facts: Sequence[Fact], entities: Sequence[int], keys: Sequence[int]) -> list[_Cells]:
        written: dict[int, tuple[int, bytes]] = {}
        rows: list[_Cells] = []
        for key, entity, fact in zip(keys, entities, facts, strict=True):
            head = written.get(key) or self._heads.get(key) or (0, model_facts.empty(fact.id))
            rows.append(_fact_row(fact, entity, key >> _ENTITY_BITS, head))
            written[key] = (fact.version << positions.INDEX_BITS | fact.index, fact.hash)
        self._take_heads(written)
        return rows

    def _touched_rows(self, run: Iterable[AcceptedWrite]) -> list[_Cells]:
        touched = {
            (self._branches.number(name), entry.commit.version)
            for entry in run
            for name in entry.commit.fact_branches
        }
        return sorted(touched)

    def _insert(self, rows: _Rows, touched: Iterable[_Cells]) -> None:
        for table, columns, its_rows in (
            ("commit", COMMIT_COLUMNS, rows.commits),
            ("fact", FACT_COLUMNS, rows.facts),
            ("touched", ("branch", "version"), touched),
        ):
            insert(self._connection, table, ",".join(columns), [cell for row in its_rows for cell in row])

    def _find_heads(self, cold: set[int]) -> None:
        """Looks up the newest facts that new ones will follow, through fork points; one query for a span."""
        for branch in {key >> _ENTITY_BITS for key in cold}:
            left = {key & _ENTITY_MASK for key in cold if key >> _ENTITY_BITS == branch}
            for number, upto in structure.lineage(self._connection, branch):
                values = (as_json(sorted(left)), number, positions.last(upto))
                for entity, place, hash_ in query(self._connection, _NEWEST, values):
                    self._heads[branch << _ENTITY_BITS | entity] = (place, hash_)
                    left.discard(entity)
                if not left:
                    break


def _commit_row(commit: Commit, session: int, branch: int | None) -> tuple[Cell, ...]:
    note, arguments, digest = commit.note, commit.arguments, commit.note_digest
    return (
        commit.version,
        session,
        number_in_session(commit.identity),
        branch,
        commit.time,
        commit.hash,
        commit.request,
        None if arguments == NO_ARGUMENTS else arguments,
        note,
        commit.note_salt,
        digest if note is None and digest != NO_BODY else None,  # only where the note is gone
    )


def _fact_row(fact: Fact, entity: int, branch: int, head: tuple[int, bytes]) -> _Cells:
    """`head` is the place and the hash of the last fact of the entity there."""
    parent, hash_ = head
    if hash_ != fact.parent:
        raise StorageFailed(f"the parent of {fact.id!r} at version {fact.version} is not its last fact there")
    place, body, kind = fact.version << positions.INDEX_BITS | fact.index, fact.body, fact.kind
    digest = fact.digest if body is None and kind != "delete" else None
    return (place, entity, branch, KIND_NUMBERS[kind], parent, fact.hash, fact.salt, body, digest)


def _is_ordinary_write(entry: AcceptedWrite) -> bool:
    """True for an ordinary write: at least one fact, all on the branch of the commit."""
    commit = entry.commit
    return entry.destroyed is None and commit.arguments == NO_ARGUMENTS and bool(commit.facts)


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
