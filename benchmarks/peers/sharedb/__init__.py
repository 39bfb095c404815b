"""ShareDB as a peer: operations on JSON documents over a WebSocket, kept in PostgreSQL.

Where others wrote in between it transforms an operation in the place of refusing it; here nobody else writes the
document, so the version is always the one that the client wrote last.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.load.document import VALUE
from benchmarks.load.websocket import WebSocket
from benchmarks.peers import postgres, process
from benchmarks.peers.postgres_wire import DATABASE, USER, PostgresWire
from benchmarks.peers.wire import ask, nothing

NAME, DURABLE = "sharedb", True
PACKAGES = ("nodejs", "npm")
CACHE = Path(os.environ.get("STEMMADB_BENCH_CACHE") or Path.home() / ".cache" / "stemmadb-bench") / NAME
"""Where npm puts it: outside of the tree, and only once."""
_HERE = Path(__file__).parent
_MODULES = CACHE / "node_modules"
_COLLECTION = "bench"
_TYPE = "http://sharejs.org/types/JSONv0"
_TEXT, _BINARY = 0x81, 0x82


class ShareDb:
    """One node process on one cluster of PostgreSQL."""

    name, durable = NAME, DURABLE

    def __init__(self, pids: tuple[int, ...], port: int, version: str) -> None:
        self.pids, self.port, self.version = pids, port, version
        self._pasts: dict[str, int] = {}

    def writer(self, key: str, value: bytes) -> Writer:
        return Writer(self.port, key, value)

    watched_writer = writer

    def watcher(self, key: str) -> Watcher:
        return Watcher(self.port, key)

    def past_reader(self, key: str, facts: int, chance: random.Random) -> PastReader:
        if key not in self._pasts:
            self._pasts[key] = _write_past(self.port, key, facts)
        return PastReader(self.port, key, self._pasts[key], chance)


def is_installed() -> bool:
    return process.find("node") is not None and _is_complete() and postgres.is_installed()


def _is_complete() -> bool:
    """Whether the packages that are asked for now were put there by an install that came to its end."""
    done = CACHE / "installed.json"
    return done.exists() and done.read_bytes() == (_HERE / "package.json").read_bytes()


def install() -> None:
    if not postgres.is_installed():
        postgres.install()
    if process.find("npm") is None:
        process.install_debian(*PACKAGES)
    CACHE.mkdir(parents=True, exist_ok=True)
    shutil.copy(_HERE / "package.json", CACHE)
    with process.installing(f"run in {CACHE}: npm install"):
        process.quietly(
            [process.require("npm", "npm"), "install", "--no-audit", "--no-fund", "--no-progress", "--silent"],
            cwd=CACHE,
        )
    shutil.copy(_HERE / "package.json", CACHE / "installed.json")


@contextmanager
def served(directory: Path) -> Iterator[ShareDb]:
    with postgres.served(directory) as store, served_on(directory, store.port, store.pids) as peer:
        yield peer


@contextmanager
def served_on(
    directory: Path, store: int, pids: tuple[int, ...], user: str = USER, database: str = DATABASE
) -> Iterator[ShareDb]:
    """On a PostgreSQL that runs: its port, and the roots of its process trees."""
    node = process.require("node", " ".join(PACKAGES))
    if not _is_complete():
        raise process.NotInstalled(f"run in {CACHE}: npm install")
    _make_tables(PostgresWire(store, user=user, database=database))
    port = process.free_port()
    command = [node, str(_HERE / "server.js"), str(port), str(store), user, database]
    with process.running(
        command,
        partial(_write_first, port),
        directory=directory,
        env={"NODE_PATH": str(_MODULES), "NODE_ENV": "production"},
    ) as server:
        yield ShareDb((server.pid, *pids), port, _version())


def _write_first(port: int) -> None:
    """A WebSocket is only tried where somebody listens."""
    socket.create_connection((process.HOST, port)).close()
    Writer(port, "ready", VALUE).link.close()


def _make_tables(link: PostgresWire) -> None:
    link.query((_MODULES / "sharedb-postgres" / "structure.sql").read_text())
    link.close()


def _version() -> str:
    return str(json.loads((_MODULES / "sharedb" / "package.json").read_text())["version"])


class Messages(WebSocket):
    """One connection whose handshake is done; messages are JSON, in frames of text."""

    def __init__(self, port: int) -> None:
        super().__init__(port, "/", "sharedb")
        self.recv()
        self.tell({"a": "hs", "id": None, "protocol": 1, "protocolMinor": 1})
        self.recv()

    def tell(self, message: dict[str, object]) -> None:
        self.send(json.dumps(message).encode())

    def about(self, action: str, key: str, **more: object) -> None:
        self.tell({"a": action, "c": _COLLECTION, "d": key, **more})

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == _TEXT:
            if b'"error":' in payload:
                self.close()
                raise ConnectionError(payload.decode())
            kind = _BINARY
        super()._take(kind, payload)

    def ready(self) -> None:
        """From here on a loop says when there is something to read, so that no read needs a timeout."""
        self.sock.setblocking(True)


class Writer:
    """Adds one to a number of the document, on the version it wrote last."""

    def __init__(self, port: int, key: str, value: bytes) -> None:
        self.link = Messages(port)
        self.answered: Callable[[], None] = nothing
        self._version = 1
        head = json.dumps({"a": "op", "c": _COLLECTION, "d": key, "x": {}, "op": [{"p": ["count"], "na": 1}]})
        self._head = head[:-1].encode()
        self.link.about("op", key, v=0, seq=1, x={}, create={"type": _TYPE, "data": msgspec.msgpack.decode(value)})
        self.link.recv()
        self.link.took = self._took
        self.link.ready()

    def send(self) -> None:
        version = self._version
        self.link.send(b'%b,"v":%d,"seq":%d}' % (self._head, version, version + 1))

    def _took(self, message: bytes) -> None:
        assert b'"v":%d,' % self._version in message, "the document has another version"
        self._version += 1
        self.answered()


class Watcher:
    """Subscribes to one document."""

    def __init__(self, port: int, key: str) -> None:
        self.link = Messages(port)
        self.event: Callable[[], None] = nothing
        self.link.about("s", key)
        self.link.recv()
        self.link.took = self._took
        self.link.ready()

    def _took(self, _: bytes) -> None:
        self.event()


class PastReader:
    """Fetches the document as it was at a version, which ShareDB makes from all operations before."""

    def __init__(self, port: int, key: str, facts: int, chance: random.Random) -> None:
        self.link = Messages(port)
        self.answered: Callable[[], None] = nothing
        self._key, self._facts, self._chance, self._wanted = key, facts, chance, b""
        self._asked = 0
        self.link.took = self._took
        self.link.ready()

    def send(self) -> None:
        """The number in the document was 1 when it was made, at version 1."""
        self._asked += 1
        version = self._chance.randrange(self._facts) + 1
        self._wanted = b'"count":%d,' % version
        self.link.about("nf", self._key, id=self._asked, v=version)

    def _took(self, message: bytes) -> None:
        assert self._wanted in message, "another value than was written there"
        self.answered()


def _write_past(port: int, key: str, facts: int) -> int:
    """One at a time: those that are in flight together would get in each other's way and be done again."""
    writer = Writer(port, key, VALUE)
    for _ in range(facts - 1):
        ask(writer)
    writer.link.close()
    return facts
