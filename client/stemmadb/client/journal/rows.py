"""Steps as rows: what each changes in the tables, and the state that the tables hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec
from blake3 import blake3

from stemmadb.client.journal import schema
from stemmadb.client.journal.cache_rows import CacheRows, DamagedCache
from stemmadb.client.journal.contents import slim
from stemmadb.client.journal.port import (
    CommitBase,
    ConfirmedCommit,
    JournaledCommit,
    JournalState,
    JournalStep,
    RejectedCommit,
)
from stemmadb.client.nursery.entities import CommitName
from stemmadb.protocol.model.values.ids import Did, Hash, Version

SUM_BYTES: Final = 16
ANYWHERE: Final = Version(0)
"""The `as_of` of a base in its own row: commits that share it have read it at different versions."""

T = TypeVar("T")
C = TypeVar("C", "PendingRow", ConfirmedCommit, RejectedCommit)
_encode = msgspec.msgpack.Encoder().encode


class DamagedJournal(Exception):
    """What is in the file is not what was written."""


class JournalHead(msgspec.Struct, frozen=True):
    """The one row that says whose journal it is, and where it stands."""

    space: Did
    principal: Did
    session: bytes | None = None
    last_local: int = 0
    standing: tuple[Version, Hash] | None = None


class PendingRow(msgspec.Struct, frozen=True):
    """A pending commit; its bases are in rows of their own, which it names, with the version each was read at."""

    name: CommitName
    nonce: bytes
    content: bytes
    bases: tuple[tuple[bytes, Version], ...] = ()


def packed(record: object) -> tuple[bytes, bytes]:
    """The bytes of a record and their sum: SQLite does not notice a bit that has changed."""
    body = _encode(record)
    return body, blake3(body).digest(SUM_BYTES)


def _unpacked(body: bytes, sum_: bytes, kind: type[T]) -> T:
    if blake3(body).digest(SUM_BYTES) != sum_:
        raise DamagedJournal("a record is not what was written")
    return msgspec.msgpack.decode(body, type=kind)


class Rows:
    """The tables behind one connection. Each step costs what it brings, however much is pending."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._run = connection.execute
        self.cache: CacheRows | None = None
        """The rows of the cache, if it is on."""
        self._found_cache = CacheRows(connection)
        record, sum_ = self._run("SELECT record, sum FROM head").fetchone() or (b"", b"")
        self.head = _unpacked(record, sum_, JournalHead)

    def take(self, step: JournalStep) -> None:
        """Applies a step inside the transaction that is open."""
        for stored in step.add:
            self._keep(stored)
        for confirmed in step.confirm:
            self._decided(confirmed.name)
            self._confirm(confirmed)
        for rejected in step.reject:
            self._decided(rejected.name)
            self._drop(rejected.name)
            self._put("rejected", rejected.name, rejected)
        for name in step.drop:
            self._drop(name)
        for name in step.forget:
            self._forget(name)
        self._move(_moved(self.head, step))
        if step.cache is not None and self.cache is not None:
            self.cache.take(step.cache)

    def state(self) -> JournalState:
        """What the tables of the journal hold; `DamagedJournal` if they cannot hold that."""
        return JournalState(
            session=self.head.session,
            last_local=self.head.last_local,
            standing=self.head.standing,
            pending=tuple(self._pending()),
            confirmed=tuple(self._commits("confirmed", ConfirmedCommit)),
            rejected=tuple(self._commits("rejected", RejectedCommit)),
        )

    def begin_cache(self) -> None:
        """From now on the cache is written too."""
        self._found_cache.begin()
        self.cache = self._found_cache

    def check(self) -> None:
        """`DamagedJournal` if SQLite finds the file damaged, `DamagedCache` if that is in the cache alone."""
        damage = self._damage("1")
        if damage is None:
            return
        for table in schema.TABLES:
            if not self._found_cache.is_there() or self._damage(table) is not None:
                raise DamagedJournal(damage)
        raise DamagedCache(damage)

    def write(self, state: JournalState) -> None:
        """Fills empty tables with all of this; the head is there already."""
        for pending in state.pending:
            self._keep(pending)
        for confirmed in state.confirmed:
            self._confirm(confirmed)
        for rejected in state.rejected:
            self._put("rejected", rejected.name, rejected)

    def _damage(self, what: str) -> str | None:
        found: str
        for (found,) in self._run(f"PRAGMA integrity_check({what})"):
            if found != "ok":
                return found
        return None

    def _move(self, head: JournalHead) -> None:
        if head != self.head:
            self._run("UPDATE head SET record = ?, sum = ?", packed(head))
            self.head = head

    def _put(self, table: str, name: CommitName, record: object) -> int:
        sql = f"INSERT INTO {table} (session, local, record, sum) VALUES (?, ?, ?, ?)"  # noqa: S608
        number = self._run(sql, (*name, *packed(record))).lastrowid
        assert number is not None
        return number

    def _keep(self, commit: JournaledCommit) -> None:
        bases = slim(commit).bases
        named = tuple((_base_name(base), base.as_of) for base in bases)
        number = self._put("pending", commit.name, PendingRow(commit.name, commit.nonce, commit.content, named))
        for base in bases:
            self._run("INSERT OR IGNORE INTO built_on VALUES (?, ?)", (number, self._base(base)))

    def _base(self, base: CommitBase) -> int:
        """The row of a base: one for all the commits that were built on it."""
        name = _base_name(base)
        for (number,) in self._run("SELECT number FROM bases WHERE name = ?", (name,)):
            assert isinstance(number, int)
            return number
        record = packed(msgspec.structs.replace(base, as_of=ANYWHERE))
        made = self._run("INSERT INTO bases (name, record, sum) VALUES (?, ?, ?)", (name, *record)).lastrowid
        assert made is not None
        return made

    def _decided(self, name: CommitName) -> None:
        """Takes a commit out of the pending ones, and the bases that no other was built on."""
        for (number,) in self._run("SELECT number FROM pending WHERE session = ? AND local = ?", name).fetchall():
            bases = self._run("SELECT base FROM built_on WHERE pending = ?", (number,)).fetchall()
            self._run("DELETE FROM pending WHERE number = ?", (number,))
            self._run("DELETE FROM built_on WHERE pending = ?", (number,))
            for (base,) in bases:
                unnamed = "NOT EXISTS (SELECT 1 FROM built_on WHERE base = bases.number)"
                self._run(f"DELETE FROM bases WHERE number = ? AND {unnamed}", (base,))  # noqa: S608

    def _confirm(self, commit: ConfirmedCommit) -> None:
        self._forget(commit.name)
        self._put("confirmed", commit.name, commit)

    def _forget(self, name: CommitName) -> None:
        self._run("DELETE FROM confirmed WHERE session = ? AND local = ?", name)

    def _drop(self, name: CommitName) -> None:
        self._run("DELETE FROM rejected WHERE session = ? AND local = ?", name)

    def _pending(self) -> Iterator[JournaledCommit]:
        """A base that is not there is left out: it is read from the server instead, as one that was too large."""
        rows = self._run("SELECT record, sum FROM bases")
        bases = {_base_name(base): base for base in (_unpacked(record, sum_, CommitBase) for record, sum_ in rows)}
        for row in self._commits("pending", PendingRow):
            found = ((bases[name], as_of) for name, as_of in row.bases if name in bases)
            built_on = tuple(msgspec.structs.replace(base, as_of=as_of) for base, as_of in found)
            yield JournaledCommit(row.name, row.nonce, row.content, built_on)

    def _commits(self, table: str, kind: type[C]) -> Iterator[C]:
        rows = self._run(f"SELECT session, local, record, sum FROM {table} ORDER BY number")  # noqa: S608
        for session, local, record, sum_ in rows:
            commit = _unpacked(record, sum_, kind)
            if commit.name != (session, local):
                raise DamagedJournal("a record is in another's place")
            yield commit


def _base_name(base: CommitBase) -> bytes:
    return blake3(_encode((base.branch, base.id, base.version, base.hash))).digest()


def _moved(head: JournalHead, step: JournalStep) -> JournalHead:
    """The head after a step: a new session starts at 0, and locals of older ones do not count (COMMIT-5)."""
    session = head.session if step.session is None else step.session
    last = head.last_local if session == head.session else 0
    for stored in step.add:
        if stored.name.session == session:
            last = max(last, stored.name.local)
    standing = head.standing if step.standing is None else step.standing
    return msgspec.structs.replace(head, session=session, last_local=last, standing=standing)
