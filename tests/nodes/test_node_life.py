"""The threads of a node outlive whatever fails, on a database that only looks like one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from stemmadb.protocol.errors import Unavailable
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres.connection import PgConnection
from stemmadb.server.storage.postgres.node import Node

NEVER_MS = 10**9
"""A lease so long that the threads of the node do nothing by themselves."""


class Database:
    """The rows of `node`, and what fails now."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.refusal: Exception | None = None
        self.failing = ""
        """The beginning of the statement that fails."""

    def connect(self) -> PgConnection:
        if self.refusal is not None:
            raise self.refusal
        return cast(PgConnection, Connection(self))


class Connection:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.warnings: list[str] = []
        self.is_closed = False

    def rows(self, sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
        database = self._database
        if database.failing and sql.startswith(database.failing):
            raise StorageFailed("it fails now")
        if sql.startswith("INSERT"):
            database.rows.append(values[0])
            return [("yesterday",)]
        if sql.startswith("UPDATE"):
            return [(1, "yesterday")] if values[1] in database.rows else []
        return [("the database",)] if sql.startswith("SELECT") else []

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
    database.failing = "SELECT"
    node.beat(None)
    assert not deaths
    database.failing = ""
    node.beat(None)
    assert deaths == database.rows == [node.number] != [before]
    node.begin_anew()
    assert node.is_alive
