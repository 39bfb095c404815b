"""`stemmadb migrate`: an older database becomes one of this program, and no node of the older program writes it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import postgres_server
from database_commands import fill, run
from node_processes import LEASE_MS, url_of
from stemmadb.client.cli import exits
from stemmadb.server.storage.postgres import PostgresStorage, schema
from stemmadb.server.storage.postgres.connection import SCHEMA, connect

PATIENCE = 30.0


@pytest.fixture
def older() -> Iterator[str]:
    """A database as the first schema made it."""
    with postgres_server.own_database(is_empty=True) as url:
        connection = connect(url)
        connection.change(f"CREATE SCHEMA {SCHEMA}")
        connection.change(schema.MIGRATIONS[0])
        connection.change("INSERT INTO meta (key, value) VALUES ('schema', '1'), ('database', 'older')")
        connection.close()
        yield url


def change(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


@pytest.mark.rule("STORE-11")
@pytest.mark.parametrize("command", ["serve", "verify"])
def test_an_older_database_is_refused_and_migrate_is_named(older: str, tmp_path: Path, command: str) -> None:
    flags = ("--data", str(tmp_path), "--port", "0") if command == "serve" else ()
    ran = run(command, "--storage", url_of(older), *flags)
    assert ran.returncode == exits.UNREACHABLE
    (line,) = ran.stderr.splitlines()
    assert "stemmadb migrate" in line


@pytest.mark.rule("STORE-11")
def test_it_migrates_once_no_node_is_alive(older: str) -> None:
    node = "INSERT INTO stemmadb.node VALUES (7, 'old:1', '0.0.1', clock_timestamp() + interval '1 hour')"
    change(older, node)
    refused = run("migrate", "--storage", url_of(older))
    assert refused.returncode == exits.UNREACHABLE
    assert "old:1" in refused.stderr
    assert "0.0.1" in refused.stderr
    change(older, "UPDATE stemmadb.node SET until = clock_timestamp()")
    assert run("migrate", "--storage", url_of(older)).returncode == 0
    again = run("migrate", "--storage", url_of(older), "--json")
    assert f'"found": {schema.SCHEMA_VERSION}' in again.stdout or f'"found":{schema.SCHEMA_VERSION}' in again.stdout
    fill(older)
    assert run("verify", "--storage", url_of(older)).returncode == 0


def test_a_migrated_database_has_the_tables_of_a_new_one(older: str) -> None:
    columns = (
        "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns "
        "WHERE table_schema = 'stemmadb' ORDER BY 1, 2"
    )
    indexes = "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'stemmadb' ORDER BY 1, 2"
    assert run("migrate", "--storage", url_of(older)).returncode == 0
    with postgres_server.own_database() as new:
        shapes = []
        for url in (older, new):
            with psycopg.connect(url) as connection:
                shapes.append([connection.execute(sql).fetchall() for sql in (columns, indexes)])
    assert shapes[0] == shapes[1]


def test_an_empty_database_has_nothing_to_migrate() -> None:
    with postgres_server.own_database(is_empty=True) as url:
        ran = run("migrate", "--storage", url_of(url))
    assert ran.returncode == exits.UNREACHABLE
    assert "stemmadb serve" in ran.stderr


@pytest.mark.rule("STORE-11")
def test_a_node_that_wakes_up_after_a_migration_stays_out() -> None:
    """Its row has ended meanwhile, and it gets no other one."""
    with postgres_server.own_database() as url:
        node = PostgresStorage(url, lease_ms=LEASE_MS)
        try:
            change(url, "UPDATE stemmadb.meta SET value = '99' WHERE key = 'schema'; DELETE FROM stemmadb.node")
            deadline = time.monotonic() + PATIENCE
            while node.node.is_alive:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            time.sleep(LEASE_MS / 1_000)
            assert not node.node.is_alive
            assert node.status().nodes == []
        finally:
            node.close()
