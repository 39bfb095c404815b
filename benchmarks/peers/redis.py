"""Redis as a peer: one script compares the version, sets the hash and adds to the stream that is its history."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.peers import process
from benchmarks.peers.wire import Wire, ask, nothing, past_values

NAME, DURABLE = "redis", True
PACKAGE = "redis-server"
_PAGE = 500
_ARRAY, _BULK, _ERROR = b"*$-"
_SCRIPT = b"""
if (redis.call('HGET', KEYS[1], 'version') or '0') ~= ARGV[1] then return -1 end
local version = ARGV[1] + 1
redis.call('HSET', KEYS[1], 'version', version, 'value', ARGV[2])
redis.call('XADD', KEYS[2], version, 'value', ARGV[2])
return version
"""
_SHA = hashlib.sha1(_SCRIPT).hexdigest().encode()  # noqa: S324


class Redis:
    """One process."""

    name, durable = NAME, DURABLE

    def __init__(self, pid: int, port: int, version: str) -> None:
        self.pids, self.port, self.version = (pid,), port, version
        self._pasts: dict[str, list[bytes]] = {}

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
    return process.find("redis-server") is not None


def install() -> None:
    process.install_debian(PACKAGE)


@contextmanager
def served(directory: Path) -> Iterator[Redis]:
    """Every turn of its loop is appended and synced before it answers."""
    program, port, data = process.require("redis-server", PACKAGE), process.free_port(), directory / "redis"
    data.mkdir()
    command = [
        *(program, "--bind", process.HOST, "--port", str(port), "--dir", str(data), "--daemonize", "no"),
        *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
    ]
    with process.running(command, partial(_load_script, port), directory=directory) as server:
        yield Redis(server.pid, port, process.version_of(program))


def _load_script(port: int) -> None:
    link = Resp(port)
    link.ask(request(b"SCRIPT", b"LOAD", _SCRIPT))
    link.close()
    Writer(port, "ready", b"yes").link.close()


class Resp(Wire):
    """One connection; `took` has the plain values of a reply, one after another, however they are nested."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.took: Callable[[list[bytes]], None] = nothing

    def ask(self, data: bytes, *, replies: int = 1) -> list[bytes]:
        """Sends and waits for so many replies; gives the values of all."""
        came: list[list[bytes]] = []
        self.took = came.append
        self.sock.sendall(data)
        while len(came) < replies:
            self.pull()
        return [value for values in came for value in values]

    def _split(self, data: bytes) -> int:
        at = 0
        while (reply := _reply(data, at)) is not None:
            values, at = reply
            self.took(values)
        return at


def _reply(data: bytes, at: int) -> tuple[list[bytes], int] | None:
    """The next whole reply and its end, if it is there."""
    values, left, size = [], 1, len(data)
    while left:
        end = data.find(b"\r\n", at)
        if end < 0:
            return None
        kind, head, at = data[at], data[at + 1 : end], end + 2
        left -= 1
        if kind == _ARRAY:
            left += max(0, int(head))
        elif kind != _BULK:
            if kind == _ERROR:
                raise ConnectionError(head.decode())
            values.append(head)
        elif (length := int(head)) >= 0:
            if at + length + 2 > size:
                return None
            values.append(data[at : at + length])
            at += length + 2
    return values, at


def request(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def _log(key: str) -> bytes:
    """The stream of a key; the ids in it are the versions."""
    return f"{key}:log".encode()


class Writer:
    """Sets one hash if its version is the one it wrote last."""

    def __init__(self, port: int, key: str, value: bytes) -> None:
        self.link = Resp(port)
        self.answered: Callable[[], None] = nothing
        self._version = b"0"
        self._before = b"*7\r\n" + request(b"EVALSHA", _SHA, b"2", key.encode(), _log(key)).partition(b"\r\n")[2]
        self._after = request(value).partition(b"\r\n")[2]
        self.link.took = self._took
        ask(self)
        self.link.ready()

    def send(self) -> None:
        version = self._version
        self.link.sock.sendall(b"%b$%d\r\n%b\r\n%b" % (self._before, len(version), version, self._after))

    def _took(self, values: list[bytes]) -> None:
        self._version = values[0]
        assert self._version != b"-1", "the hash has another version"
        self.answered()


class Watcher:
    """Blocks on the stream of a key, and again after each answer, from the last that it has seen on."""

    def __init__(self, port: int, key: str) -> None:
        self.link = Resp(port)
        self.event: Callable[[], None] = nothing
        self._log = _log(key)
        last = self.link.ask(request(b"XREVRANGE", self._log, b"+", b"-", b"COUNT", b"1"))
        self.link.took = self._took
        self.link.ready()
        self._wait(last[0] if last else b"0")

    def _wait(self, after: bytes) -> None:
        self.link.sock.sendall(request(b"XREAD", b"BLOCK", b"0", b"STREAMS", self._log, after))

    def _took(self, values: list[bytes]) -> None:
        """The stream's name, then id, field and value of each entry."""
        ids = values[1::3]
        self._wait(ids[-1])
        for _ in ids:
            self.event()


class PastReader:
    """Reads one entry of the stream."""

    def __init__(self, port: int, key: str, past: Sequence[bytes], chance: random.Random) -> None:
        self.link = Resp(port)
        self.answered: Callable[[], None] = nothing
        self._log, self._past, self._chance, self._wanted = _log(key), past, chance, b""
        self.link.took = self._took
        self.link.ready()

    def send(self) -> None:
        place = self._chance.randrange(len(self._past))
        self._wanted = self._past[place]
        id_ = b"%d" % (place + 1)
        self.link.sock.sendall(request(b"XRANGE", self._log, id_, id_))

    def _took(self, values: list[bytes]) -> None:
        assert values[-1] == self._wanted, "another value than was written there"
        self.answered()


def _write_past(port: int, key: str, facts: int) -> list[bytes]:
    link, past = Resp(port), past_values(facts)
    adds = [
        request(b"XADD", _log(key), b"%d" % number, b"value", value) for number, value in enumerate(past, start=1)
    ]
    for start in range(0, facts, _PAGE):
        page = adds[start : start + _PAGE]
        link.ask(b"".join(page), replies=len(page))
    link.close()
    return past
