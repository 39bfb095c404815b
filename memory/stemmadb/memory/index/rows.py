"""From the log to rows: what each commit on main makes of each memory. One transaction for each batch of commits.

Example: commit 5 sets a memory, 8 patches its status, 9 deletes it, 12 erases versions 5 and 8.

    after 5     doc 1, validity (5, -, 1)
    after 8     doc 1 and 2, validity (5, 8, 1) (8, -, 2)
    after 9     the same, validity (5, 8, 1) (8, 9, 2) (9, -, NULL)
    after 12    no doc; validity (9, -, NULL)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import apsw

from stemmadb.memory.index.documents import IndexedDocument
from stemmadb.memory.rules import ids, records
from stemmadb.memory.rules.ids import MemoryId, NamespaceHash
from stemmadb.memory.rules.namespaces import Namespace
from stemmadb.memory.rules.records import Vector

SCRUB_TRIES: Final = 6
"""How often a scrub waits for readers, each time as long as the connection waits for a lock."""


class DocumentState(NamedTuple):
    """What a commit on main left of an entity that is searched; None if it was deleted, or is no such thing."""

    entity: str
    document: IndexedDocument | None


class NamespaceState(NamedTuple):
    """What a commit on main left of a namespace; None if it was deleted."""

    nsh: NamespaceHash
    namespace: Namespace | None


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
    states: Sequence[DocumentState] = ()
    namespaces: Sequence[NamespaceState] = ()
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
            for namespace in commit.namespaces:
                _add_namespace(connection, commit.version, namespace)
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
    """Moves everything out of the WAL file, which still holds what was deleted; `apsw.BusyError` if it is read."""
    for _ in range(SCRUB_TRIES):
        if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0] == 0:
            return
    raise apsw.BusyError("the index is being read")


def versions_of(connection: apsw.Connection, entity: str) -> list[int]:
    """The versions at which a state of it begins that has a text."""
    rows = connection.execute("SELECT since FROM validity WHERE entity=? AND row IS NOT NULL", (entity,))
    return [version for (version,) in rows if isinstance(version, int)]


def _add_namespace(connection: apsw.Connection, version: int, state: NamespaceState) -> None:
    connection.execute(
        "UPDATE namespace SET until=? WHERE nsh=? AND until IS NULL AND since<?", (version, state.nsh, version)
    )
    found = state.namespace
    is_there = found is not None and not found.deleting
    connection.execute(
        "INSERT OR REPLACE INTO namespace(nsh, since, until, is_there, expires) VALUES(?, ?, NULL, ?, ?)",
        (state.nsh, version, is_there, None if found is None else found.expires_at),
    )


def _add_state(connection: apsw.Connection, version: int, state: DocumentState) -> None:
    """A second fact of the same entity in one commit replaces the first."""
    connection.execute(
        "UPDATE validity SET until=? WHERE entity=? AND until IS NULL AND since<?", (version, state.entity, version)
    )
    for (row,) in connection.execute(
        "SELECT row FROM validity WHERE entity=? AND since=? AND row IS NOT NULL", (state.entity, version)
    ).fetchall():
        _delete_row(connection, row)
    row = None if state.document is None else _add_doc(connection, state.entity, state.document)
    connection.execute(
        "INSERT OR REPLACE INTO validity(entity, since, until, row) VALUES(?, ?, NULL, ?)",
        (state.entity, version, row),
    )


def _add_doc(connection: apsw.Connection, entity: str, document: IndexedDocument) -> int:
    ns = namespace_word(connection, document.nsh)
    fields = (document.kind, document.status, document.authority, document.target, document.pin, document.created)
    connection.execute(
        "INSERT INTO doc(entity, uuid, ns, kind, status, authority, target, pin, created, expires, text)"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (entity, document.uuid, ns, *fields, document.expires, document.text),
    )
    row = connection.last_insert_rowid()
    connection.execute("INSERT INTO fts(rowid, ns, text) VALUES(?, ?, ?)", (row, ns, document.text))
    connection.executemany(
        "INSERT OR IGNORE INTO link(row, rel, other) VALUES(?, ?, ?)",
        [(row, rel, other) for rel, other in document.links],
    )
    return row


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
