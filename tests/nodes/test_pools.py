"""Connections of a node: none outlives the server it was made to, and claims have their own."""

from __future__ import annotations

from contextlib import ExitStack
from typing import cast

import psycopg
import pytest

from space import SPACE
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres import PostgresStorage, claims
from stemmadb.server.storage.postgres.appender import APPENDS_IN_FLIGHT_MAX
from stemmadb.server.storage.postgres.connection import PgConnection, ServerMark
from stemmadb.server.storage.postgres.database_counts import DatabaseCounts
from stemmadb.server.storage.postgres.pool import TRIES, ConnectionPool
from stemmadb.server.storage.postgres.storage import SIDE_CONNECTIONS

YESTERDAY, TODAY = ServerMark("the database", "yesterday"), ServerMark("the database", "today")


class Plain:
    is_at_rest = True

    def __init__(self, mark: ServerMark) -> None:
        self.mark = mark

    def close(self) -> None:
        self.is_at_rest = False


class Server:
    """What the heartbeat has seen last and sees when it looks again, and where connections lead."""

    def __init__(self) -> None:
        self.mark = self.leads_to = YESTERDAY
        self.looks: list[ServerMark] = []
        self.made: list[Plain] = []

    def connect(self) -> PgConnection:
        self.made.append(Plain(self.leads_to))
        return cast(PgConnection, self.made[-1])

    def admits(self, mark: ServerMark | None) -> bool:
        if mark != self.mark and self.looks:
            self.mark = self.looks.pop(0)
        return mark == self.mark


@pytest.mark.rule("STORE-8")
def test_connections_that_lead_to_a_server_before_are_not_used_again() -> None:
    server = Server()
    pool = ConnectionPool(server.connect, 3, DatabaseCounts(), server)
    idle, used = pool.take(), pool.take()
    pool.give_back(idle)
    server.leads_to = server.mark = TODAY
    pool.give_back(used)
    assert [idle.is_at_rest, used.is_at_rest] == [True, False]
    with pool.connection() as fresh:
        assert fresh not in (idle, used)
    assert not idle.is_at_rest
    with pool.connection() as again:
        assert again is fresh
    assert pool.counts.of("reconnects") == 1


@pytest.mark.rule("STORE-8")
def test_a_new_connection_that_leads_to_another_server_is_closed_and_made_anew() -> None:
    server = Server()
    pool = ConnectionPool(server.connect, 1, DatabaseCounts(), server)
    server.leads_to = TODAY
    server.looks = [YESTERDAY, TODAY]  # the heartbeat sees the server at its second look
    with pool.connection() as made:
        assert made.mark == TODAY
    assert [one.is_at_rest for one in server.made] == [False, True]
    server.leads_to = YESTERDAY
    made.close()
    with pytest.raises(StorageFailed, match="another server than the heartbeat"):
        pool.take()
    assert [one.is_at_rest for one in server.made[2:]] == [False] * TRIES
    server.leads_to = TODAY
    with pool.connection() as made:
        assert made.mark == TODAY


def test_every_connection_of_a_node_reads_the_mark_of_its_server(storage: PostgresStorage) -> None:
    with psycopg.connect(storage._dsn) as connection:
        wanted = connection.execute(
            "SELECT value, pg_postmaster_start_time()::text FROM stemmadb.meta WHERE key = 'database'"
        ).fetchone()
    for pool in (storage._readers, storage._writers, storage._claimers):
        with pool.connection() as made:
            assert made.mark == storage.node.mark == wanted


def test_a_storage_uses_no_connection_to_a_server_before(storage: PostgresStorage) -> None:
    """Also not one that lies idle. The heartbeat is as far as the mark of its own connection says."""
    pools = [storage._readers, storage._writers, storage._claimers]
    before = []
    for pool in pools:
        with pool.connection() as connection:
            before.append(connection)
            connection.mark = YESTERDAY
    for pool, old in zip(pools, before, strict=True):
        with pool.connection() as connection:
            assert connection is not old
        assert not old.is_open


def test_a_claim_waits_for_no_append(storage: PostgresStorage) -> None:
    storage.open(SPACE, create=True).close()
    with ExitStack() as stack:
        for _ in range(APPENDS_IN_FLIGHT_MAX + SIDE_CONNECTIONS):
            stack.enter_context(storage._writers.connection())
        assert storage.claim([SPACE]) == {SPACE: None}
        log = storage.open(SPACE)
    log.close()


@pytest.mark.parametrize("change", ["term = term + 1", "version = version + 1", "owner = owner + 1"])
def test_a_remembered_claim_that_is_out_of_date_is_made_again(storage: PostgresStorage, change: str) -> None:
    storage.open(SPACE, create=True).close()
    storage.claim([SPACE])
    ((number, kept),) = storage._claims.items()
    with storage._writers.connection() as connection:
        assert claims.stands(connection, number, kept)
        connection.change(f"UPDATE tip SET {change} WHERE space = %s::int", (number,))  # noqa: S608
        assert not claims.stands(connection, number, kept)
    before = storage.counts.of("claims")
    try:
        storage.open(SPACE).close()
    except StorageFailed:
        assert "version" in change  # nobody opens a log that lacks its end
    assert storage.counts.of("claims") == before + 1
    assert not storage._claims
