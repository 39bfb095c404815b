"""The cache as rows beside those of the journal: its tables, what a step changes in them, and what they hold.

Every row has a checksum, and a watch has one over its members, so that a byte that has changed is noticed. Then, and
where the format is another one, there is no cache: the watches come whole from the server (CACHE-2).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final
from zlib import crc32

import msgspec
from blake3 import blake3

from stemmadb.client.cache.equality import query_of
from stemmadb.client.cache.records import CACHE_FORMAT, CacheEntity, CacheHead, CacheState, CacheStep, CacheWatch
from stemmadb.client.nursery.entities import Key
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Hash, Version

SUM_BYTES: Final = 8
TABLES: Final = ("cache_head", "cache_watch", "cache_member", "cache_entity")
_CREATE: Final = (
    "CREATE TABLE IF NOT EXISTS cache_head (one INTEGER PRIMARY KEY, format INTEGER, record BLOB, sum BLOB)",
    "CREATE TABLE IF NOT EXISTS cache_watch (number INTEGER PRIMARY KEY, record BLOB, sum BLOB)",
    "CREATE TABLE IF NOT EXISTS cache_member (watch INTEGER, id TEXT, PRIMARY KEY (watch, id)) WITHOUT ROWID",
    # With row numbers: SQLite fills the pages of such a table, and leaves those of the other kind half empty.
    "CREATE TABLE IF NOT EXISTS cache_entity "
    "(number INTEGER PRIMARY KEY, branch TEXT, id TEXT, record BLOB, sum INTEGER, UNIQUE (branch, id))",
)
_PUT: Final = (
    "INSERT INTO cache_entity (branch, id, record, sum) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (branch, id) DO UPDATE SET record = excluded.record, sum = excluded.sum"
)
_encode = msgspec.msgpack.Encoder().encode


class DamagedCache(Exception):
    """What is in the tables of the cache is not what was written, or cannot be read here."""


class WatchRow(msgspec.Struct, frozen=True, array_like=True):
    """A watch with how many members it has, and the sum of their checksums."""

    watch: CacheWatch
    count: int = 0
    sum: int = 0


class EntityRow(msgspec.Struct, frozen=True, array_like=True):
    """An entity without its name, which is the key of its row."""

    version: Version
    hash: Hash
    body: bytes


_read_entity = msgspec.msgpack.Decoder(EntityRow).decode
_read_watch = msgspec.msgpack.Decoder(WatchRow).decode
_read_head = msgspec.msgpack.Decoder(CacheHead).decode


class CacheRows:
    """The tables of a cache behind one connection; made when they are first needed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._run = connection.execute
        self._many = connection.executemany
        self._watches: dict[int, WatchRow] = {}

    # ------------------------------------------------------------ making and dropping

    def begin(self) -> None:
        """Makes the tables if they are not there. Bytes that are deleted are overwritten (CACHE-4)."""
        self._run("PRAGMA secure_delete = ON")
        for statement in _CREATE:
            self._run(statement)

    def is_there(self) -> bool:
        """Whether the file has tables of a cache."""
        found = self._run("SELECT count(*) FROM sqlite_master WHERE name IN (?, ?, ?, ?)", TABLES).fetchone()
        return bool(found[0])

    # ------------------------------------------------------------ writing

    def take(self, step: CacheStep) -> None:
        """Applies a step inside the transaction that is open."""
        if step.clear:
            self._clear()
        for number in step.end:
            self._run("DELETE FROM cache_watch WHERE number = ?", (number,))
            self._run("DELETE FROM cache_member WHERE watch = ?", (number,))
            self._watches.pop(number, None)
        self._many("DELETE FROM cache_member WHERE watch = ? AND id = ?", step.leave)
        removed = ((_short(branch), id_) for branch, id_ in step.remove)
        self._many("DELETE FROM cache_entity WHERE branch = ? AND id = ?", removed)
        self._many("INSERT INTO cache_member VALUES (?, ?)", step.enter)
        self._many(_PUT, map(_entity_row, step.put))
        self._write_watches(step)
        self._write_head(step.head)

    def _clear(self) -> None:
        for table in TABLES:
            self._run(f"DELETE FROM {table}")  # noqa: S608
        self._watches = {}

    def _write_watches(self, step: CacheStep) -> None:
        """The rows of watches that have other fields, or other members."""
        rows = {one.number: WatchRow(one) for one in step.watches}
        for number, row in rows.items():
            before = self._watches.get(number)
            if before is not None:
                rows[number] = WatchRow(row.watch, before.count, before.sum)
        for sign, moved in ((1, step.enter), (-1, step.leave)):
            for number, id_ in moved:
                row = rows.get(number) or self._watches[number]
                rows[number] = WatchRow(row.watch, row.count + sign, row.sum + sign * _sum_of(id_))
        for number, row in rows.items():
            record = _encode(row)
            self._run("REPLACE INTO cache_watch VALUES (?, ?, ?)", (number, record, _sum(record)))
        self._watches |= rows

    def _write_head(self, head: CacheHead | None) -> None:
        if head is None:
            self._run("DELETE FROM cache_head")
            return
        record = _encode(head)
        self._run("REPLACE INTO cache_head VALUES (1, ?, ?, ?)", (CACHE_FORMAT, record, _sum(record)))

    # ------------------------------------------------------------ reading

    def state(self) -> CacheState | None:
        """What the tables hold; `DamagedCache` if that is not what was written. SQLite found the file in order."""
        try:
            return self._state()
        except (sqlite3.DatabaseError, msgspec.MsgspecError, TypeError, ValueError, KeyError) as error:
            raise DamagedCache(str(error)) from error

    def _state(self) -> CacheState | None:
        row = self._run("SELECT format, record, sum FROM cache_head").fetchone()
        if row is None:
            self._check_empty()
            return None
        if row[0] != CACHE_FORMAT:
            raise DamagedCache(f"format {row[0]} is not known here")
        head = _read_head(_checked(row[1], row[2]))
        self._watches = dict(self._read_watches())
        branches = {number: BranchName(query_of(row.watch.query).branch) for number, row in self._watches.items()}
        members = self._read_members()
        entities = self._read_entities()
        _check_members(members, branches, entities, self._watches)
        watches = tuple(row.watch for row in self._watches.values())
        return CacheState(head=head, watches=watches, members=members, entities=entities, branches=branches)

    def _check_empty(self) -> None:
        """Without a head there is nothing; something that has lost its head is damaged."""
        for table in TABLES:
            if self._run(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None:  # noqa: S608
                raise DamagedCache(f"{table} has rows, and the cache has no head")

    def _read_watches(self) -> Iterator[tuple[int, WatchRow]]:
        for number, record, sum_ in self._run("SELECT number, record, sum FROM cache_watch ORDER BY number"):
            row = _read_watch(_checked(record, sum_))
            if row.watch.number != number:
                raise DamagedCache("a watch is in another's place")
            yield number, row

    def _read_members(self) -> dict[int, set[EntityId]]:
        members: dict[int, set[EntityId]] = {number: set() for number in self._watches}
        sums = dict.fromkeys(members, 0)
        for watch, id_ in self._run("SELECT watch, id FROM cache_member"):
            members[watch].add(id_)
            sums[watch] += crc32(id_.encode())
        for number, row in self._watches.items():
            if (len(members[number]), sums[number]) != (row.count, row.sum):
                raise DamagedCache("a watch has not the members that were written")
        return members

    def _read_entities(self) -> dict[Key, CacheEntity]:
        entities: dict[Key, CacheEntity] = {}
        for short, id_, record, sum_ in self._run("SELECT branch, id, record, sum FROM cache_entity"):
            if crc32(record, crc32(f"{short}\n{id_}".encode())) != sum_:
                raise DamagedCache("an entity is not what was written")
            row = _read_entity(record)
            branch = BranchName(short or MAIN)
            entities[branch, id_] = CacheEntity(branch, id_, row.version, row.hash, row.body)
        return entities


def _check_members(
    members: dict[int, set[EntityId]],
    branches: dict[int, BranchName],
    entities: dict[Key, CacheEntity],
    watches: dict[int, WatchRow],
) -> None:
    """Every member of a whole watch is there, and nothing else is."""
    cached: set[Key] = set()
    for number, ids in members.items():
        keys = {(branches[number], id_) for id_ in ids}
        if watches[number].watch.is_whole and not keys <= entities.keys():
            raise DamagedCache("a member of a watch is missing")
        cached |= keys
    if not entities.keys() <= cached:
        raise DamagedCache("an entity belongs to no watch")


def _entity_row(one: CacheEntity) -> tuple[str, str, bytes, int]:
    record, short = _encode(EntityRow(one.version, one.hash, one.body)), _short(one.branch)
    return short, one.id, record, crc32(record, crc32(f"{short}\n{one.id}".encode()))


def _short(branch: BranchName) -> str:
    """Nearly everything is on `main`, which takes no bytes."""
    return "" if branch == MAIN else branch


def _sum(record: bytes) -> bytes:
    return blake3(record).digest(SUM_BYTES)


def _sum_of(id_: EntityId) -> int:
    return crc32(id_.encode())


def _checked(record: bytes, sum_: bytes) -> bytes:
    if _sum(record) != sum_:
        raise DamagedCache("a record is not what was written")
    return record
