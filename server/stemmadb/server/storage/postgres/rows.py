"""Rows: what accepted writes are in the tables, column by column, for one statement that appends to many spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stemmadb.protocol.model.log import facts as model_facts
from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS, Commit, Identity, LocalIdentity
from stemmadb.protocol.model.log.facts import NO_BODY, Fact
from stemmadb.server.storage import positions
from stemmadb.server.storage.port import AcceptedWrite, StorageFailed
from stemmadb.server.storage.postgres.connection import PgConnection
from stemmadb.server.storage.postgres.numbers import LastFact, OwnedNumbers
from stemmadb.server.storage.stored_identities import session_of
from stemmadb.server.storage.stored_records import KIND_NUMBERS

LOCAL_BYTES: Final = 8
"""A local is stored big-endian, so that the largest sorts last; an operation id has 16 bytes."""


def local_of(identity: Identity) -> bytes:
    """As it is stored beside its session."""
    if isinstance(identity, LocalIdentity):
        return identity.local.to_bytes(LOCAL_BYTES, "big")
    return identity.operation


class Columns:
    """Rows of one table, as columns; the numbers of spaces come first."""

    def __init__(self, width: int) -> None:
        self.cells: list[list[object]] = [[] for _ in range(width)]

    def add(self, *row: object) -> None:
        for column, cell in zip(self.cells, row, strict=True):
            column.append(cell)

    def __len__(self) -> int:
        return len(self.cells[0])

    def extend(self, other: Columns) -> None:
        for column, more in zip(self.cells, other.cells, strict=True):
            column.extend(more)


class AppendRows:
    """All that one statement inserts: names with the number that each gets if it is new, commits, facts."""

    def __init__(self) -> None:
        self.entities = Columns(3)
        self.principals = Columns(3)
        self.sessions = Columns(4)
        self.commits = Columns(12)
        self.facts = Columns(10)
        self.bytes = 0

    def extend(self, other: AppendRows) -> None:
        self.entities.extend(other.entities)
        self.principals.extend(other.principals)
        self.sessions.extend(other.sessions)
        self.commits.extend(other.commits)
        self.facts.extend(other.facts)
        self.bytes += other.bytes


class SpaceRows:
    """The rows of writes to one space. What it learns is true once they are written: `learn` says so."""

    def __init__(self, numbers: OwnedNumbers, connection: PgConnection) -> None:
        self._numbers = numbers
        self._connection = connection
        self._entities: dict[str, int] = {}
        self._principals: dict[str, int] = {}
        self._sessions: dict[tuple[str, bytes], int] = {}
        self._heads: dict[tuple[int, int], LastFact] = {}
        self.rows = AppendRows()

    def add(self, writes: Sequence[AcceptedWrite]) -> None:
        self._find_cold_heads(writes)
        for entry in writes:
            self._add_commit(entry.commit)
            for fact in entry.facts:
                self._add_fact(fact)

    def learn(self, renumbered: dict[int, int], sessions: dict[int, int], principals: dict[int, int]) -> None:
        """They are written; some names had another number than they would have got."""
        known = self._numbers
        for id_, number in self._entities.items():
            known.entities[id_] = renumbered.get(number, number)
        for did, number in self._principals.items():
            known.principals[did] = principals.get(number, number)
        for session, number in self._sessions.items():
            known.sessions[session] = sessions.get(number, number)
        for (branch, entity), head in self._heads.items():
            key = (branch, renumbered.get(entity, entity))
            known.heads.pop(key, None)
            known.heads[key] = head
        known.trim_entities()
        known.heads.trim()
        known.principals.trim()
        known.sessions.trim()

    def _find_cold_heads(self, writes: Sequence[AcceptedWrite]) -> None:
        """An entity whose fact follows another one is there: if it is not in memory, it is looked up."""
        cold: dict[str, list[str]] = {}
        written: set[tuple[str, str]] = set()
        for entry in writes:
            for fact in entry.facts:
                key = (fact.branch, fact.id)
                if key not in written and fact.parent != model_facts.empty(fact.id):
                    entity = self._numbers.entities.get(fact.id)
                    line = self._numbers.branch(self._connection, fact.branch)
                    if entity is None or (line.number, entity) not in self._numbers.heads:
                        cold.setdefault(fact.branch, []).append(fact.id)
                written.add(key)
        for branch, ids in cold.items():
            self._numbers.find_heads(self._connection, self._numbers.branch(self._connection, branch), ids)

    def _add_commit(self, commit: Commit) -> None:
        note, arguments, digest = commit.note, commit.arguments, commit.note_digest
        identity = commit.identity
        branch = None if commit.branch is None else self._numbers.branch(self._connection, commit.branch).number
        self.rows.commits.add(
            self._numbers.space,
            commit.version,
            self._session(session_of(identity)),
            local_of(identity),
            branch,
            commit.time,
            commit.hash,
            commit.request,
            None if arguments == NO_ARGUMENTS else arguments,
            note,
            commit.note_salt,
            digest if note is None and digest != NO_BODY else None,  # only where the note is gone
        )
        self.rows.bytes += len(note or b"") + len(arguments)

    def _add_fact(self, fact: Fact) -> None:
        branch = self._numbers.branch(self._connection, fact.branch).number
        entity = self._entity(fact.id)
        body, kind = fact.body, fact.kind
        place = positions.number(fact.version, fact.index)
        self.rows.facts.add(
            self._numbers.space,
            place,
            entity,
            branch,
            KIND_NUMBERS[kind],
            self._parent(fact, (branch, entity)),
            fact.hash,
            fact.salt,
            body,
            fact.digest if body is None and kind != "delete" else None,
        )
        self._heads[branch, entity] = (place, fact.hash)
        self.rows.bytes += len(body or b"")

    def _parent(self, fact: Fact, key: tuple[int, int]) -> int:
        head = self._heads.get(key) or self._numbers.heads.get(key)
        if head is None and fact.parent == model_facts.empty(fact.id):
            return 0
        if head is None or head[1] != fact.parent:
            raise StorageFailed(f"the parent of {fact.id!r} at version {fact.version} is not its last fact there")
        return head[0]

    def _entity(self, id_: str) -> int:
        number = self._numbers.entities.get(id_) or self._entities.get(id_)
        if number is None:
            number = self._entities[id_] = self._numbers.next_entity()
            self.rows.entities.add(self._numbers.space, number, id_)
        return number

    def _session(self, session: tuple[str, bytes]) -> int:
        number = self._numbers.sessions.get(session) or self._sessions.get(session)
        if number is None:
            principal = self._principal(session[0])
            number = self._sessions[session] = self._numbers.next_session()
            self.rows.sessions.add(self._numbers.space, number, principal, session[1])
        return number

    def _principal(self, did: str) -> int:
        number = self._numbers.principals.get(did) or self._principals.get(did)
        if number is None:
            number = self._principals[did] = self._numbers.next_principal()
            self.rows.principals.add(self._numbers.space, number, did)
        return number
