"""Commands that write to a database: as a node without an address, and only what no live node serves."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace

from appends import append_to
from command_line import here
from engines import engine
from kept_spaces import SMALL, blob_of, make
from logs import LogMaker
from node_processes import url_of
from space import ALICE, BOB, SPACE, set_
from stemmadb.client.cli import exits
from stemmadb.protocol.errors import NotEmpty, Unavailable
from stemmadb.protocol.model.values.ids import EMPTY_SPACE
from stemmadb.server.maintenance.export import export
from stemmadb.server.maintenance.import_batches import import_into
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres import PostgresStorage, schema
from stemmadb.server.storage.sqlite import SqliteStorage

NODE = "10.0.0.1:8420"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A space with one of everything but a large blob, for which a database needs a directory."""
    storage = SqliteStorage(tmp_path / "data")
    log = storage.open(SPACE, create=True)
    append_to(log, EMPTY_SPACE, make()[1])
    log.put_blob(blob_of(SMALL), SMALL)
    storage.close()
    return tmp_path / "data"


@pytest.fixture
def stream(data: Path) -> bytes:
    into, storage = io.BytesIO(), SqliteStorage(data, read_only=True)
    export(storage.open(SPACE), into.write)
    storage.close()
    return into.getvalue()


@pytest.fixture
async def owned(url: str) -> str:
    """A space that BOB owns, served by nobody."""
    storage = PostgresStorage(url)
    async with engine(storage, access={ALICE: "write", BOB: "own"}) as it:
        for number in range(5):
            await it.must(set_("urn:x", {"secret": f"number {number}"}, blind=True))
    storage.close()
    return url_of(url)


@pytest.fixture
def served(owned: str) -> Iterator[str]:
    """The same, served by a node."""
    storage = PostgresStorage(owned, address=NODE)
    storage.open(SPACE)
    yield owned
    storage.close()


