"""PostgreSQL for tests: where it comes from, and one server for all pytest workers.

In this order: `STEMMADB_TEST_PG`, a URL of a server whose role may make databases; the wheel of requirements/dev.txt;
what the distribution installed. A server that we start keeps its data in memory if it can, does not sync, and stops
with the pytest process that began it. PostgreSQL does not run as root: then it runs as another user.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

import requirements
from postgres_programs import HOW, VARIABLE, Installation, OwnUser, as_user, found, installation, own_user
from stemmadb.server.storage.postgres import schema
from stemmadb.server.storage.postgres.connection import connect

_NUMBERS: Final = count(1)
TEMPLATE: Final = "stemmadb_template"
START_SECONDS: Final = 60.0
FAST: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "listen_addresses": "",
    "dynamic_shared_memory_type": "mmap",
    "log_min_messages": "fatal",
}

_WATCH: Final = """
import os, signal, shutil, subprocess, sys, time
pid, directory, uid, gid, *command = sys.argv[1:]
if os.fork():
    os._exit(0)
options = {} if uid == "-" else {"user": int(uid), "group": int(gid), "extra_groups": []}
server = subprocess.Popen(command, **options)
while server.poll() is None:
    try:
        os.kill(int(pid), 0)
    except OSError:
        server.send_signal(signal.SIGQUIT)
        server.wait()
    time.sleep(0.2)
shutil.rmtree(directory, ignore_errors=True)
if os.path.exists(directory + ".lock"):
    os.unlink(directory + ".lock")
"""


def need() -> None:
    """Skips the test, or fails it if PostgreSQL is required, unless there is one."""
    if found() is None:
        requirements.missing("postgres", HOW)


def make_cluster(chosen: Installation, directory: Path) -> Path:
    """An empty cluster in a directory that belongs to its user; gives the programs that the user can run."""
    user = own_user()
    programs = chosen.programs
    if user is not None:
        os.chown(directory, user.uid, user.gid)
        for parent in directory.parents:
            if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)
        programs = _runnable(programs, directory, user)
    command = [str(programs / "initdb"), "-D", str(directory / "data"), "-U", "stemmadb", "-A", "trust", "-E", "UTF8"]
    made = subprocess.run(  # noqa: S603
        [*command, "--locale=C", "--no-sync", "--no-instructions"],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        **as_user(user),
    )
    if made.returncode:
        raise RuntimeError(f"initdb failed: {made.stderr}")
    return programs


def _runnable(programs: Path, directory: Path, user: OwnUser) -> Path:
    """The programs, or a copy of their installation if its place is closed to the user."""
    command = [str(programs / "postgres"), "--version"]
    try:
        subprocess.run(command, capture_output=True, check=True, cwd="/", **as_user(user))  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        copied = directory / "install"
        shutil.copytree(programs.parent, copied, symlinks=True)
        return copied / programs.name
    return programs


def _start(directory: Path) -> None:
    """The shared server, which ends when the pytest process does that controls all workers."""
    chosen = installation()
    assert chosen is not None, "somebody asked whether there is one"
    programs, user = make_cluster(chosen, directory), own_user()
    settings = [f"-c{name}={value}" for name, value in FAST.items()]
    command = [str(programs / "postgres"), "-D", str(directory / "data"), "-k", str(directory), *settings]
    ids = ("-", "-") if user is None else (str(user.uid), str(user.gid))
    with (directory / "log").open("wb") as log:
        subprocess.run(  # noqa: S603  # it goes on by itself
            [sys.executable, "-c", _WATCH, str(_controller()), str(directory), *ids, *command],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            cwd=directory,
            start_new_session=True,
            check=True,
        )
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(_url(directory, "postgres")).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start: {(directory / 'log').read_text()}") from None
            time.sleep(0.05)
        else:
            return


def _controller() -> int:
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


def _url(directory: Path, database: str) -> str:
    return f"postgresql://stemmadb@/{database}?host={directory}"


@cache
def server() -> str:
    """The URL of a server on which databases can be made, up to the name of the database."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    shared = Path("/dev/shm")  # noqa: S108
    parent = shared if shared.is_dir() else Path(tempfile.gettempdir())
    directory = parent / f"stemmadb-pg-{_controller()}"
    with (parent / f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "ready").exists():
            directory.mkdir(mode=0o755)
            _start(directory)
            (directory / "ready").touch()
            Path(lock.name).unlink()
    return _url(directory, "postgres")


