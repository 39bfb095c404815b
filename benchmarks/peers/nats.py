"""NATS JetStream as a peer: a key-value bucket, published to with the sequence that is expected last.

Its file store syncs now and then and not before it answers. Acknowledged writes may be lost with the power, so
its rows are marked as not durable.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.peers import process
from benchmarks.peers.wire import Wire, ask, nothing, past_values

NAME, DURABLE = "nats", False
PACKAGE = "nats-server"
HISTORY = 64
"""Values of a key that a bucket keeps: the most that its clients can ask for."""
_BUCKET, _PAST = "bench", "past"
"""The past is read from a bucket of its own, of which no value is dropped."""
_SETTINGS = """
listen: "{host}:{port}"
ping_interval: "1h"
jetstream: {{ store_dir: "{directory}" }}
"""
"""Connections that wait for their turn answer no ping, and would be closed as stale."""
_IN_FLIGHT = 500
_MESSAGES, _WITH_HEADERS = b"MH", ord("H")
_EXPECTED = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: %b\r\n\r\n"
_STORED = re.compile(rb'"seq": ?(\d+)')


class Nats:
    """One process."""

    name, durable = NAME, DURABLE

    def __init__(self, pid: int, port: int, version: str) -> None:
        self.pids, self.port, self.version = (pid,), port, version
        self._pasts: dict[str, list[Fact]] = {}

    def writer(self, key: str, value: bytes) -> Writer:
        return Writer(self.port, _subject(_BUCKET, key), value)

    watched_writer = writer

    def watcher(self, key: str) -> Watcher:
        return Watcher(self.port, key)

    def past_reader(self, key: str, facts: int, chance: random.Random) -> PastReader:
        if key not in self._pasts:
            self._pasts[key] = _write_past(self.port, key, facts)
        return PastReader(self.port, self._pasts[key], chance)


def is_installed() -> bool:
    return process.find("nats-server") is not None


def install() -> None:
    process.install_debian(PACKAGE)


@contextmanager
def served(directory: Path) -> Iterator[Nats]:
    program, port = process.require("nats-server", PACKAGE), process.free_port()
    settings = directory / "nats.conf"
    settings.write_text(_SETTINGS.format(host=process.HOST, port=port, directory=directory / "nats"))
    with process.running(
        [program, "--config", str(settings)], partial(_make_buckets, port), directory=directory
    ) as server:
        yield Nats(server.pid, port, process.version_of(program))


def _make_buckets(port: int) -> None:
    link = NatsWire(port)
    for bucket, most in ((_BUCKET, HISTORY), (_PAST, -1)):
        stream = {
            "name": f"KV_{bucket}",
            "subjects": [_subject(bucket, ">")],
            "max_msgs_per_subject": most,
            "storage": "file",
            "discard": "new",
            "allow_direct": True,
            "allow_rollup_hdrs": True,
            "deny_delete": True,
        }
        link.ask_api(f"STREAM.CREATE.KV_{bucket}", stream)
    link.close()
    Writer(port, _subject(_BUCKET, "ready"), b"yes").link.close()


def _subject(bucket: str, key: str) -> str:
    return f"$KV.{bucket}.{key}"


class NatsWire(Wire):
    """One connection with an inbox for answers; the payload of each message, without headers, goes to `took`."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.took: Callable[[bytes], None] = nothing
        self.inbox = f"_INBOX.{self.sock.getsockname()[1]}"
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "lang": "bench"}
        self.sock.sendall(f"CONNECT {json.dumps(options)}\r\n".encode())
        self.subscribe(self.inbox, number=1)

    def subscribe(self, subject: str, *, number: int) -> None:
        """A number that was there before is passed over without a word."""
        self.sock.sendall(f"SUB {subject} {number}\r\n".encode())

    def publication(self, subject: str, payload: bytes) -> bytes:
        """A message that is answered to the inbox."""
        return f"PUB {subject} {self.inbox} {len(payload)}\r\n".encode() + payload + b"\r\n"

    def ask_api(self, request: str, body: object) -> None:
        """Waits until JetStream has done it."""
        came: list[bytes] = []
        self.took = came.append
        self.sock.sendall(self.publication(f"$JS.API.{request}", json.dumps(body).encode()))
        while not came:
            self.pull()
        if "error" in (answer := json.loads(came[0])):
            raise RuntimeError(f"{request}: {answer['error']}")

    def _split(self, data: bytes) -> int:
        at = 0
        while (end := data.find(b"\r\n", at)) >= 0:
            if data[at] not in _MESSAGES:
                self._take_control(data[at:end])
                at = end + 2
                continue
            words, start = data[at:end].split(b" "), end + 2
            after = start + int(words[-1])
            if after + 2 > len(data):
                break
            if data[at] == _WITH_HEADERS:
                if data.startswith(b"NATS/1.0 ", start):
                    raise ConnectionError(data[start:after].decode())
                start += int(words[-2])
            at = after + 2
            self.took(data[start:after])
        return at

    def _take_control(self, line: bytes) -> None:
        if line == b"PING":
            self.sock.sendall(b"PONG\r\n")
        elif line.startswith(b"-ERR"):
            raise ConnectionError(line.decode())


