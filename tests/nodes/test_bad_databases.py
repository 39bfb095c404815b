"""What an operator is told of a database that cannot be used: one line, exit code 3, and no password in it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from websockets.asyncio.client import connect as dial

import postgres_server
from command_line import here
from node_processes import url_of
from served import config_of, served
from stemmadb.client import Identity, connect
from stemmadb.client.cli import exits
from stemmadb.protocol import identity as identities
from stemmadb.protocol.wire.version import JSON
from stemmadb.server.storage.blob_directory import MARKER
from stemmadb.server.storage.postgres import connection as connections

SECRET = "hunter2"  # noqa: S105  # of no real database


@pytest.fixture
def own() -> Iterator[str]:
    """A database that the test may spoil."""
    with postgres_server.own_database() as made:
        yield made


def change(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def role(own: str) -> Iterator[str]:
    """A role of the database that is not its owner."""
    name = f"stemmadb_role_{os.getpid()}"
    change(own, f"CREATE ROLE {name} LOGIN")
    yield name
    change(own, f"DROP ROLE {name}")


@pytest.fixture
def mounted(own: str, tmp_path: Path) -> Path:
    """An empty directory, where the nodes of the database have shared one."""
    change(own, "INSERT INTO stemmadb.meta VALUES ('blobs', 'shared before')")
    (tmp_path / "mounted").mkdir()
    return tmp_path / "mounted"


def refusal(*words: object) -> str:
    """The one line that a command ends with."""
    ran = here(*words)
    assert ran.code == exits.UNREACHABLE, (ran.out, ran.err)
    assert ran.out == ""
    (line,) = ran.err.splitlines()
    assert SECRET not in line
    return line


def serving(data: Path, url: str, *more: object) -> tuple[object, ...]:
    return ("serve", "--storage", url, "--data", data, "--port", 0, *more)


def test_a_host_that_there_is_not_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", SECRET)
    assert "no-such-host.invalid" in refusal(*serving(tmp_path, "postgresql://u@no-such-host.invalid/db"))


def test_a_database_that_there_is_not_is_named(own: str, tmp_path: Path) -> None:
    url = url_of(own).replace("stemmadb_own", "stemmadb_none")
    assert "does not exist" in refusal(*serving(tmp_path, url))


def test_a_role_that_may_not_use_the_tables_is_told(own: str, role: str, tmp_path: Path) -> None:
    assert "permission denied" in refusal(*serving(tmp_path, url_of(own).replace("stemmadb@", f"{role}@")))


def test_a_role_whose_commits_are_not_durable_is_refused(own: str, role: str, tmp_path: Path) -> None:
    change(own, f"ALTER ROLE {role} SET synchronous_commit = off")
    line = refusal(*serving(tmp_path, url_of(own).replace("stemmadb@", f"{role}@")))
    assert "synchronous_commit = off" in line


def test_a_server_that_is_too_old_is_named(own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As PostgreSQL 14 is: here every server is older than what is asked for."""
    monkeypatch.setattr(connections, "LEAST_VERSION", 1_000_000)
    assert "is too old" in refusal(*serving(tmp_path, url_of(own)))


def test_a_directory_of_blobs_that_is_not_the_shared_one_is_refused(own: str, mounted: Path, tmp_path: Path) -> None:
    url = url_of(own)
    assert "Is it mounted?" in refusal(*serving(tmp_path / "data", url, "--blobs", mounted))
    (mounted / MARKER).write_text("another one\n")
    assert "Is it mounted?" in refusal(*serving(tmp_path / "data", url, "--blobs", mounted))
    assert "There is no directory" in refusal(*serving(tmp_path / "data", url, "--blobs", tmp_path / "none"))
    assert "--blobs" in refusal(*serving(tmp_path / "data", url))
    assert here("status", "--storage", url).code == 0


# ------------------------------------------------------------ the same for commands

BAD: dict[str, tuple[Callable[[str], str], str, str]] = {
    "no host": (lambda _: "postgresql://u@127.0.0.1:1/db", "SELECT 1", "cannot be reached"),
    "newer": (url_of, "UPDATE stemmadb.meta SET value = '99' WHERE key = 'schema'", "newer"),
    "older": (url_of, "UPDATE stemmadb.meta SET value = '1' WHERE key = 'schema'", "stemmadb migrate"),
    "another application's": (url_of, "DELETE FROM stemmadb.meta", "another application"),
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "status": ("status",),
    "import": ("import", "-"),
    "backup": ("backup", "{data}/backup"),
    "compact": (
        "compact",
        "--floor",
        "1",
        "--yes",
        "--space",
        "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",
    ),
    "reindex": ("space", "reindex"),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_say_what_is_wrong_with_a_database(own: str, tmp_path: Path, command: str, what: str) -> None:
    address, statement, says = BAD[what]
    change(own, statement)
    words = [word.format(data=tmp_path) for word in COMMANDS[command]]
    assert says in refusal(*words, "--storage", address(own))


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_take_no_password_in_an_address(tmp_path: Path, command: str) -> None:
    words = [word.format(data=tmp_path) for word in COMMANDS[command]]
    ran = here(*words, "--storage", f"postgresql://u:{SECRET}@127.0.0.1/db")
    assert ran.code == exits.WRONG_USE
    assert "PGPASSFILE" in ran.err
    assert SECRET not in ran.out + ran.err


# ------------------------------------------------------------ a row that disagrees


def spoil_end(url: str, did: str) -> None:
    sql = "UPDATE stemmadb.tip SET hash = %s WHERE space = (SELECT space FROM stemmadb.space WHERE did = %s)"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql, (b"x" * 32, did))


async def greeting_of(address: str, did: str, who: Identity) -> str:
    """The code of what a session of the space is answered with."""
    async with dial(f"{address}/v1/spaces/{did}", subprotocols=[JSON]) as socket:  # type: ignore[list-item]
        hello, session = json.loads(await socket.recv()), os.urandom(16)
        payload = identities.session_open_payload(
            server=hello["server"],
            challenge=base64.b64decode(hello["challenge"]),
            space=did,
            principal=who.did,
            session=session,
        )
        opening = {
            "type": "session.open",
            "principal": who.did,
            "session": base64.b64encode(session).decode(),
            "signature": base64.b64encode(who.sign(payload)).decode(),
        }
        await socket.send(json.dumps(opening))
        return str(json.loads(await socket.recv()).get("code"))


@pytest.mark.rule("STORE-8", "KEEP-1")
async def test_a_space_whose_row_disagrees_is_unavailable_and_others_are_served(own: str, tmp_path: Path) -> None:
    who = Identity.from_seed(bytes(range(32)))
    config = config_of(tmp_path / "data", storage=url_of(own))
    dids: list[str] = []
    async with asyncio.timeout(60):
        async with (
            served(config) as address,
            connect(address, identity=who, config=tmp_path / "config") as database,
        ):
            for name in ("spoilt", "sound"):
                space = await database.space(name)
                async with space.transaction() as tx:
                    tx.set("urn:x", name)
                await tx.confirmed()
                dids.append(space.did)
        spoil_end(own, dids[0])
        async with (
            served(config) as address,
            connect(address, identity=who, config=tmp_path / "config") as database,
        ):
            assert await greeting_of(address, dids[0], who) == "unavailable"
            space = await database.space("sound")
            async with space.transaction() as tx:
                tx.set("urn:x", "again")
            await tx.confirmed()
    verified = await asyncio.to_thread(here, "verify", "--storage", url_of(own), "--json")
    assert verified.code == exits.NO
    broken = [one["space"] for one in verified.json["spaces"] if "error" in one]
    assert broken == [dids[0]]