def database_url(name: str) -> str:
    parts = psycopg.conninfo.conninfo_to_dict(server()) | {"dbname": name}
    return psycopg.conninfo.make_conninfo(**{key: str(value) for key, value in parts.items()})


@cache
def database() -> str:
    """A database for this pytest worker, with our tables in it."""
    name = f"stemmadb_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_{os.getpid()}"
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(1)")
        there = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (TEMPLATE,)).fetchone()
        if there is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
            made = connect(database_url(TEMPLATE))
            schema.create(made)
            made.close()
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        connection.execute(create.format(sql.Identifier(name), sql.Identifier(TEMPLATE)))
    return database_url(name)


class OwnServer:
    """A server for one test, which syncs and listens on loopback. It can be killed and started again."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self._programs = programs
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.url = f"postgresql://stemmadb@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        """The process that all others of the server come from."""
        assert self._process is not None, "it runs"
        return self._process.pid

    def start(self) -> None:
        settings = {"listen_addresses": "127.0.0.1", "port": str(self.port), "log_min_messages": "fatal"}
        flags = [f"-c{key}={value}" for key, value in settings.items()]
        name = str(self._directory)
        command = [str(self._programs / "postgres"), "-D", str(self._directory / "data"), "-k", name, *flags]
        self._process = subprocess.Popen(  # noqa: S603
            command, stderr=subprocess.DEVNULL, cwd=name, **as_user(own_user())
        )
        _await_server(self.url)

    def kill(self) -> None:
        """As a power failure of the process: nothing is written any more."""
        if self._process is not None:
            for child in Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)
            self._process.kill()
            self._process.wait()
            (self._directory / "data" / "postmaster.pid").unlink(missing_ok=True)
            self._process = None

    @contextmanager
    def standby(self) -> Iterator[OwnServer]:
        """A running copy that follows this server."""
        parent = self._directory.parent
        with tempfile.TemporaryDirectory(prefix="stemmadb-pg-", dir=parent, ignore_cleanup_errors=True) as name:
            directory, user = Path(name), own_user()
            directory.chmod(0o755)
            if user is not None:
                os.chown(directory, user.uid, user.gid)
            command = [str(self._programs / "pg_basebackup"), "-D", str(directory / "data"), "-R", "-X", "stream"]
            where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "stemmadb", "--no-sync", "-c", "fast"]
            subprocess.run([*command, *where], check=True, capture_output=True, cwd=name, **as_user(user))  # noqa: S603
            made = OwnServer(self._programs, directory)
            made.start()
            try:
                yield made
            finally:
                made.kill()


@contextmanager
def own_server(parent: str | None = None) -> Iterator[OwnServer]:
    """Also where a server was given: tests that kill one need its programs. Its directory is in `parent`."""
    chosen = installation()
    if chosen is None:
        requirements.missing("postgres", HOW)
        raise AssertionError("it was skipped")
    with tempfile.TemporaryDirectory(prefix="stemmadb-pg-", dir=parent, ignore_cleanup_errors=True) as name:
        directory = Path(name)
        directory.chmod(0o755)
        made = OwnServer(make_cluster(chosen, directory), directory)
        made.start()
        try:
            yield made
        finally:
            made.kill()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _await_server(url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


@contextmanager
def own_database(*, is_empty: bool = False) -> Iterator[str]:
    """A database for one test, with our tables in it unless it is to be empty."""
    name = f"stemmadb_own_{os.getpid()}_{next(_NUMBERS)}"
    database()  # there is a template then
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    with psycopg.connect(server(), autocommit=True) as connection:
        template = "template1" if is_empty else TEMPLATE
        connection.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        try:
            yield database_url(name)
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def empty_database() -> str:
    """The database of this worker without a space. What spaces held is left behind under numbers that nobody uses."""
    url = database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "DELETE FROM stemmadb.space; DELETE FROM stemmadb.node; DELETE FROM stemmadb.meta WHERE key = 'server'"
        )
    return url
