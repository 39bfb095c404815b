"""Appending: entries become rows, with as few statements for a batch as there can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import apsw

from stemmadb.protocol.model import facts as model_facts
from stemmadb.protocol.model.commit import NO_ARGUMENTS, Commit
from stemmadb.protocol.model.facts import NO_BODY, Fact
from stemmadb.protocol.model.ids import Version
from stemmadb.server.storage.port import Entry, Snapshot, StorageFailed
from stemmadb.server.storage.sqlite import destroying, places, structure
from stemmadb.server.storage.sqlite.connection import Cell, as_json, query
from stemmadb.server.storage.sqlite.inserting import insert
from stemmadb.server.storage.sqlite.interning import (
    BranchNumbers,
    Memo,
    Sessions,
    Texts,
    number_in_session,
)
from stemmadb.server.storage.sqlite.schema import KIND_NUMBERS

_ENTITY_BITS: Final = 40
_ENTITY_MASK: Final = (1 << _ENTITY_BITS) - 1

_COMMIT: Final = "version,session,local,branch,time,hash,request,arguments,note,note_salt,note_digest"
_FACT: Final = "place,entity,branch,kind,parent,hash,salt,body,digest"
_NEWEST: Final = (
    "SELECT j.value, f.place, f.hash FROM json_each(?) AS j CROSS JOIN fact AS f ON f.place = ("
    "SELECT place FROM fact INDEXED BY fact_entity WHERE entity = j.value AND branch = ? AND place <= ? "
    "ORDER BY place DESC LIMIT 1)"
)


def tip_version(connection: apsw.Connection) -> Version:
    rows = query(connection, 'SELECT version FROM "commit" ORDER BY version DESC LIMIT 1')
    return Version(rows[0][0] if rows else 0)


class Appender:
    """Writes entries inside the caller's transaction; after an error it is of no use any more."""

    def __init__(self, connection: apsw.Connection, room: Callable[[], int]) -> None:
        """`room` says of how many entities the number, and on a branch the last fact, may be kept in memory now."""
        self._connection = connection
        self._entities = Texts(connection, table="entity", column="id", room=room)
        self._sessions = Sessions(connection)
        self._branches = BranchNumbers(connection)
        self._heads: Memo[int, tuple[int, bytes]] = Memo(room)
        """The places and hashes of last facts, each under the number of its branch and its entity in one."""

    def write(self, batch: Sequence[Entry]) -> None:
        for run in _runs(batch):
            self._write_run(run)
            last = run[-1]
            if last.commit.arguments != NO_ARGUMENTS:
                structure.take(self._connection, last.commit)
            if last.destroyed is not None:
                destroying.destroy(self._connection, last.destroyed)

    def _write_run(self, run: Sequence[Entry]) -> None:
        commits = [entry.commit for entry in run]
        sessions = self._sessions.numbers([commit.identity for commit in commits])
        names = {commit.branch for commit in commits}
        branches = {name: None if name is None else self._branches.number(name) for name in names}
        cells: list[Cell] = []
        for commit, session in zip(commits, sessions, strict=True):
            assert len(commit.facts) <= places.INDEX_MAX, "a commit has no more facts than there are indexes"
            cells += _commit_row(commit, session, branches[commit.branch])
        insert(self._connection, "commit", _COMMIT, cells)
        facts = [fact for entry in run for fact in entry.facts]
        if facts:
            self._write_facts(facts)
        self._write_touched(run)

    def _write_facts(self, facts: Sequence[Fact]) -> None:
        entities, new = self._entities.numbers([fact.id for fact in facts])
        branches = {name: self._branches.number(name) for name in {fact.branch for fact in facts}}
        keys = [branches[fact.branch] << _ENTITY_BITS | entity for fact, entity in zip(facts, entities, strict=True)]
        heads = self._heads
        cold = {key: fact.id for key, fact in zip(keys, facts, strict=True) if key not in heads}
        if cold:
            self._find_heads({key for key, id_ in cold.items() if id_ not in new})
        cells: list[Cell] = []
        for key, entity, fact in zip(keys, entities, facts, strict=True):
            # Taken out and put in again at the end: what was written last is kept longest.
            head = heads.pop(key, None)
            parent, hash_ = head if head is not None else (0, model_facts.empty(fact.id))
            if hash_ != fact.parent:
                raise StorageFailed(f"the parent of {fact.id!r} at version {fact.version} is not its last fact there")
            place, hash_ = fact.version << places.INDEX_BITS | fact.index, fact.hash
            heads[key] = (place, hash_)
            body, kind = fact.body, fact.kind
            digest = fact.digest if body is None and kind != "delete" else None
            cells += (place, entity, key >> _ENTITY_BITS, KIND_NUMBERS[kind], parent, hash_, fact.salt, body, digest)
        insert(self._connection, "fact", _FACT, cells)
        heads.trim()

    def _find_heads(self, cold: set[int]) -> None:
        """Looks up the newest facts that new ones will follow, through fork points; one query for a span."""
        for branch in {key >> _ENTITY_BITS for key in cold}:
            left = {key & _ENTITY_MASK for key in cold if key >> _ENTITY_BITS == branch}
            for number, upto in structure.lineage(self._connection, branch):
                values = (as_json(sorted(left)), number, places.last(upto))
                for entity, place, hash_ in query(self._connection, _NEWEST, values):
                    self._heads[branch << _ENTITY_BITS | entity] = (place, hash_)
                    left.discard(entity)
                if not left:
                    break

    def _write_touched(self, run: Iterable[Entry]) -> None:
        touched = {
            (self._branches.number(name), entry.commit.version)
            for entry in run
            for name in entry.commit.fact_branches
        }
        insert(self._connection, "touched", "branch,version", [cell for row in sorted(touched) for cell in row])


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


def _runs(batch: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Parts of the batch that end with each entry that changes the structure, or destroys: later ones must see it."""
    start = 0
    for end, entry in enumerate(batch, 1):
        if entry.destroyed is not None or entry.commit.arguments != NO_ARGUMENTS or end == len(batch):
            yield batch[start:end]
            start = end


def keep_snapshots(connection: apsw.Connection, snapshots: Iterable[Snapshot]) -> None:
    """Entity and branch are those of the fact, which must be there."""
    for snapshot in snapshots:
        connection.execute(
            "INSERT OR REPLACE INTO snapshot (place, entity, branch, body) "
            "SELECT place, entity, branch, ? FROM fact WHERE place = ?",
            (snapshot.body, places.number_of(snapshot.place)),
        )
        assert connection.changes() == 1, "a snapshot of a fact that is not there"
