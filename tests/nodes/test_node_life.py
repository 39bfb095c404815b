"""The threads of a node outlive whatever fails, on a database that only looks like one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from stemmadb.protocol.errors import Unavailable
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres.connection import PgConnection, ServerMark
from stemmadb.server.storage.postgres.node import Node

YESTERDAY, TODAY = ServerMark("the database", "yesterday"), ServerMark("the database", "today")
NEVER_MS = 10**9
"""A lease so long that the threads of the node do nothing by themselves."""


class Database:
    """The rows of `node`, and what fails now."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.refusal: Exception | None = None
        self.failing = ""
        """The beginning of the statement that fails."""
        self.mark = YESTERDAY
        """That of the server that new connections lead to."""
        self.gone: list[ServerMark] = []
        """The servers to which connections have ended."""

    def connect(self) -> PgConnection:
        if self.refusal is not None:
            raise self.refusal
        return cast(PgConnection, Connection(self))


class Connection:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.mark = database.mark
        self.warnings: list[str] = []
        self.is_closed = False

    def rows(self, sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
        database = self._database
        if self.mark in database.gone:
            raise StorageFailed("the connection has ended")
        if database.failing and sql.startswith(database.failing):
            raise StorageFailed("it fails now")
        if sql.startswith("INSERT"):
            database.rows.append(values[0])
            return [(values[0],)]
        return [(1,)] if sql.startswith("UPDATE") and values[1] in database.rows else []

    def change(self, sql: str, values: Any = ()) -> int:  # noqa: ARG002
        self._database.rows.remove(values[0])
        return 1

    def check_warnings(self) -> None:
        """There are none."""

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def node(database: Database) -> Iterator[Node]:
    made = Node(database.connect, address="here", program="test", lease_ms=NEVER_MS)
    yield made
    database.refusal, database.failing = None, ""
    made.end()


@pytest.mark.parametrize("refusal", [Unavailable("synchronous_commit = off"), OSError("no descriptors"), KeyError()])
def test_a_refused_connection_ends_no_thread(node: Node, database: Database, refusal: Exception) -> None:
    steps: list[Callable[[PgConnection | None], PgConnection | None]] = [node.beat, node.expire]
    for step in steps:
        database.refusal = refusal
        assert step(None) is None
        database.refusal = None
        assert step(None) is not None


def test_a_connection_that_failed_is_closed(node: Node, database: Database) -> None:
    for step, failing in ((node.beat, "UPDATE"), (node.expire, "DELETE")):
        connection = database.connect()
        database.failing = failing
        assert step(connection) is None
        assert cast(Connection, connection).is_closed


def test_a_death_is_told_though_its_new_beginning_failed_once(node: Node, database: Database) -> None:
    deaths: list[int] = []
    node.on_death = lambda: deaths.append(node.number)
    before = node.number
    database.rows.clear()
    database.failing = "INSERT"
    node.beat(None)
    assert not deaths
    database.failing = ""
    node.beat(None)
    assert deaths == database.rows == [node.number] != [before]
    node.begin_anew()
    assert node.is_alive


def test_a_node_sees_another_server_as_soon_as_a_connection_leads_to_it(node: Node, database: Database) -> None:
    """Its threads sleep for hours: the connection wakes the heartbeat, which looks again."""
    changes: list[ServerMark] = []
    node.on_death = lambda: changes.append(node.mark)
    node.beat(None)
    assert node.admits(YESTERDAY)
    assert changes == []
    assert not node.admits(YESTERDAY._replace(database="another"))
    database.mark, database.gone = TODAY, [YESTERDAY]
    assert node.admits(TODAY)
    assert changes == [TODAY]


@pytest.mark.rule("STORE-8")
def test_what_leads_to_another_server_than_the_heartbeat_ends_no_node(node: Node, database: Database) -> None:
    """A promoted server may have a clock that is ahead, and rows of nodes that nobody could renew yet."""
    connection = node.expire(None)
    assert connection is not None
    database.failing = "UPDATE"  # the heartbeat stays with the server that it has seen
    database.mark = TODAY
    assert node.expire(None) is None
    assert node.expire(connection) is connection
    database.failing = ""
    node.beat(None)
    assert node.mark == TODAY
    assert node.expire(connection) is not connection
    assert cast(Connection, connection).is_closed
