"""Appends on PostgreSQL: many spaces in one statement, what is certain and what is unknown, and the claim."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator

import msgspec
import psycopg
import pytest

from appends import append_to
from logs import LogMaker
from space import ALICE, BOB, SPACE, set_
from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.log import chain, commit_record
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.server.storage.port import AcceptedWrite, AppendBatch, LogMoved, OwnedElsewhere, SpaceLog, StorageFailed
from stemmadb.server.storage.postgres import PostgresStorage
from stemmadb.server.storage.postgres import connection as connections
from stemmadb.server.storage.postgres.appender import NodeAppender, WaitingBatch
from stemmadb.server.storage.postgres.claim_rules import Deposed
from stemmadb.server.storage.postgres.connection import PgConnection, UnknownOutcome
from stemmadb.server.storage.postgres.log import PostgresLog
from stemmadb.server.thread_pool import Threads

ZERO = Version(0)


@pytest.fixture
def workers() -> Iterator[Threads]:
    threads = Threads(1, "append")
    yield threads
    threads.close()


@pytest.fixture
def other(url: str) -> Iterator[PostgresStorage]:
    made = PostgresStorage(url, address="other:1")
    yield made
    made.close()


@pytest.fixture
def admin(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = stemmadb")
        yield connection


def version_of(log: SpaceLog) -> int:
    with log.reader() as reader:
        return list(chain.verify(log.space, reader.history()))[-1].version if reader.tip().version else 0


def tip_of(log: SpaceLog) -> int:
    with log.reader() as reader:
        return reader.tip().version


def first_of(log: SpaceLog) -> AcceptedWrite:
    """A first commit that follows the genesis of that space."""
    made = LogMaker().commit(set_("urn:x", 1, blind=True))
    commit = msgspec.structs.replace(made.commit, previous=commit_record.genesis(log.space))
    return msgspec.structs.replace(made, commit=commit)


async def all_ended(logs: list[SpaceLog], batches: list[AppendBatch]) -> list[BaseException | None]:
    loop = asyncio.get_running_loop()
    futures = [loop.create_future() for _ in logs]
    for log, batch, future in zip(logs, batches, futures, strict=True):
        log.append(batch, future.set_result)
    async with asyncio.timeout(20):
        return list(await asyncio.gather(*futures))


@pytest.mark.rule("COMMIT-1", "STORE-8")
async def test_batches_that_wait_together_are_appended_with_one_statement(
    storage: PostgresStorage, workers: Threads, admin: psycopg.Connection[tuple[object, ...]]
) -> None:
    logs = [storage.open(did, create=True, workers=workers) for did in (SPACE, ALICE, BOB)]
    batches = [AppendBatch(ZERO, [first_of(log)]) for log in logs]
    held = [storage.append_statements]
    assert await all_ended(logs, batches) == [None, None, None]
    held.append(storage.append_statements)
    assert [tip_of(log) for log in logs] == [1, 1, 1]
    assert held[1] - held[0] <= 3
    assert (storage.counts.of("append_commits"), storage.counts.of("claims")) == (3, 3)


@pytest.mark.rule("COMMIT-10", "STORE-9")
async def test_one_bad_batch_harms_no_other_space_of_the_statement(
    storage: PostgresStorage, workers: Threads, admin: psycopg.Connection[tuple[object, ...]]
) -> None:
    """A row that violates a key fails the statement; the others are appended one by one."""
    logs = [storage.open(did, create=True) for did in (SPACE, ALICE)]
    admin.execute(
        "INSERT INTO fact SELECT space, 1 << 20, 99, 1, 1, 0, '', '', '' FROM space WHERE did = %s", (SPACE,)
    )
    batches = [AppendBatch(ZERO, [first_of(log)]) for log in logs]
    appender = NodeAppender(storage._writers, storage.counts)
    group = []
    for log, batch in zip(logs, batches, strict=True):
        assert isinstance(log, PostgresLog)
        group.append(WaitingBatch(log._numbers, log._claimed, batch, lambda _: None))
    assert appender._written(group) == []
    assert isinstance(group[0].failure, StorageFailed)
    assert group[1].failure is None
    assert tip_of(logs[1]) == 1


def test_a_row_that_somebody_holds_for_a_moment_is_waited_for(
    storage: PostgresStorage, admin: psycopg.Connection[tuple[object, ...]]
) -> None:
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    admin.execute("BEGIN")
    admin.execute("SELECT * FROM tip FOR UPDATE")
    appended = threading.Thread(target=append_to, args=(log, ZERO, [maker.commit(set_("urn:x", 1, blind=True))]))
    appended.start()
    while not storage.counts.of("busy"):
        time.sleep(0.005)
    assert appended.is_alive()
    admin.execute("ROLLBACK")
    appended.join()
    assert version_of(log) == 1


def test_a_row_that_is_held_too_long_fails_the_append(
    storage: PostgresStorage, admin: psycopg.Connection[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stemmadb.server.storage.postgres.appender.BUSY_SECONDS_MAX", 0.1)
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    admin.execute("BEGIN")
    admin.execute("SELECT * FROM tip FOR UPDATE")
    with pytest.raises(StorageFailed, match="held by somebody else"):
        append_to(log, ZERO, [maker.commit(set_("urn:x", 1, blind=True))])
    admin.execute("ROLLBACK")
    assert version_of(storage.open(SPACE)) == 0


@pytest.mark.rule("STORE-8")
def test_a_space_of_a_live_node_cannot_be_opened_by_another(storage: PostgresStorage, other: PostgresStorage) -> None:
    log = other.open(SPACE, create=True)
    with pytest.raises(OwnedElsewhere) as refused:
        storage.open(SPACE)
    assert refused.value.address == "other:1"
    log.close()
    assert version_of(storage.open(SPACE)) == 0


@pytest.mark.rule("STORE-8")
def test_a_node_whose_space_was_claimed_by_another_writes_nothing(
    storage: PostgresStorage, other: PostgresStorage, admin: psycopg.Connection[tuple[object, ...]]
) -> None:
    """As if its row had ended while it was paused."""
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    first = maker.commit(set_("urn:x", 1, blind=True))
    admin.execute("DELETE FROM node WHERE node = %s", (storage.node.number,))
    taken = other.open(SPACE)
    with pytest.raises(Deposed):
        append_to(log, ZERO, [first])
    with pytest.raises(StorageFailed):
        append_to(log, ZERO, [first])
    append_to(taken, ZERO, [first])
    assert version_of(taken) == 1
    assert (storage.counts.of("deposed"), other.counts.of("deposed")) == (1, 0)
    with pytest.raises(OwnedElsewhere):
        storage.open(SPACE)


def test_a_version_that_came_again_with_another_hash_is_not_appended_to(
    storage: PostgresStorage, admin: psycopg.Connection[tuple[object, ...]]
) -> None:
    """After a promotion with loss the same version and term can be another commit."""
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    append_to(log, ZERO, [maker.commit(set_("urn:x", 1, blind=True))])
    admin.execute("UPDATE tip SET hash = %s", (b"another" * 4,))
    with pytest.raises(StorageFailed, match="another one"):
        append_to(log, Version(1), [maker.commit(set_("urn:x", 2, blind=True))])


@pytest.mark.rule("COMMIT-10", "STORE-9")
def test_a_warning_during_an_append_leaves_its_outcome_unknown_until_the_space_is_claimed_again(
    storage: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    rows = PgConnection.rows

    def warned(self: PgConnection, sql: str, values: object = (), **how: object) -> list[tuple[object, ...]]:
        found = rows(self, sql, values, **how)  # type: ignore[arg-type]
        if "INSERT INTO commit" in sql:
            self.warnings.append("canceling wait for synchronous replication due to user request")
        return found

    first = [maker.commit(set_("urn:x", 1, blind=True))]
    with monkeypatch.context() as patched:
        patched.setattr(PgConnection, "rows", warned)
        with pytest.raises(UnknownOutcome):
            append_to(log, ZERO, first)
    with pytest.raises(StorageFailed):
        append_to(log, ZERO, first)
    assert storage.counts.of("unknown") == 1
    log.close()
    again = storage.open(SPACE)
    assert version_of(again) == 1
    with pytest.raises(LogMoved):
        append_to(again, ZERO, first)


@pytest.mark.rule("COMMIT-10", "STORE-9")
def test_lost_append_waits_in_the_server_and_the_claim_waits_for_it(
    storage: PostgresStorage, admin: psycopg.Connection[tuple[object, ...]], url: str
) -> None:
    """A trigger holds the append, as a standby that is slow would; its client's connection is cut meanwhile."""
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    admin.execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(0.7); RETURN NEW; END $$"
    )
    admin.execute("CREATE TRIGGER slow BEFORE INSERT ON fact FOR EACH ROW EXECUTE FUNCTION wait()")
    try:
        failures: list[BaseException] = []

        def lost() -> None:
            try:
                append_to(log, ZERO, [maker.commit(set_("urn:x", 1, blind=True))])
            except StorageFailed as failure:
                failures.append(failure)

        thread = threading.Thread(target=lost)
        made: list[PgConnection] = []
        original = storage._writers._make

        def make() -> PgConnection:
            made.append(original())
            return made[-1]

        storage._writers._make = make
        while storage._writers._idle:
            storage._writers._idle.pop().close()
        thread.start()
        while not _is_waiting(admin):
            time.sleep(0.01)
        with socket.socket(fileno=os.dup(made[0].raw.pgconn.socket)) as wire:
            wire.shutdown(socket.SHUT_RDWR)  # nobody hears of the end
        log.close()
        again = storage.open(SPACE)  # waits for the row
        thread.join()
        assert failures
        assert version_of(again) == 1
    finally:
        admin.execute("DROP TRIGGER slow ON fact; DROP FUNCTION wait()")


