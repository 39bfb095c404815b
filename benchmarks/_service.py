"""A real `stemmadb serve` in a process of its own, and sessions on it that cost the load process little."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks import _engine
from benchmarks._load_websocket import WebSocket
from stemmadb.protocol import identity
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import Did, EntityId, Hash, Local, Version
from stemmadb.protocol.model.query import Query, Root
from stemmadb.protocol.model.request import Content, Operation, Read
from stemmadb.protocol.wire.client_side import ClientConnection, Standing
from stemmadb.protocol.wire.messages.commit import CommitMessage
from stemmadb.protocol.wire.messages.reading import WatchRequest
from stemmadb.protocol.wire.messages.session import HeldWatch
from stemmadb.protocol.wire.version import MSGPACK, space_path

DOCUMENT: dict[str, object] = {
    "title": "write the spec",
    "done": False,
    "count": 1,
    "tags": ["a", "b"],
    "by": {"name": "alice"},
    "text": "Cost follows the change, and bytes are made once: a body is stored as its author encoded it.",
}
"""About 180 bytes encoded; with its id, the declared read and the rest a commit has about 330."""
WIDE = ("commits-per-second", "requests-per-second", "connections-per-principal-max")
"""Bounds on one principal, which here stands for many."""


class Server:
    """One server process on a data directory."""

    def __init__(self, process: subprocess.Popen[str], answer: dict[str, Any]) -> None:
        self.process, self.pid, self.port = process, process.pid, int(answer["port"])

    def stop(self) -> None:
        self.process.terminate()
        status = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        if status:
            print(f"the server ended with {status}", file=sys.stderr)


def start(data: Path, **settings: int | str) -> Server:
    """Neither variables nor a file of settings that happen to be here reach it."""
    flags = [f"--{name}=1000000000" for name in WIDE]
    flags += [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "stemmadb.client.cli", "serve", "--json", "--port", "0", "--data", str(data)]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("STEMMADB_")}
    process = subprocess.Popen(  # noqa: S603
        [*command, "--log-level=warning", *flags], stdout=subprocess.PIPE, text=True, env=alone, cwd=data
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{") and "port" in (answer := json.loads(line)):
            return Server(process, answer)
    raise RuntimeError(f"the server did not start: {process.wait()}")


@contextmanager
def served(**settings: int | str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="stemmadb-bench-", dir=_engine.DIRECTORY) as name:
        server = start(Path(name), **settings)
        try:
            yield server
        finally:
            server.stop()


class Key:
    """A principal, or a space."""

    def __init__(self, secret: bytes | None = None) -> None:
        key = Ed25519PrivateKey.generate() if secret is None else Ed25519PrivateKey.from_private_bytes(secret)
        self.secret = key.private_bytes_raw()
        self.did = identity.did_of(key.public_key().public_bytes_raw())
        self.sign = key.sign


class Verdict(msgspec.Struct):
    verdict: str
    local: int
    version: int = 0
    code: str = ""


class Item(msgspec.Struct):
    version: int


class Told(msgspec.Struct):
    """Any message of the server, as far as a load looks at it."""

    type: str
    to: int = 0
    hash: bytes = b""
    verdicts: tuple[Verdict, ...] = ()
    commits: tuple[Item, ...] = ()
    entered: tuple[Item, ...] = ()
    filled: tuple[int, ...] = ()
    more: bool = False
    code: str = ""
    message: str = ""


_read = msgspec.msgpack.Decoder(Told).decode
_write = msgspec.msgpack.Encoder().encode


class Session:
    """One session; it is opened and asked step by step, then driven by a loop."""

    def __init__(
        self,
        port: int,
        space: Did,
        key: Key,
        *,
        number: int,
        standing: Standing | None = None,
        receive_bytes: int | None = None,
    ) -> None:
        self.space, self.key, self.number = space, key, number
        self.link = WebSocket(port, space_path(space), MSGPACK, receive_bytes=receive_bytes)
        self.to, self.hash, self.local = 0, b"", 0
        self.answered: Callable[[], None] = _nothing
        self.event: Callable[[], None] = _nothing
        connection = ClientConnection(subprotocol=MSGPACK, space=space)
        connection.receive(self.link.recv())
        session = number.to_bytes(16, "big")
        opening = connection.open(principal=key.did, session=session, sign=key.sign, standing=standing)
        assert isinstance(opening, bytes)
        self.opening = opening

    def open(self) -> Session:
        """Sends `session.open` and waits for the whole first frame."""
        self.link.send(self.opening)
        while self._take(self.link.recv()).more:
            pass
        return self

    def ready(self) -> Session:
        """From here on a loop reads what comes."""
        self.link.sock.setblocking(True)
        self.link.took = self._on_message
        return self

    def watch(self, query: Query, number: int = 1) -> None:
        """Watches, and waits until the watch is filled."""
        self.link.send(_write(WatchRequest(id=number, watch=number, query=query)))
        while number not in self._take(self.link.recv()).filled:
            pass

    def commit(self, operations: Sequence[Operation], reads: Sequence[Read] = ()) -> int:
        """Commits and waits for the version."""
        self.push(operations, reads)
        while not (verdicts := self._take(self.link.recv()).verdicts):
            pass
        return verdicts[-1].version

    def commit_all(self, commits: Sequence[Sequence[Operation]]) -> None:
        """Sends many at once and waits until the last is decided."""
        for operations in commits:
            self.push(operations)
        while not any(verdict.local == self.local for verdict in self._take(self.link.recv()).verdicts):
            pass

    def push(self, operations: Sequence[Operation], reads: Sequence[Read] = ()) -> None:
        """Sends a commit."""
        self.local += 1
        content = _write(Content(operations=tuple(operations), reads=tuple(reads)))
        message = CommitMessage(local=Local(self.local), nonce=self.local.to_bytes(16, "big"), content=content)
        self.link.send(_write(message))

    def _take(self, data: bytes) -> Told:
        told = _read(data)
        if told.type == "sync":
            self.to, self.hash = told.to, told.hash
        elif told.type != "ok":
            raise RuntimeError(f"{told.type}: {told.code} {told.message}")
        for verdict in told.verdicts:
            if verdict.verdict != "accepted":
                raise RuntimeError(f"commit {verdict.local} was {verdict.verdict}: {verdict.code}")
        return told

    def _on_message(self, data: bytes) -> None:
        told = self._take(data)
        for _ in told.commits:
            self.event()
        for verdict in told.verdicts:
            self.version = verdict.version
            self.answered()


class Writer(Session):
    """A client of a closed loop: writes its own entity, on what it wrote before."""

    id: EntityId
    patches = False
    """Whether it patches two fields in the place of setting the whole."""

    def begin(self, id_: str, document: object = DOCUMENT) -> Self:
        """Makes the entity; from then on a loop can drive it."""
        self.id = EntityId(id_)
        self.version = self.commit([Operation(op="set", id=self.id, body=encode(document), blind=True)])
        self.ready()
        return self

    def send(self) -> None:
        version = Version(self.version)
        if self.patches:
            self.push(
                (Operation(op="patch", id=self.id, body=_change(self.local)),),
                (
                    Read(version=version, id=self.id, path="/count"),
                    Read(version=version, id=self.id, path="/by/name"),
                ),
            )
        else:
            body = encode(DOCUMENT | {"count": self.local})
            self.push((Operation(op="set", id=self.id, body=body),), (Read(version=version, id=self.id),))


W = TypeVar("W", bound=Writer)


def _change(number: int) -> bytes:
    return encode(
        [
            {"op": "replace", "path": "/count", "value": number},
            {"op": "replace", "path": "/by/name", "value": "bob"},
        ]
    )


class Space:
    """A space that its own key has made, with a principal of role `own`; it counts the sessions."""

    def __init__(self, port: int, *, others: Sequence[Key] = ()) -> None:
        self.port, self.key, self._number = port, Key(), 0
        self.did = self.key.did
        roles = {self.did: "own"} | {other.did: "write" for other in others}
        first = self.session()
        first.commit([Operation(op="set", id=EntityId(self.did), body=encode(roles), blind=True)])
        first.link.close()

    def session(self, standing: Standing | None = None, *, receive_bytes: int | None = None) -> Session:
        self._number += 1
        session = Session(
            self.port, self.did, self.key, number=self._number, standing=standing, receive_bytes=receive_bytes
        )
        return session.open()

    def writer(self) -> Writer:
        return self.of(Writer)

    def of(self, kind: type[W]) -> W:
        """A writer of this kind."""
        self._number += 1
        writer = kind(self.port, self.did, self.key, number=self._number)
        writer.open()
        return writer

    def at(self, port: int) -> None:
        """The server was started again and listens elsewhere."""
        self.port = port

    def unopened(self, standing: Standing) -> Session:
        """Connected and greeted, `session.open` made but not sent."""
        self._number += 1
        return Session(self.port, self.did, self.key, number=self._number, standing=standing)

    def fill(self, documents: dict[str, object], *, page: int = 1_000) -> None:
        session, items = self.session(), list(documents.items())
        for start_ in range(0, len(items), page):
            session.commit(
                [
                    Operation(op="set", id=EntityId(id_), body=encode(document), blind=True)
                    for id_, document in items[start_ : start_ + page]
                ]
            )
        session.link.close()


def holding(session: Session, query: Query) -> Standing:
    """What a client says that comes back with one watch."""
    held = HeldWatch(watch=1, query=query, filled=True)
    return Standing(to=Version(session.to), hash=Hash(session.hash), watches=(held,))


def query_of(id_: str, schema: dict[str, Any] | bool | None = None) -> Query:
    return Query(roots=(Root(id=id_, schema=schema),))


def _nothing() -> None:
    """Nobody listens."""
