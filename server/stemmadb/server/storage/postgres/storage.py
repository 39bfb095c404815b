"""The spaces of a PostgreSQL database, as one node sees them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

import psycopg

from stemmadb.protocol import identity
from stemmadb.protocol.errors import Unavailable, UnknownSpace
from stemmadb.protocol.model.values.ids import Did, TimeMs
from stemmadb.server.storage.port import OwnedElsewhere, SpaceLog, StorageFailed, Worker
from stemmadb.server.storage.postgres import claims, incoming, members, schema, shared_blobs
from stemmadb.server.storage.postgres.appender import APPENDS_IN_FLIGHT_MAX, NodeAppender
from stemmadb.server.storage.postgres.claims import Claimed
from stemmadb.server.storage.postgres.connection import (
    NODE_SETTINGS,
    READER_SETTINGS,
    PgConnection,
    connect,
    failures,
    translated,
)
from stemmadb.server.storage.postgres.database_counts import DatabaseCounts
from stemmadb.server.storage.postgres.incoming import IS_SHOWN, IncomingRows
from stemmadb.server.storage.postgres.log import NodeConnections, PostgresLog, ReadOnlyLog
from stemmadb.server.storage.postgres.node import LEASE_MS, Node
from stemmadb.server.storage.postgres.numbers import OwnedNumbers
from stemmadb.server.storage.postgres.pool import ConnectionPool
from stemmadb.server.storage.postgres.read_view import READ_VIEW_MS_MAX

READER_CONNECTIONS: Final = 8
SIDE_CONNECTIONS: Final = 1
"""For writes of a log that are no append."""
CLAIM_CONNECTIONS: Final = 2
"""For claims, so that they and the appends of spaces that are open never wait for each other."""
ENTITIES_MAX: Final = 65_536
"""How many entities the logs that are open know without asking, together."""
ENTITIES_MIN: Final = 256
"""How many each of them may know, however many they are."""

_NUMBER: Final = "SELECT space FROM space WHERE did = %s"
_SPACES: Final = f"SELECT did FROM space WHERE {IS_SHOWN}"  # noqa: S608  # our own text
_NOW: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"


class DatabaseStatus(NamedTuple):
    """What an operator wants to know of a database."""

    version: str
    has_standby: bool
    nodes: Sequence[tuple[str, int]]
    """Each with the milliseconds that its row has left."""
    owners: dict[Did, str]


def _nothing(_space: Did) -> None:
    """Nobody serves it."""


class PostgresStorage:
    """Implements `port.Storage`. A read-only one is no node: it claims nothing and can be used beside all others."""

    def __init__(
        self,
        dsn: str,
        *,
        read_only: bool = False,
        address: str = "",
        program: str = "",
        lease_ms: int = LEASE_MS,
        read_view_ms_max: int = READ_VIEW_MS_MAX,
        reader_connections: int = READER_CONNECTIONS,
    ) -> None:
        self._dsn = dsn
        self._read_view_ms_max = read_view_ms_max
        self._blobs_in: Path | None = None
        self._lock = Lock()
        self.counts: Final = DatabaseCounts()
        self._logs: set[PostgresLog] = set()
        self._by_space: dict[Did, PostgresLog] = {}
        self._is_draining = False
        self._to_give_back: set[int] = set()
        """Spaces whose log was closed by a node that stops; they are given back together."""
        self._claims: dict[int, Claimed] = {}
        """What was claimed and not opened yet."""
        self.on_lost: Callable[[Did], None] = _nothing
        """Called in any thread when another node turned out to have a space that was open here."""
        with closing(connect(dsn)) as connection, failures():
            schema.create(connection)
        self._node = None if read_only else Node(self._connect, address=address, program=program, lease_ms=lease_ms)
        self._readers = self._pool(self._connect_reader, reader_connections)
        self._writers = self._pool(self._connect, APPENDS_IN_FLIGHT_MAX + SIDE_CONNECTIONS)
        self._claimers = self._pool(self._connect, CLAIM_CONNECTIONS)
        self._appender = NodeAppender(self._writers, self.counts)

    def _pool(self, make: Callable[[], PgConnection], count: int) -> ConnectionPool:
        return ConnectionPool(make, count, self.counts, self._node)

    def _connect(self) -> PgConnection:
        return connect(self._dsn, NODE_SETTINGS, reads_mark=True)

    def _connect_reader(self) -> PgConnection:
        # A read view that a thread keeps open without asking anything is ended by the server.
        idle = {"idle_in_transaction_session_timeout": str(self._read_view_ms_max)}
        return connect(self._dsn, READER_SETTINGS | idle, reads_mark=True)

    @property
    def node(self) -> Node:
        assert self._node is not None, "a read-only storage is no node"
        return self._node

    def status(self) -> DatabaseStatus:
        """The nodes that are alive, which of them owns each space, and how durable an acknowledged commit is now."""
        with self._readers.connection() as connection, failures():
            ((number, names),) = connection.rows(
                "SELECT current_setting('server_version'), current_setting('synchronous_standby_names')"
            )
            nodes = connection.rows(
                "SELECT address, (extract(epoch FROM until - clock_timestamp()) * 1000)::bigint FROM node "
                "WHERE until > clock_timestamp() ORDER BY address"
            )
            owners = connection.rows(
                "SELECT s.did, n.address FROM tip AS t JOIN space AS s ON s.space = t.space "
                "JOIN node AS n ON n.node = t.owner"
            )
        return DatabaseStatus(str(number).split()[0], bool(names), nodes, {Did(did): name for did, name in owners})

    def check_server(self, did: Did) -> None:
        """The first node writes the server's DID; `Unavailable` on one with another key."""
        with self._writers.connection() as connection, failures():
            connection.change(
                "INSERT INTO meta (key, value) VALUES ('server', %s) ON CONFLICT (key) DO NOTHING", (did,)
            )
            ((found,),) = connection.rows("SELECT value FROM meta WHERE key = 'server'")
        if found != did:
            raise Unavailable(
                f"The database belongs to the server {found}, and this key is that of {did}. "
                "Give every node the same key with --server-key."
            )

    def use_blobs(self, directory: Path | None) -> None:
        """Large blobs are in this directory from now on; `Unavailable` unless it is the one of the database."""
        with self._claimers.connection() as connection, failures():
            shared_blobs.check(connection, directory, is_first=self._node is not None)
        self._blobs_in = directory

    def is_open(self, space: Did) -> bool:
        """Whether its log is open here, under the number this node has now. Asked on the loop."""
        log = self._by_space.get(space)
        return log is not None and log.owner == self.node.number

    def claim(self, spaces: Collection[Did]) -> dict[Did, str | None]:
        """The address of the node that owns each space, None if this one does now; what is not there is ours to make.

        What is claimed is remembered until it is opened.
        """
        with self._claimers.connection() as connection, failures():
            elsewhere, claimed = claims.claim_all(connection, self.node.number, spaces)
        self.counts.add("claims", len(claimed))
        with self._lock:
            self._claims.update(claimed)
            if self._is_draining:  # since this claim began
                self._give_back_unopened()
        return {space: elsewhere.get(space) for space in spaces}

    @property
    def is_draining(self) -> bool:
        return self._is_draining

    def drain(self) -> None:
        """The node stops: it claims nothing more, and what it closes is given back by `give_back_closed`."""
        with self._lock:
            self._is_draining = True
            self._give_back_unopened()

    def _give_back_unopened(self) -> None:
        self._to_give_back |= {space for space, kept in self._claims.items() if kept.owner == self.node.number}
        self._claims.clear()

    def give_back_closed(self) -> None:
        """Gives back the spaces that were closed while it drains, with one statement."""
        with self._lock:
            closed, self._to_give_back = self._to_give_back, set()
        if closed:
            with self._claimers.connection() as connection, failures():
                claims.give_back_all(connection, self.node.number, closed)

    def addresses(self) -> set[str]:
        """Of the nodes that are alive."""
        with self._claimers.connection() as connection, failures():
            return {address for (address,) in connection.rows("SELECT address FROM node")}

    def forget_claims(self) -> None:
        """Those of this node's last life."""
        with self._lock:
            self._claims.clear()

    @property
    def append_statements(self) -> int:
        """How many statements have appended something."""
        return self.counts.of("appends")

    @property
    def open_spaces(self) -> int:
        """How many spaces this node owns and has open."""
        return len(self._by_space)

    def spaces(self) -> list[Did]:
        with self._readers.connection() as connection, failures():
            return sorted(Did(did) for (did,) in connection.rows(_SPACES))

    def write_members(self, lists: Mapping[Did, object]) -> None:
        """Replaces who is in the access lists of these spaces, of those that this node owns."""
        with self._writers.connection() as connection, failures():
            members.write(connection, self.node.number, lists)

    def spaces_of(self, principal: Did) -> list[dict[str, object]]:
        with self._readers.connection() as connection, failures():
            return [{"space": space, "role": role} for space, role in members.of(connection, principal)]

    def listed_spaces(self) -> list[dict[str, object]]:
        with self._readers.connection() as connection, failures():
            return [{"space": space, "principals": count} for space, count in members.all_spaces(connection)]

    def owing_scrub(self) -> list[Did]:
        """The spaces of which files of the database may still hold destroyed bytes."""
        with self._readers.connection() as connection, failures():
            sql = "SELECT s.did FROM tip AS t JOIN space AS s ON s.space = t.space WHERE t.owes_scrub ORDER BY s.did"
            return [Did(did) for (did,) in connection.rows(sql)]

    def open(self, space: Did, *, create: bool = False, workers: Worker | None = None) -> SpaceLog:
        """Claims the space; `OwnedElsewhere` if a live node has it, `UnknownSpace` if there is none to open."""
        identity.public_key(space)
        if self._is_draining:
            raise StorageFailed("the node is stopping")
        with self._claimers.connection() as connection, failures():
            number = self._number(connection, space, create=create and self._node is not None)
            if self._node is None:
                return ReadOnlyLog(  # type: ignore[return-value]
                    space, number, self._readers, self._read_view_ms_max, self._blobs_in
                )
            return self._claimed(connection, space, number, workers)

    @contextmanager
    def incoming(self) -> Iterator[IncomingRows]:
        """Where new spaces are made before anybody can see them; at the end what was not shown is gone."""
        with closing(self._connect()) as connection, failures():
            made = IncomingRows(connection, self._opened_incoming, self._blobs_in)
            try:
                yield made
            finally:
                with suppress(psycopg.Error, StorageFailed):  # else the next one does it
                    made.remove()

    def _opened_incoming(self, space: Did, number: int) -> PostgresLog:
        with self._claimers.connection() as connection, failures():
            return self._claimed(connection, space, number, None)

    def clock(self) -> Callable[[], TimeMs]:
        """The database's time, carried on by our monotonic clock."""
        with self._claimers.connection() as connection, failures():
            ((then,),) = connection.rows(_NOW)
        asked = time.monotonic()
        return lambda: TimeMs(then + int((time.monotonic() - asked) * 1_000))

    def _number(self, connection: PgConnection, space: Did, *, create: bool) -> int:
        rows = connection.rows(_NUMBER, (space,))
        if not rows and create:
            incoming.make(connection, space, name=space)
            rows = connection.rows(_NUMBER, (space,))
        if not rows:
            raise UnknownSpace(space=space)
        return int(rows[0][0])

    def _claimed(self, connection: PgConnection, space: Did, number: int, workers: Worker | None) -> PostgresLog:
        try:
            with self._lock:
                kept = self._claims.pop(number, None)
            owner = self.node.number
            if kept is None or kept.owner != owner or not claims.stands(connection, number, kept):
                kept = claims.claim(connection, owner, number)
                self.counts.add("claims")
            claims.check_end(connection, space, number, kept.tip)
        except OwnedElsewhere:
            self.on_lost(space)
            raise
        except psycopg.Error as error:
            connection.close()
            raise translated(error) from error
        log = PostgresLog(
            space,
            OwnedNumbers(number, kept.tip.version, connection, self._room),
            kept,
            NodeConnections(self._readers, self._writers, self._appender, self._read_view_ms_max, self._blobs_in),
            workers=workers,
            closed=self._closed,
            lost=lambda: self.on_lost(space),
        )
        with self._lock:
            self._logs.add(log)
            self._by_space[space] = log
        return log

    def _room(self) -> int:
        return max(ENTITIES_MIN, ENTITIES_MAX // max(1, len(self._logs)))

    def _closed(self, log: PostgresLog, given_back: Claimed | None) -> None:
        with self._lock:
            self._logs.discard(log)
            if self._by_space.get(log.space) is log:
                del self._by_space[log.space]
            if given_back is not None and self._is_draining:
                self._to_give_back.add(log.number)
                return
        if given_back is not None:
            with suppress(StorageFailed, psycopg.Error), self._writers.connection() as connection:
                claims.give_back(connection, log.number, given_back)

    def close(self) -> None:
        with self._lock:
            logs = list(self._logs)
        for log in logs:
            log.close()
        self._appender.close()
        if self._node is not None:
            self._node.end()
        self._readers.close()
        self._writers.close()
        self._claimers.close()