def _is_waiting(admin: psycopg.Connection[tuple[object, ...]]) -> bool:
    return bool(admin.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'").fetchall())


def test_a_connection_that_was_cut_while_it_was_idle_costs_the_reader_nothing(
    storage: PostgresStorage, admin: psycopg.Connection[tuple[object, ...]]
) -> None:
    log = storage.open(SPACE, create=True)
    assert version_of(log) == 0
    admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        "AND datname = current_database()"
    )
    assert version_of(log) == 0
    assert storage.counts.of("reconnects") == 1


def test_names_that_memory_forgot_keep_their_numbers(
    storage: PostgresStorage, admin: psycopg.Connection[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each goes along with the number it would get, and the append says which one it has."""
    monkeypatch.setattr(PostgresStorage, "_room", lambda _: 0)
    monkeypatch.setattr("stemmadb.server.storage.postgres.numbers.SESSIONS_MAX", 0)
    monkeypatch.setattr("stemmadb.server.storage.postgres.numbers.PRINCIPALS_MAX", 0)
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    for version in range(5):
        batch = [maker.commit(set_(f"urn:{n}", version, blind=True)) for n in range(3)]
        append_to(log, Version(batch[0].commit.version - 1), batch)
    ((entities, sessions, principals),) = admin.execute(
        "SELECT (SELECT count(*) FROM entity WHERE space = s.space), (SELECT count(*) FROM session WHERE "
        "space = s.space), (SELECT count(*) FROM principal WHERE space = s.space) FROM space AS s"
    )
    assert (entities, sessions, principals) == (3, 1, 1)
    assert version_of(log) == 15
    with log.reader() as reader:
        assert len(reader.facts_of(EntityId("urn:0"))) == 5


def test_what_a_connection_is_set_to_is_read_back(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.SETTINGS, "lock_timeout", "5 s")
    with pytest.raises(Unavailable, match="lock_timeout"):
        connections.connect(url)


def test_an_entity_that_another_branch_has_keeps_its_number_where_it_is_new(storage: PostgresStorage) -> None:
    """On each branch its first fact follows nothing, so that only the table of names knows it."""
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    for name in ("one", "other"):
        before = maker.version
        append_to(log, before, [maker.create_branch(name)])
    append_to(log, maker.version, [maker.commit(set_("urn:first", 1, blind=True), branch="one")])
    append_to(log, maker.version, [maker.commit(set_("urn:e", 1, blind=True), branch="one")])
    log.close()
    again = storage.open(SPACE)
    for branch in ("main", "other", "main"):
        append_to(again, maker.version, [maker.commit(set_("urn:e", 2, blind=True), branch=branch)])
    with again.reader() as reader:
        assert [fact.branch for fact in reader.facts_of(EntityId("urn:e"))] == ["one", "main", "other", "main"]
        assert [record for record, _ in reader.history()] == maker.commits
