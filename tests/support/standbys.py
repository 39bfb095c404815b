"""A primary with a standby: how they are made synchronous, how the standby catches up, and its promotion."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

import postgres_server
from postgres_server import OwnServer

_CAUGHT_UP = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"


@contextmanager
def a_pair(*, synchronous: bool, parent: str | None = None) -> Iterator[tuple[OwnServer, OwnServer]]:
    postgres_server.need()
    with postgres_server.own_server(parent) as primary, primary.standby() as standby:
        if synchronous:
            promise_a_standby(primary.url)
        yield primary, standby


def promise_a_standby(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
        while not connection.execute("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").fetchall():
            time.sleep(0.02)


def wait_until_caught_up(primary: OwnServer, standby: OwnServer) -> None:
    """Until the standby shows what the primary has written by now."""
    with psycopg.connect(primary.url) as here, psycopg.connect(standby.url, autocommit=True) as there:
        (written,) = here.execute("SELECT pg_current_wal_lsn()::text").fetchone() or ("",)
        while there.execute(_CAUGHT_UP, (written,)).fetchone() != (True,):
            time.sleep(0.02)


def promoted(standby: OwnServer) -> str:
    """The URL of a standby, which is the primary from now on and waits for nobody."""
    with psycopg.connect(standby.url, autocommit=True) as connection:
        connection.execute("SELECT pg_promote(true)")
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
        connection.execute("SELECT pg_reload_conf()")
    return standby.url


def waiting_for_standby(url: str) -> list[int]:
    """The processes of a server whose commit waits for its standby."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'").fetchall()
    return [pid for (pid,) in found]
