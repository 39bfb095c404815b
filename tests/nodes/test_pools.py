"""Connections of a node: none outlives the server it was made to, and claims have their own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import cast

import pytest

from space import SPACE
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres import PostgresStorage, claims
from stemmadb.server.storage.postgres.appender import APPENDS_IN_FLIGHT_MAX
from stemmadb.server.storage.postgres.connection import PgConnection
from stemmadb.server.storage.postgres.database_counts import DatabaseCounts
from stemmadb.server.storage.postgres.pool import ConnectionPool
from stemmadb.server.storage.postgres.storage import SIDE_CONNECTIONS


class Plain:
    era = 0
    is_at_rest = True

    def close(self) -> None:
        self.is_at_rest = False


class Making:
    """Makes what only looks like a connection, and does something first."""

    def __init__(self) -> None:
        self.first: Callable[[], None] = lambda: None

    def __call__(self) -> PgConnection:
        self.first()
        return cast(PgConnection, Plain())


def test_connections_of_an_era_before_are_not_used_again() -> None:
    make = Making()
    pool = ConnectionPool(make, 3, DatabaseCounts())
    idle, used = pool.take(), pool.take()
    pool.give_back(idle)
    pool.renew()
    assert [idle.is_at_rest, used.is_at_rest] == [False, True]
    pool.give_back(used)
    assert [idle.is_at_rest, used.is_at_rest] == [False, False]
    with pool.connection() as fresh:
        assert fresh not in (idle, used)
    with pool.connection() as again:
        assert again is fresh
    assert pool.counts.of("reconnects") == 1


def test_a_connection_that_is_being_made_when_an_era_ends_belongs_to_it() -> None:
    make = Making()
    pool = ConnectionPool(make, 1, DatabaseCounts())
    make.first = pool.renew
    with pool.connection() as made:
        pass
    assert not made.is_at_rest


def test_a_node_that_begins_anew_uses_no_connection_of_before(storage: PostgresStorage) -> None:
    pools = [storage._readers, storage._writers, storage._claimers]
    before = []
    for pool in pools:
        with pool.connection() as connection:
            before.append(connection)
    storage.forget_claims()
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