def ask(url: str, sql: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(sql).fetchall()


def hidden(url: str) -> int:
    return len(ask(url, "SELECT FROM stemmadb.space WHERE did LIKE 'incoming/%'"))


@pytest.mark.rule("KEEP-3")
def test_a_space_moves_to_a_database_and_back_with_the_same_hashes(url: str, data: Path, tmp_path: Path) -> None:
    one, two, three = (tmp_path / f"{number}.jsonl" for number in range(3))
    assert here("export", one, "--data", data).code == 0
    there = here("import", one, "--storage", url_of(url), "--json")
    assert there.code == 0, there.err
    assert here("export", two, "--storage", url_of(url)).code == 0
    assert two.read_bytes() == one.read_bytes()
    back = here("import", two, "--data", tmp_path / "back", "--json")
    assert here("export", three, "--data", tmp_path / "back").code == 0
    assert three.read_bytes() == one.read_bytes()
    assert back.json["spaces"] == there.json["spaces"]
    listed = here("space", "list", "--storage", url_of(url), "--json").json["spaces"]
    assert [(space["space"], space["hash"]) for space in listed] == [(SPACE, there.json["spaces"][0]["hash"])]
    again = here("import", one, "--storage", url_of(url), "--json")
    assert (again.code, again.error) == (exits.REFUSED, "not_empty")
    assert ask(url, "SELECT count(*) FROM stemmadb.tip AS t JOIN stemmadb.node AS n ON n.node = t.owner") == [(0,)]


@pytest.mark.rule("KEEP-3")
def test_an_import_that_is_not_right_leaves_nothing_in_the_database(url: str, stream: bytes, tmp_path: Path) -> None:
    before = ask(url, "SELECT count(*) FROM stemmadb.commit")
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(stream[: stream.rindex(b"\n", 0, -1) + 1])
    refused = here("import", cut, "--storage", url_of(url), "--json")
    assert refused.error == "bad_stream"
    assert "before its 'end' line" in refused.json["error"]["message"]
    assert ask(url, "SELECT did FROM stemmadb.space") == []
    assert ask(url, "SELECT count(*) FROM stemmadb.commit") == before


@pytest.mark.rule("KEEP-3")
def test_an_import_that_lost_its_connection_shows_nothing_and_the_next_one_removes_what_it_left(
    url: str, stream: bytes
) -> None:
    storage = PostgresStorage(url)
    with suppress(StorageFailed), storage.incoming() as place:
        log = place.open(SPACE)
        append_to(log, EMPTY_SPACE, [LogMaker().commit(set_("urn:x", 1, blind=True))])
        log.close()
        assert storage.spaces() == []
        ask(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        )
        place.publish()
        raise AssertionError("it was shown")
    assert hidden(url) == 1
    with storage.incoming() as place:
        assert hidden(url) == 0
        with pytest.raises(Unavailable, match="Another command"), storage.incoming():
            pass
        assert [done.version for done in import_into(place, io.BytesIO(stream))] == [23]
    assert storage.spaces() == [SPACE]
    storage.close()


@pytest.mark.rule("KEEP-3")
def test_a_space_that_others_made_meanwhile_stays_as_it_is(url: str, stream: bytes) -> None:
    storage = PostgresStorage(url)
    with storage.incoming() as place:
        place.open(SPACE).close()
        storage.open(SPACE, create=True).close()
        with pytest.raises(NotEmpty):
            place.publish()
    assert hidden(url) == 0
    with storage.open(SPACE).reader() as reader:
        assert reader.tip().version == 0
    storage.close()


def test_every_table_with_the_number_of_a_space_is_known(url: str) -> None:
    """What was brought in and is not shown goes from all of them."""
    found = ask(
        url,
        "SELECT c.relname::text FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid "
        "WHERE a.attname = 'space' AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
        "AND c.relnamespace = 'stemmadb'::regnamespace",
    )
    assert {name for (name,) in found} == set(schema.TABLES_OF_SPACES)


@pytest.mark.rule("COMPACT-1", "ERASE-1")
def test_compact_and_erase_say_that_files_of_the_database_owe_a_scrub(owned: str) -> None:
    words = ("--storage", owned, "--space", SPACE)
    would = here("compact", *words, "--floor", 4, "--dry-run", "--json").json
    assert (would["bodies"], would["owes_scrub"]) == (2, False)
    done = here("compact", *words, "--floor", 4, "--yes", "--json")
    assert (done.code, done.json["bodies"], done.json["owes_scrub"]) == (0, 2, True)
    erased = here("erase", "urn:x", "--version", 6, "--survivor", "main={}", *words, "--yes")
    assert erased.code == 0, erased.err
    assert "stemmadb scrub --rewrite" in erased.out
    assert here("verify", "--storage", owned).code == 0
    assert here("scrub", "--rewrite", "--storage", owned, "--json").json["owing"] == []


@pytest.mark.rule("COMMIT-7")
def test_a_commit_of_a_command_has_the_time_of_the_database(owned: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 4_000_000_000_000_000_000)  # this machine is in the year 2096
    words = ("--storage", owned, "--space", SPACE)
    assert here("erase", "urn:x", "--version", 5, *words, "--yes").code == 0
    ((then, now),) = ask(
        owned,
        "SELECT max(t.time), (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM stemmadb.tip AS t "
        "JOIN stemmadb.space AS s ON s.space = t.space",
    )
    assert now - 600_000 < then <= now  # type: ignore[operator]


@pytest.mark.rule("COMPACT-1", "BLOB-2")
def test_a_compaction_judges_ages_by_the_time_of_the_database(owned: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = PostgresStorage(owned)
    log = storage.open(SPACE)
    log.put_blob(replace(blob_of(SMALL), created=storage.clock()()), SMALL)  # nothing refers to it yet
    log.close()
    storage.close()
    monkeypatch.setattr("time.time_ns", lambda: 4_000_000_000_000_000_000)  # this machine is in the year 2096
    erased = here("erase", "urn:x", "--version", 5, "--storage", owned, "--space", SPACE, "--yes", "--json").json
    words = ("compact", "--storage", owned, "--space", SPACE, "--json")
    assert here(*words, "--older-than", "30d", "--dry-run").json["floor"] == erased["version"] - 1
    assert here(*words, "--floor", 4, "--dry-run").json["blobs"] == 0
    assert here(*words, "--floor", 4, "--yes").json["blobs"] == 0


WRITES = {
    "compact": ("compact", "--space", SPACE, "--floor", 5, "--yes"),
    "erase": ("erase", "urn:x", "--version", 6, "--space", SPACE, "--yes"),
    "space reindex": ("space", "reindex"),
}


@pytest.mark.rule("STORE-8")
@pytest.mark.parametrize("command", WRITES)
def test_a_space_that_a_node_serves_is_left_to_it(served: str, command: str) -> None:
    refused = here(*WRITES[command], "--storage", served)
    assert refused.code == exits.UNREACHABLE
    told = (refused.err or refused.out).splitlines()
    assert NODE in told[0]
    assert here("space", "list", "--storage", served, "--json").json["spaces"][0]["version"] == 6


@pytest.mark.rule("STORE-8")
def test_a_command_leaves_a_space_to_another_command(owned: str) -> None:
    other = PostgresStorage(owned)
    other.open(SPACE)
    refused = here(*WRITES["compact"], "--storage", owned)
    other.close()
    assert refused.code == exits.UNREACHABLE
    (line,) = refused.err.splitlines()
    assert "Another command" in line


def test_the_list_of_spaces_is_made_anew_from_the_access_lists(owned: str) -> None:
    ask(owned, "DELETE FROM stemmadb.member RETURNING 1")
    done = here("space", "reindex", "--storage", owned, "--json")
    assert (done.code, done.json["spaces"]) == (0, 1)
    storage = PostgresStorage(owned, read_only=True)
    assert storage.spaces_of(BOB) == [{"space": SPACE, "role": "own"}]
    storage.close()
