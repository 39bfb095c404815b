"""Commands on a database, and what a node or a command says of one that it cannot use."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest

import postgres_server
from appends import append_to
from database_commands import fill, run
from logs import LogMaker
from node_processes import url_of
from space import ALICE, SPACE, set_
from stemmadb.client.cli import exits
from stemmadb.protocol.model.log import commit_record
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres import PostgresStorage

SECRET = "hunter2"  # noqa: S105  # of no real database


@pytest.fixture
def own() -> Iterator[str]:
    """A database that the test may spoil."""
    with postgres_server.own_database() as made:
        yield made


@pytest.fixture
def empty() -> Iterator[str]:
    with postgres_server.own_database(is_empty=True) as made:
        yield made


@pytest.mark.rule("KEEP-1", "KEEP-3")
def test_a_database_is_verified_shown_and_exported(own: str, tmp_path: Path) -> None:
    fill(own)
    verified = run("verify", "--storage", url_of(own), "--json")
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout.splitlines()[-1])["spaces"][0]["version"] == 3
    status = run("status", "--storage", url_of(own), "--json")
    told = json.loads(status.stdout.splitlines()[-1])
    assert (told["nodes"], told["has_standby"], told["spaces"][0]["owner"]) == ([], False, None)
    exported = run("export", str(tmp_path / "out.jsonl"), "--storage", url_of(own), "--json")
    assert json.loads(exported.stdout.splitlines()[-1])["spaces"][0]["facts"] == 3
    imported = run("import", str(tmp_path / "out.jsonl"), "--data", str(tmp_path / "data"), "--json")
    assert imported.returncode == 0, imported.stderr
    first, second = (json.loads(one.stdout.splitlines()[-1])["spaces"][0]["hash"] for one in (verified, imported))
    assert first == second


@pytest.mark.rule("KEEP-1")
def test_a_tip_that_disagrees_with_its_last_commit_is_found_by_verify(own: str) -> None:
    fill(own)
    with psycopg.connect(own, autocommit=True) as connection:
        connection.execute("UPDATE stemmadb.tip SET hash = decode(repeat('ab', 32), 'hex')")
    found = run("verify", "--storage", url_of(own))
    assert found.returncode == 1
    assert "Traceback" not in found.stderr


def spoil(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


BAD: dict[str, tuple[Callable[[str], str], list[str], str]] = {
    "no such host": (lambda _: "postgresql://stemmadb@127.0.0.1:1/db", [], "cannot be reached"),
    "a password in the address": (lambda _: f"postgresql://u:{SECRET}@127.0.0.1/db", [], "PGPASSFILE"),
    "no address": (lambda _: SECRET, [], "postgresql://user@host/database"),
    "a newer schema": (url_of, ["UPDATE stemmadb.meta SET value = '99' WHERE key = 'schema'"], "newer"),
    "another application's": (url_of, ["DELETE FROM stemmadb.meta"], "another application"),
    "commits that are not durable": (
        url_of,
        ["DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$"],
        "synchronous_commit",
    ),
    "another server's": (
        url_of,
        ["INSERT INTO stemmadb.meta VALUES ('server', 'did:key:z6Mkx')"],
        "--server-key",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_database_that_cannot_be_used_is_named_in_one_line(own: str, tmp_path: Path, what: str) -> None:
    address, statements, says = BAD[what]
    spoil(own, *statements)
    ran = run("serve", "--storage", address(own), "--data", str(tmp_path), "--port", "0")
    is_wrong_use = what in ("a password in the address", "no address")
    assert ran.returncode == (exits.WRONG_USE if is_wrong_use else exits.UNREACHABLE), ran.stderr
    (line,) = ran.stderr.splitlines()
    assert says in line
    assert SECRET not in ran.stdout + ran.stderr


def test_a_server_with_workers_is_no_node(own: str, tmp_path: Path) -> None:
    ran = run("serve", "--storage", url_of(own), "--workers", "2", "--data", str(tmp_path), "--port", "0")
    assert ran.returncode == exits.UNREACHABLE
    assert "several nodes" in ran.stderr


def test_a_role_that_hides_warnings_is_overridden(own: str) -> None:
    spoil(
        own,
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET client_min_messages = error', current_database()); END $$",
    )
    fill(own)


@pytest.mark.rule("STORE-8")
def test_an_empty_database_gets_its_tables_from_the_first_node(empty: str) -> None:
    fill(empty)
    assert run("verify", "--storage", url_of(empty)).returncode == 0


@pytest.mark.rule("STORE-8")
def test_a_space_whose_end_disagrees_with_its_last_commit_is_not_opened_and_others_are(own: str) -> None:
    fill(own)
    storage = PostgresStorage(own)
    storage.open(ALICE, create=True).close()
    spoil(own, "UPDATE stemmadb.tip SET hash = decode(repeat('ab', 32), 'hex') WHERE version = 3")
    with pytest.raises(StorageFailed, match="disagrees with its last commit"):
        storage.open(SPACE)
    log = storage.open(ALICE)
    made = LogMaker().commit(set_("urn:x", 1, blind=True))
    commit = msgspec.structs.replace(made.commit, previous=commit_record.genesis(ALICE))
    append_to(log, Version(0), [msgspec.structs.replace(made, commit=commit)])
    log.close()
    spoil(own, "UPDATE stemmadb.tip SET version = 0 WHERE version = 1")
    with pytest.raises(StorageFailed, match="disagrees with its last commit"):
        storage.open(ALICE)
    storage.close()


def takes(url: str) -> bool:
    """Whether it can be connected to."""
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def test_a_wrong_password_and_a_standby_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", SECRET)
    with postgres_server.own_server() as primary, primary.standby() as standby:
        with psycopg.connect(primary.url, autocommit=True) as connection:
            connection.execute("CREATE ROLE locked LOGIN PASSWORD 'another'")
            rules = "('local all all trust'), ('host all locked all scram-sha-256'), ('host all all all trust')"
            ((file,),) = connection.execute("SHOW hba_file").fetchall()
            connection.execute(f"COPY (VALUES {rules}) TO '{file}'")
            connection.execute("SELECT pg_reload_conf()")
        locked = primary.url.replace("stemmadb@", "locked@")
        while takes(locked):  # until the rules are read
            time.sleep(0.01)
        for address, says in ((locked, "password authentication failed"), (standby.url, "read-only")):
            ran = run("serve", "--storage", address, "--data", str(tmp_path), "--port", "0")
            assert ran.returncode == exits.UNREACHABLE, ran.stderr
            (line,) = ran.stderr.splitlines()
            assert says in line
            assert SECRET not in ran.stdout + ran.stderr
