"""Names that a node knows by heart: a new entity costs no read, and names are looked up by an index."""

from __future__ import annotations

import time

import psycopg
import pytest

from appends import append_to
from engines import engine
from logs import LogMaker
from space import SPACE, patch_, set_
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.server.storage.port import SpaceLog
from stemmadb.server.storage.postgres import PostgresStorage, numbers
from stemmadb.server.storage.postgres.read_view import PostgresView
from verdicts import code, replace

NEW = EntityId("urn:new")


def append_new(log: SpaceLog, maker: LogMaker, ids: list[str]) -> None:
    for id_ in ids:
        append_to(log, Version(maker.version), [maker.commit(set_(id_, 1, blind=True))])


def test_what_was_never_written_is_known_to_be_new_and_nothing_that_was(storage: PostgresStorage) -> None:
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    assert log.is_unwritten(NEW)
    append_new(log, maker, ["urn:a", "urn:b"])
    for opened in (log, reopened(storage, log)):
        assert opened.is_unwritten(NEW)
        assert not any(opened.is_unwritten(EntityId(id_)) for id_ in ("urn:a", "urn:b"))


def reopened(storage: PostgresStorage, log: SpaceLog) -> SpaceLog:
    log.close()
    return storage.open(SPACE)


def test_a_space_with_more_names_than_memory_has_room_for_knows_of_none_that_it_is_new(
    storage: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    append_new(log, maker, [f"urn:{number}" for number in range(4)])
    monkeypatch.setattr(numbers, "ENTITIES_READ_MAX", 4)
    log = reopened(storage, log)
    assert log.is_unwritten(NEW)
    monkeypatch.setattr(numbers, "ENTITIES_READ_MAX", 3)
    assert not reopened(storage, log).is_unwritten(NEW)


def test_a_name_that_had_to_leave_memory_is_not_taken_for_new(
    storage: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stemmadb.server.storage.postgres.storage.ENTITIES_MAX", 2)
    monkeypatch.setattr("stemmadb.server.storage.postgres.storage.ENTITIES_MIN", 2)
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    append_new(log, maker, ["urn:a", "urn:b"])
    assert log.is_unwritten(NEW)
    append_new(log, maker, ["urn:c"])
    assert not log.is_unwritten(EntityId("urn:a"))


@pytest.mark.rule("COMMIT-1", "COMMIT-2")
async def test_a_commit_that_makes_an_entity_opens_no_read_view(
    storage: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    begin = PostgresView.__init__

    def counted(view: PostgresView, *given: object) -> None:
        opened.append(view)
        begin(view, *given)  # type: ignore[arg-type]

    async with engine(storage) as it:
        await it.must(set_("urn:first", 1, blind=True))
        monkeypatch.setattr(PostgresView, "__init__", counted)
        for number in range(5):
            await it.must(set_(f"urn:{number}", {"a": 1}, blind=True))
        never = it.propose(patch_("urn:never", replace("/a", 2), blind=True))
        assert code(await it.space.decide(never)) == "not_found"
        assert opened == []


def test_an_append_reads_no_table_as_a_whole(storage: PostgresStorage, url: str) -> None:
    """Tables are small here, and PostgreSQL would read them whole, with a plan that it keeps when they are large."""
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_reset()")
        for page in range(12):
            new = [set_(f"urn:{page}:{number}", 1, blind=True) for number in range(40)]
            append_to(log, Version(maker.version), [maker.commit(*new)])
        storage.close()  # what its connections counted is there once they have ended
        asked = "SELECT relname, seq_scan, idx_scan FROM pg_stat_user_tables WHERE schemaname = 'stemmadb'"
        while True:
            found = {name: (whole, by_index) for name, whole, by_index in connection.execute(asked)}
            whole, by_index = found["entity"]
            if (whole or 0) + (by_index or 0) >= 12:
                break
            time.sleep(0.05)
    assert {name for name, (scans, _) in found.items() if scans} <= {"meta", "node"}
