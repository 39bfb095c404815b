"""`stemmadb scrub`: what an erasure destroyed leaves the files of the tables, and not before nobody can read it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

import postgres_server
from appends import append_to
from database_commands import SECONDS, run
from logs import LogMaker
from node_processes import NodeProcess, url_of
from space import SPACE, set_
from stemmadb.client import connect
from stemmadb.client.cli import exits
from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.storage.postgres import PostgresStorage, scrub
from stemmadb.server.storage.postgres.connection import connect as connect_to

SECRET = "a-value-that-is-in-no-other-place"  # noqa: S105  # of no real person
FILES = """
SELECT c.relname FROM pg_class AS c
WHERE (c.relnamespace = 'stemmadb'::regnamespace OR c.relnamespace = 'pg_toast'::regnamespace)
AND c.relkind IN ('r', 't', 'i') AND pg_relation_filepath(c.oid) IS NOT NULL
AND position(%s::bytea IN pg_read_binary_file(pg_relation_filepath(c.oid))) > 0 ORDER BY 1
"""


@pytest.fixture
def erased() -> Iterator[str]:
    """A database in which one value was erased and others were not."""
    with postgres_server.own_database() as url:
        with erasing(url):
            """Nothing is read meanwhile."""
        yield url


@contextmanager
def erasing(url: str) -> Iterator[None]:
    """The value is there in the block, and erased after it."""
    storage = PostgresStorage(url)
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    values = [SECRET, *range(3)]
    append_to(log, Version(0), [maker.commit(set_("urn:x", value, blind=True)) for value in values])
    yield
    append_to(log, Version(len(values)), [maker.erase("urn:x", [1])])
    storage.close()


def holding(url: str) -> list[str]:
    """The tables whose files have the secret."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        return [name for (name,) in connection.execute(FILES, (SECRET.encode(),))]


def owing(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT owes_scrub FROM stemmadb.tip").fetchall() == [(True,)]


@pytest.mark.rule("ERASE-1")
def test_a_rewrite_removes_the_bytes_and_nothing_else(erased: str) -> None:
    assert holding(erased)  # the rows have them no more, the files do
    first = run("scrub", "--storage", url_of(erased))
    assert first.returncode == 0
    assert "--rewrite" in first.stdout
    assert owing(erased)
    done = run("scrub", "--rewrite", "--storage", url_of(erased), "--json")
    assert json.loads(done.stdout.splitlines()[-1])["spaces"] == [SPACE]
    assert holding(erased) == []
    assert not owing(erased)
    assert json.loads(run("scrub", "--rewrite", "--storage", url_of(erased), "--json").stdout)["tables"] == []
    assert run("verify", "--storage", url_of(erased)).returncode == 0


@pytest.mark.rule("ERASE-1")
def test_while_an_older_state_is_read_nothing_is_claimed_to_be_gone() -> None:
    with postgres_server.own_database() as url:
        connection = connect_to(url)
        with psycopg.connect(url) as reader:
            with erasing(url):
                reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                reader.execute("SELECT 1")  # of no table of ours
            with pytest.raises(Unavailable, match="older read"):
                scrub.scrub(connection, rewrite=True, wait_seconds=0)
        assert owing(url)
        assert scrub.scrub(connection, rewrite=True, wait_seconds=30).paid == [SPACE]
        assert holding(url) == []
        connection.close()


def test_a_database_of_nobody_is_named() -> None:
    ran = run("scrub", "--storage", "postgresql://stemmadb@127.0.0.1:1/db")
    assert ran.returncode == exits.UNREACHABLE
    assert "cannot be reached" in ran.stderr


async def test_an_erasure_at_a_node_says_that_a_scrub_is_owed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEMMADB_HOME", str(tmp_path / "home"))
    assert (await asyncio.to_thread(run, "keys", "new", "me")).returncode == 0
    node = NodeProcess(url_of(url), tmp_path / "data")
    words = ("--url", node.url, "--space", "mine", "--identity", "me", "--yes")
    try:
        async with asyncio.timeout(SECONDS), connect(node.url, identity="me") as database:
            space = await database.space("mine")
            versions = []
            for number in range(3):
                async with space.transaction() as tx:
                    tx.set("urn:x", number, blind=True)
                versions.append(await tx.confirmed())
            done = await space.erase("urn:x", versions[:1])
            assert (done.erased, done.owes_scrub) == (1, True)
            erased = await asyncio.to_thread(run, "erase", "urn:x", "--version", str(versions[1]), *words)
            assert "stemmadb scrub --rewrite" in erased.stdout, erased.stderr
            compacted = await asyncio.to_thread(run, "compact", "--floor", str(versions[2]), *words)
            assert (compacted.returncode, "stemmadb scrub --rewrite" in compacted.stdout) == (0, True), (
                compacted.stderr
            )
    finally:
        node.close()
