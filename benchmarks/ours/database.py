"""PostgreSQL as the tests start it, with syncs, and nodes on it, each in a process of its own."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from benchmarks.load.processes import DIRECTORY
from benchmarks.ours import service
from benchmarks.ours.service import Server

sys.path[:0] = [str(Path(__file__).parents[2] / "tests" / "support")]

import postgres_programs  # noqa: E402
import postgres_server  # noqa: E402
import standbys  # noqa: E402

USER = "stemmadb"
TRANSACTIONS_AT_ONCE = 8
_EACH = f"""
from stemmadb.server.storage.postgres import appender, storage
appender.APPEND_COMMITS_MAX = 1
appender.APPENDS_IN_FLIGHT_MAX = storage.APPENDS_IN_FLIGHT_MAX = {TRANSACTIONS_AT_ONCE}
{service.COMMAND}
"""
A_TRANSACTION_EACH = f"exec({_EACH!r})"
"""A node that appends the batch of each space by itself, on so many connections at once."""


def why_not() -> str | None:
    """None if there is a PostgreSQL that can be started."""
    return None if postgres_programs.installation() is not None else postgres_programs.HOW


class Database:
    """A running server. Each benchmark has a database of its own in it."""

    def __init__(self, server: postgres_server.OwnServer) -> None:
        self.pid, self.port = server.pid, server.port
        self._url = server.url
        self.version = postgres_programs.installation().version  # type: ignore[union-attr]

    def made(self, name: str) -> str:
        """The URL of a new database."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return f"{self._url.rpartition('/')[0]}/{name}"


@contextmanager
def running() -> Iterator[Database]:
    with postgres_server.own_server(DIRECTORY) as server:
        yield Database(server)


class Pair:
    """A primary with a synchronous standby, which can take its place once."""

    def __init__(self, primary: postgres_server.OwnServer, standby: postgres_server.OwnServer) -> None:
        self._primary, self._standby = primary, standby
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        self.url = f"postgresql://{USER}@{hosts}/postgres"

    def fail_over(self) -> None:
        """Kills the primary and promotes the standby at once."""
        self._primary.kill()
        standbys.promoted(self._standby)


@contextmanager
def pair() -> Iterator[Pair]:
    with standbys.a_pair(synchronous=True, parent=DIRECTORY) as (primary, standby):
        yield Pair(primary, standby)


class Fleet:
    """Nodes on one database, with one server key; the dead can be replaced."""

    def __init__(self, url: str, directory: Path, program: str, settings: dict[str, int | str]) -> None:
        self.url = url
        self.nodes: list[Server] = []
        self._directory, self._program, self._settings = directory, program, settings
        self._dying: list[Server] = []

    def start(self) -> Server:
        node = service.start(self._directory, self._program, storage=self.url, **self._settings)
        self.nodes.append(node)
        return node

    def end(self, node: Server, how: signal.Signals) -> None:
        """Sends the signal and goes on at once."""
        node.process.send_signal(how)
        self.nodes.remove(node)
        self._dying.append(node)

    def replace_dead(self) -> None:
        """Waits for what was ended, and starts as many nodes again."""
        for node in self._dying:
            node.ended()
            self.start()
        self._dying.clear()

    def stop(self) -> None:
        for node in (*self._dying, *self.nodes):
            node.stop()


@contextmanager
def fleet(url: str, count: int = 1, program: str = service.COMMAND, /, **settings: int | str) -> Iterator[Fleet]:
    with tempfile.TemporaryDirectory(prefix="stemmadb-bench-", dir=DIRECTORY) as name:
        made = Fleet(url, Path(name), program, settings)
        try:
            for _ in range(count):
                made.start()
            yield made
        finally:
            made.stop()
