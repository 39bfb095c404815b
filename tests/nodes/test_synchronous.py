"""A server that promised a second machine: what happens to commits that wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

import postgres_server
from appends import append_to
from logs import LogMaker
from space import SPACE, set_
from standbys import waiting_for_standby
from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.storage.port import AcceptedWrite, SpaceLog, StorageFailed
from stemmadb.server.storage.postgres import PostgresStorage
from stemmadb.server.storage.postgres.connection import UnknownOutcome

ZERO = Version(0)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Its standby can be named, and is never there."""
    postgres_server.need()
    with postgres_server.own_server() as made:
        yield made.url


def promise(url: str, names: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = local")
        connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        connection.execute("SELECT pg_reload_conf()")
        while connection.execute("SHOW synchronous_standby_names").fetchone() != (names,):
            time.sleep(0.01)


class Append:
    """An append in a thread of its own, and what it failed with."""

    def __init__(self, log: SpaceLog, write: AcceptedWrite) -> None:
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(log, write))
        self._thread.start()

    def _run(self, log: SpaceLog, write: AcceptedWrite) -> None:
        try:
            append_to(log, ZERO, [write])
        except StorageFailed as failure:
            self.failure = failure

    def end(self) -> BaseException | None:
        self._thread.join()
        return self.failure


@pytest.mark.rule("STORE-9", "COMMIT-10")
@pytest.mark.parametrize("level", ["notice", "error"], ids=["warnings are shown", "the role hides warnings"])
def test_cancelled_wait_is_an_unknown_outcome_until_a_claim_settles_it(server: str, level: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS stemmadb CASCADE")
        connection.execute(f"ALTER ROLE stemmadb SET client_min_messages = {level}")
    storage = PostgresStorage(server, lease_ms=60_000)
    log = storage.open(SPACE, create=True)
    promise(server, "nobody")
    appended = Append(log, LogMaker().commit(set_("urn:x", 1, blind=True)))
    while not waiting_for_standby(server):
        time.sleep(0.01)
    with psycopg.connect(server, autocommit=True) as connection:
        for pid in waiting_for_standby(server):
            connection.execute("SELECT pg_cancel_backend(%s)", (pid,))
    assert isinstance(appended.end(), UnknownOutcome)
    promise(server, "")
    log.close()
    again = storage.open(SPACE)
    with again.reader() as reader:
        assert list(chain.verify(SPACE, reader.history()))[-1].version == 1
    storage.close()


@pytest.mark.rule("STORE-9", "COMMIT-10")
def test_lost_append_that_waits_for_its_standby_is_settled_by_the_claim(server: str) -> None:
    """Its connection is cut: a reader sees the old end of the log, and the claim waits for the new one."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS stemmadb CASCADE")
    storage = PostgresStorage(server, lease_ms=60_000)
    log = storage.open(SPACE, create=True)
    promise(server, "nobody")
    appended = Append(log, LogMaker().commit(set_("urn:x", 1, blind=True)))
    while not waiting_for_standby(server):
        time.sleep(0.01)
    with log.reader() as reader:
        assert reader.tip().version == 0
    ((lost,),) = [waiting_for_standby(server)]
    claims: list[int] = []

    def claim() -> None:
        again = storage.open(SPACE)
        with again.reader() as reader:
            claims.append(reader.tip().version)

    claiming = threading.Thread(target=claim)
    claiming.start()
    while not _waits_for_lock(server):
        time.sleep(0.01)
    assert (claims, waiting_for_standby(server)) == ([], [lost])
    promise(server, "")
    claiming.join()
    assert claims == [1]
    assert appended.end() is None
    storage.close()


@pytest.mark.rule("STORE-9")
def test_spaces_that_may_have_been_shown_are_not_removed(server: str) -> None:
    """Clients may write to them as soon as they are shown, whatever the one that shows them learns of it."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS stemmadb CASCADE")
    storage = PostgresStorage(server, lease_ms=60_000)
    failures: list[BaseException] = []

    def bring_in() -> None:
        try:
            with storage.incoming() as place:
                log = place.open(SPACE)
                append_to(log, ZERO, [LogMaker().commit(set_("urn:x", 1, blind=True))])
                log.close()
                promise(server, "nobody")
                place.publish()
        except Unavailable as failed:
            failures.append(failed)

    bringing = threading.Thread(target=bring_in)
    bringing.start()
    while not (waiting := waiting_for_standby(server)):
        time.sleep(0.01)
    with psycopg.connect(server, autocommit=True) as connection:
        for pid in waiting:
            connection.execute("SELECT pg_cancel_backend(%s)", (pid,))
    promise(server, "")
    bringing.join()
    assert ["space list" in str(failed) for failed in failures] == [True]
    assert storage.spaces() == [SPACE]
    with storage.open(SPACE).reader() as reader:
        assert reader.tip().version == 1
    storage.close()


def _waits_for_lock(url: str) -> bool:
    with psycopg.connect(url, autocommit=True) as connection:
        sql = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        return bool(connection.execute(sql).fetchall())