class Writer:
    """Publishes to one subject if the sequence of its last message is the one it wrote last."""

    def __init__(self, port: int, subject: str, value: bytes) -> None:
        self.link = NatsWire(port)
        self.answered: Callable[[], None] = nothing
        self._sequence = b"0"
        self._to = f"HPUB {subject} {self.link.inbox}".encode()
        self._value = value + b"\r\n"
        self.link.took = self._took
        ask(self)
        self.link.ready()

    def send(self) -> None:
        headers = _EXPECTED % self._sequence
        size = len(headers)
        self.link.sock.sendall(
            b"%b %d %d\r\n%b%b" % (self._to, size, size + len(self._value) - 2, headers, self._value)
        )

    def _took(self, payload: bytes) -> None:
        self._sequence = _sequence(payload)
        self.answered()


class Watcher:
    """What watches a bucket: a consumer that pushes what was stored, from now on."""

    def __init__(self, port: int, key: str) -> None:
        self.link = NatsWire(port)
        self.event: Callable[[], None] = nothing
        pushed = f"{self.link.inbox}.pushed"
        self.link.subscribe(pushed, number=2)
        config = {
            "deliver_subject": pushed,
            "deliver_policy": "new",
            "ack_policy": "none",
            "filter_subject": _subject(_BUCKET, key),
            "mem_storage": True,
        }
        stream = f"KV_{_BUCKET}"
        self.link.ask_api(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
        self.link.took = self._took
        self.link.ready()

    def _took(self, _: bytes) -> None:
        self.event()


Fact = tuple[bytes, bytes]
"""A sequence, and the value that was published there."""


class PastReader:
    """Gets one message of the stream by its sequence, directly."""

    def __init__(self, port: int, past: Sequence[Fact], chance: random.Random) -> None:
        self.link = NatsWire(port)
        self.answered: Callable[[], None] = nothing
        self._past, self._chance, self._wanted = past, chance, b""
        self.link.took = self._took
        self.link.ready()

    def send(self) -> None:
        sequence, self._wanted = self._chance.choice(self._past)
        self.link.sock.sendall(self.link.publication(f"$JS.API.DIRECT.GET.KV_{_PAST}", b'{"seq":%b}' % sequence))

    def _took(self, value: bytes) -> None:
        assert value == self._wanted, "another value than was written there"
        self.answered()


def _write_past(port: int, key: str, facts: int) -> list[Fact]:
    """What one connection publishes is stored, and answered, in its order."""
    link, values, sequences = NatsWire(port), past_values(facts), list[bytes]()
    link.took = lambda payload: sequences.append(_sequence(payload))
    for start in range(0, facts, _IN_FLIGHT):
        page = values[start : start + _IN_FLIGHT]
        link.sock.sendall(b"".join([link.publication(_subject(_PAST, key), value) for value in page]))
        while len(sequences) < start + len(page):
            link.pull()
    link.close()
    return list(zip(sequences, values, strict=True))


def _sequence(payload: bytes) -> bytes:
    """Where a message was stored, as its acknowledgement says."""
    found = _STORED.search(payload)
    if found is None or b'"error"' in payload:
        raise ConnectionError(payload.decode())
    return found[1]
