"""From the log to rows: what each commit on main makes of each memory. One transaction for each batch of commits.

Example: commit 5 sets a memory, 8 patches its status, 9 deletes it, 12 erases versions 5 and 8.

    after 5     doc 1, validity (5, -, 1)
    after 8     doc 1 and 2, validity (5, 8, 1) (8, -, 2)
    after 9     the same, validity (5, 8, 1) (8, 9, 2) (9, -, NULL)
    after 12    no doc; validity (9, -, NULL)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import apsw

from stemmadb.memory.rules import ids, records
from stemmadb.memory.rules.ids import MemoryId, NamespaceHash
from stemmadb.memory.rules.records import Memory, Vector


class MemoryState(NamedTuple):
    """A memory as a commit on main left it; None if it was deleted, or is no memory."""

    entity: str
    memory: Memory | None


class VectorState(NamedTuple):
    """The embedding of a memory, None if it was deleted."""

    nsh: NamespaceHash
    memory: MemoryId
    vector: Vector | None


class ErasedVersions(NamedTuple):
    """Versions of an entity whose content was destroyed."""

    entity: str
    versions: Sequence[int]


class IndexedCommit(NamedTuple):
    """What one commit means to the index."""

    version: int
    time: int
    hash: str
    states: Sequence[MemoryState] = ()
    vectors: Sequence[VectorState] = ()
    erased: Sequence[ErasedVersions] = ()


class Position(NamedTuple):
    """The last commit that is in the index."""

    version: int
    time: int
    hash: str


def position(connection: apsw.Connection) -> Position:
    ((version, time, hash_),) = connection.execute("SELECT version, time, hash FROM position").fetchall()
    assert isinstance(version, int), "a strict table"
    assert isinstance(time, int), "a strict table"
    return Position(version, time, str(hash_))


def add_commits(connection: apsw.Connection, commits: Iterable[IndexedCommit]) -> None:
    """All of them and the position, or nothing."""
    with connection:
        last: IndexedCommit | None = None
        has_erased = False
        for commit in commits:
            for state in commit.states:
                _add_state(connection, commit.version, state)
            for vector in commit.vectors:
                _add_vector(connection, vector)
            for erased in commit.erased:
                has_erased = True
                _erase(connection, erased)
            last = commit
        if last is not None:
            connection.execute("UPDATE position SET version=?, time=?, hash=?", (last.version, last.time, last.hash))
    if has_erased:
        scrub(connection)


def scrub(connection: apsw.Connection) -> None:
    """Moves everything out of the WAL file, which still holds what was deleted."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _add_state(connection: apsw.Connection, version: int, state: MemoryState) -> None:
    """A second fact of the same entity in one commit replaces the first."""
    connection.execute(
        "UPDATE validity SET until=? WHERE entity=? AND until IS NULL AND since<?", (version, state.entity, version)
    )
    for (row,) in connection.execute(
        "SELECT row FROM validity WHERE entity=? AND since=? AND row IS NOT NULL", (state.entity, version)
    ).fetchall():
        _delete_row(connection, row)
    row = None if state.memory is None else _add_doc(connection, state.entity, state.memory)
    connection.execute(
        "INSERT OR REPLACE INTO validity(entity, since, until, row) VALUES(?, ?, NULL, ?)",
        (state.entity, version, row),
    )


def _add_doc(connection: apsw.Connection, entity: str, memory: Memory) -> int:
    parts = ids.parts_of(entity)
    assert parts is not None, "only memories have rows"
    nsh, uuid = parts
    text, ns = searched_text(memory), namespace_word(connection, nsh)
    fields = (memory.kind, memory.status, memory.authority, memory.target, memory.pin, memory.created_at)
    connection.execute(
        "INSERT INTO doc(entity, uuid, ns, kind, status, authority, target, pin, created, expires, text)"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (entity, uuid, ns, *fields, memory.expires_at, text),
    )
    row = connection.last_insert_rowid()
    connection.execute("INSERT INTO fts(rowid, ns, text) VALUES(?, ?, ?)", (row, ns, text))
    connection.executemany(
        "INSERT OR IGNORE INTO link(row, rel, other) VALUES(?, ?, ?)",
        [(row, rel, other) for rel, _, other in (name.partition(":") for name in memory.links)],
    )
    return row


def searched_text(memory: Memory) -> str:
    """Everything that somebody may remember of it."""
    return "\n".join(part for part in (memory.title, memory.target, memory.text, memory.rationale) if part)


def namespace_word(connection: apsw.Connection, nsh: str) -> str:
    """The word that stands for a namespace; a new one gets the next number."""
    found = find_namespace_word(connection, nsh)
    if found is None:
        connection.execute("INSERT INTO ns(nsh) VALUES(?)", (nsh,))
        return f"n{connection.last_insert_rowid()}"
    return found


def find_namespace_word(connection: apsw.Connection, nsh: str) -> str | None:
    """The word of a namespace that has had a memory."""
    found = connection.execute("SELECT number FROM ns WHERE nsh=?", (nsh,)).fetchall()
    return f"n{found[0][0]}" if found else None


def _delete_row(connection: apsw.Connection, row: object) -> None:
    found = connection.execute("SELECT ns, text FROM doc WHERE row=?", (row,)).fetchall()
    for ns, text in found:
        connection.execute("INSERT INTO fts(fts, rowid, ns, text) VALUES('delete', ?, ?, ?)", (row, ns, text))
        connection.execute("DELETE FROM doc WHERE row=?", (row,))
        connection.execute("DELETE FROM link WHERE row=?", (row,))


def _add_vector(connection: apsw.Connection, state: VectorState) -> None:
    entity = ids.memory_entity(state.nsh, state.memory)
    if state.vector is not None:
        connection.execute(
            "INSERT OR REPLACE INTO vec(entity, ns, dims, bytes) VALUES(?, ?, ?, ?)",
            (
                entity,
                namespace_word(connection, state.nsh),
                state.vector.dims,
                records.floats_of(state.vector),
            ),
        )


def _erase(connection: apsw.Connection, erased: ErasedVersions) -> None:
    """The entity is nothing at these versions from now on; where nothing of it is left its vector goes too."""
    for version in erased.versions:
        for (row,) in connection.execute(
            "SELECT row FROM validity WHERE entity=? AND since=?", (erased.entity, version)
        ).fetchall():
            _delete_row(connection, row)
        connection.execute("UPDATE validity SET row=NULL WHERE entity=? AND since=?", (erased.entity, version))
    if erased.entity.startswith(ids.VECTORS):
        memory = ids.MEMORIES + erased.entity.removeprefix(ids.VECTORS)
        connection.execute("DELETE FROM vec WHERE entity=?", (memory,))
    left = connection.execute(
        "SELECT 1 FROM validity WHERE entity=? AND row IS NOT NULL LIMIT 1", (erased.entity,)
    ).fetchall()
    if not left:
        connection.execute("DELETE FROM vec WHERE entity=?", (erased.entity,))
