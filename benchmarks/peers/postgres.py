"""PostgreSQL as a peer: one statement compares the version, sets the row and keeps the history."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.peers import process
from benchmarks.peers.postgres_wire import USER, PostgresWire, int8
from benchmarks.peers.wire import nothing, past_values

NAME, DURABLE = "postgres", True
PACKAGE = "postgresql"
CONNECTIONS = 400
_SYSTEM_USER = "postgres"
_PAGE = 500
_TABLES = """
    CREATE TABLE IF NOT EXISTS doc (key text PRIMARY KEY, version bigint NOT NULL, value bytea NOT NULL);
    CREATE TABLE IF NOT EXISTS history (key text, version bigint, value bytea NOT NULL, PRIMARY KEY (key, version));
"""
_MAKE = """
    WITH made AS (INSERT INTO doc VALUES ($1, 1, $2) RETURNING key, version, value)
    INSERT INTO history SELECT * FROM made
"""
_UPDATE = (
    "UPDATE doc SET version = version + 1, value = $2 WHERE key = $1 AND version = $3 RETURNING key, version, value"
)
_SET = f"WITH up AS ({_UPDATE}) INSERT INTO history SELECT * FROM up RETURNING version"  # noqa: S608
_SET_AND_NOTIFY = f"""
    WITH up AS ({_UPDATE}), kept AS (INSERT INTO history SELECT * FROM up RETURNING key, version, value)
    SELECT version, pg_notify(key, encode(value, 'base64')) FROM kept
"""  # noqa: S608
_ADD_PAST = "INSERT INTO history VALUES ($1, $2, $3)"
_READ_PAST = "SELECT value FROM history WHERE key = $1 AND version = $2"


class Postgres:
    """One cluster."""

    name, durable = NAME, DURABLE

    def __init__(self, pid: int, port: int, version: str) -> None:
        self.pids, self.port, self.version = (pid,), port, version
        self._pasts: dict[str, list[bytes]] = {}

    def writer(self, key: str, value: bytes) -> Writer:
        return Writer(self.port, key, value, _SET)

    def watched_writer(self, key: str, value: bytes) -> Writer:
        """It also notifies, in the same statement."""
        return Writer(self.port, key, value, _SET_AND_NOTIFY)

    def watcher(self, key: str) -> Watcher:
        return Watcher(self.port, key)

    def past_reader(self, key: str, facts: int, chance: random.Random) -> PastReader:
        if key not in self._pasts:
            self._pasts[key] = _write_past(self.port, key, facts)
        return PastReader(self.port, key, self._pasts[key], chance)


def is_installed() -> bool:
    return _programs() is not None


def install() -> None:
    process.install_debian(PACKAGE)


def _programs() -> Path | None:
    """Debian keeps every major version apart; the newest is taken."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    if not found:
        program = process.find("postgres")
        return Path(program).parent if program else None
    return max(found, key=lambda path: float(path.parent.name))


@contextmanager
def served(directory: Path) -> Iterator[Postgres]:
    """As it comes, with room for many connections: every commit is synced before it is answered."""
    programs = _programs()
    if programs is None:
        raise process.NotInstalled(process.by_hand(PACKAGE))
    user, data, port = _user(), directory / "postgres", process.free_port()
    _initialise(programs, data, user)
    settings = {
        "listen_addresses": process.HOST,
        "port": str(port),
        "unix_socket_directories": "",
        "max_connections": str(CONNECTIONS),
        "fsync": "on",
        "synchronous_commit": "on",
    }
    flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    command = [str(programs / "postgres"), "-D", str(data), *flags]
    # Asked to terminate it waits for its clients; interrupted it does not.
    with process.running(
        command, partial(_make_tables, port), directory=directory, user=user, stop=signal.SIGINT
    ) as server:
        yield Postgres(server.pid, port, process.version_of(command[0]))


def _user() -> str | None:
    """It refuses to run as root."""
    return _SYSTEM_USER if os.geteuid() == 0 else None


def _initialise(programs: Path, data: Path, user: str | None) -> None:
    data.mkdir(mode=0o700)
    if user is not None:
        data.parent.chmod(data.parent.stat().st_mode | 0o011)
        shutil.chown(data, user, user)
    flags = ["--auth=trust", f"--username={USER}", "--encoding=UTF8", "--no-locale", "--no-sync"]
    command = [str(programs / "initdb"), "-D", str(data), *flags]
    process.quietly(command, cwd=data, user=user)


def _make_tables(port: int) -> None:
    link = PostgresWire(port)
    link.query(_TABLES)
    link.close()
    Writer(port, "ready", b"yes", _SET).link.close()


class Writer:
    """Sets one row if its version is the one it wrote last."""

    def __init__(self, port: int, key: str, value: bytes, statement: str) -> None:
        self.link = PostgresWire(port)
        self.answered: Callable[[], None] = nothing
        self._key, self._value, self._version = key.encode(), value, 1
        self.link.prepare(_MAKE)
        self.link.execute_all([(self._key, value)])
        self.link.prepare(statement)
        self.link.took = self._took
        self.link.ready()

    def send(self) -> None:
        self.link.execute(self._key, self._value, int8(self._version))

    def _took(self, version: bytes | None) -> None:
        self._version += 1
        assert version == int8(self._version), "the row has another version"
        self.answered()


class Watcher:
    """Listens on the channel that is named as the key."""

    def __init__(self, port: int, key: str) -> None:
        self.link = PostgresWire(port)
        self.event: Callable[[], None] = nothing
        self.link.query(f'LISTEN "{key}"')
        self.link.notified = self._notified
        self.link.ready()

    def _notified(self) -> None:
        self.event()


class PastReader:
    """Reads one row of the history by its primary key."""

    def __init__(self, port: int, key: str, past: Sequence[bytes], chance: random.Random) -> None:
        self.link = PostgresWire(port)
        self.answered: Callable[[], None] = nothing
        self._key, self._past, self._chance, self._wanted = key.encode(), past, chance, b""
        self.link.prepare(_READ_PAST)
        self.link.took = self._took
        self.link.ready()

    def send(self) -> None:
        place = self._chance.randrange(len(self._past))
        self._wanted = self._past[place]
        self.link.execute(self._key, int8(place + 1))

    def _took(self, value: bytes | None) -> None:
        assert value == self._wanted, "another value than was written there"
        self.answered()


def _write_past(port: int, key: str, facts: int) -> list[bytes]:
    link, past = PostgresWire(port), past_values(facts)
    link.prepare(_ADD_PAST)
    rows = [(key.encode(), int8(number), value) for number, value in enumerate(past, start=1)]
    for start in range(0, facts, _PAGE):
        link.execute_all(rows[start : start + _PAGE])
    link.close()
    return past
