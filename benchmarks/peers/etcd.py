"""etcd as a peer: a transaction with a compare on the version; revisions are its history."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.peers import process
from benchmarks.peers.grpc import Grpc, field, fields, integer, varint
from benchmarks.peers.wire import ask, nothing, past_values

NAME, DURABLE = "etcd", True
PACKAGE = "etcd-server"
_QUOTA_BYTES = 8 << 30
"""At its default of 2 GiB it stops to write; a long run may come there."""
_TXN, _RANGE, _WATCH = b"/etcdserverpb.KV/Txn", b"/etcdserverpb.KV/Range", b"/etcdserverpb.Watch/Watch"
_SUCCEEDED = b"\x10\x01"
_REVISION, _EVENTS = 3, 11
_IN_FLIGHT = 200
_SERIALIZABLE = integer(7, 1)


class Etcd:
    """One process with one member."""

    name, durable = NAME, DURABLE

    def __init__(self, pid: int, port: int, version: str) -> None:
        self.pids, self.port, self.version = (pid,), port, version
        self._pasts: dict[str, list[Fact]] = {}

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
    return process.find("etcd") is not None


def install() -> None:
    process.install_debian(PACKAGE)


@contextmanager
def served(directory: Path) -> Iterator[Etcd]:
    """As it comes: it syncs every batch before it answers."""
    program = process.require("etcd", PACKAGE)
    port = process.free_port()
    ours, theirs = (f"http://{process.HOST}:{each}" for each in (port, process.free_port()))
    command = [
        *(program, "--data-dir", str(directory / "etcd"), "--log-level", "error"),
        *("--listen-client-urls", ours, "--advertise-client-urls", ours),
        *("--listen-peer-urls", theirs, "--initial-advertise-peer-urls", theirs),
        *("--initial-cluster", f"default={theirs}", "--quota-backend-bytes", str(_QUOTA_BYTES)),
    ]
    with process.running(command, partial(_write_first, port), directory=directory) as server:
        yield Etcd(server.pid, port, process.version_of(program))


def _write_first(port: int) -> None:
    Writer(port, "ready", b"yes").link.close()


class Writer:
    """Puts one key, if its version is the one it wrote last: one transaction with a compare."""

    def __init__(self, port: int, key: str, value: bytes) -> None:
        self.link = Grpc(port)
        self.answered: Callable[[], None] = nothing
        self._key, self._version = key.encode(), 0
        self._headers = self.link.headers(_TXN)
        self._put = _put(self._key, value)
        self.link.took = self._took
        ask(self)
        self.link.ready()

    def send(self) -> None:
        compare = field(1, field(3, self._key) + b"\x20" + varint(self._version))
        self.link.call(self._headers, compare + self._put)

    def put_blindly(self, value: bytes) -> None:
        """Whatever its version is."""
        self.link.call(self._headers, _put(self._key, value))

    def _took(self, message: bytes) -> None:
        header = message[1]
        assert message[2 + header : 4 + header] == _SUCCEEDED, "the key has another version"
        self._version += 1
        self.answered()


class Watcher:
    """Watches one key, on a stream of its own connection."""

    def __init__(self, port: int, key: str) -> None:
        self.link = Grpc(port)
        self.event: Callable[[], None] = nothing
        self._is_made = False
        self.link.took = self._took
        self.link.call(self.link.headers(_WATCH), field(1, field(1, key.encode())), ends=False)
        while not self._is_made:
            self.link.pull()
        self.link.ready()

    def _took(self, message: bytes) -> None:
        self._is_made = True
        for number, _, _ in fields(message):
            if number == _EVENTS:
                self.event()


Fact = tuple[int, bytes]
"""A revision, and the value that was put there."""


class PastReader:
    """Reads one key at a revision. It need not ask the others of a cluster: the past is the same everywhere."""

    def __init__(self, port: int, key: str, past: Sequence[Fact], chance: random.Random) -> None:
        self.link = Grpc(port)
        self.answered: Callable[[], None] = nothing
        self._past, self._chance, self._wanted = past, chance, b""
        self._headers, self._key = self.link.headers(_RANGE), field(1, key.encode())
        self.link.took = self._took
        self.link.ready()

    def send(self) -> None:
        revision, self._wanted = self._chance.choice(self._past)
        self.link.call(self._headers, self._key + integer(4, revision) + _SERIALIZABLE)

    def _took(self, message: bytes) -> None:
        assert self._wanted in message, "another value than was written there"
        self.answered()


def _put(key: bytes, value: bytes) -> bytes:
    """A transaction's put, without the compare."""
    return field(2, field(2, field(1, key) + field(2, value)))


def _write_past(port: int, key: str, facts: int) -> list[Fact]:
    """Many in flight. etcd orders them as it likes, so each answer is matched by the stream of its call."""
    link, past, asked = Grpc(port), list[Fact](), dict[int, bytes]()
    headers = link.headers(_TXN)
    link.took = lambda message: past.append((_revision(message), asked.pop(int.from_bytes(link.stream, "big"))))
    for value in past_values(facts):
        asked[link.call(headers, _put(key.encode(), value))] = value
        while len(asked) >= _IN_FLIGHT:
            link.pull()
    while asked:
        link.pull()
    link.close()
    return past


def _revision(message: bytes) -> int:
    """The one in the header, which is the first field of every answer."""
    header = message[2 : 2 + message[1]]
    return next(value for number, value, _ in fields(header) if number == _REVISION)
