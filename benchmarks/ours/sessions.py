"""Sessions on a served space that cost the load process little, and the space they are on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.load.websocket import WebSocket
from stemmadb.protocol import identity
from stemmadb.protocol.model.commit.request import Content, Operation, Read
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Did, EntityId, Hash, Local, Version
from stemmadb.protocol.wire.connection.client_side import ClientConnection, SessionPosition
from stemmadb.protocol.wire.messages.base import Request
from stemmadb.protocol.wire.messages.commit import CommitMessage
from stemmadb.protocol.wire.messages.reading import WatchRequest
from stemmadb.protocol.wire.messages.session import HeldWatch
from stemmadb.protocol.wire.version import MSGPACK, space_path


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


read = msgspec.msgpack.Decoder(Told).decode
write = msgspec.msgpack.Encoder().encode


class Session:
    """One session; it is opened and asked step by step, then driven by a loop."""

    def __init__(
        self,
        port: int,
        space: Did,
        key: Key,
        *,
        number: int,
        standing: SessionPosition | None = None,
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
        self.link.send(write(WatchRequest(id=number, watch=number, query=query)))
        while number not in self._take(self.link.recv()).filled:
            pass

    def ask(self, request: Request) -> None:
        """Asks and waits for the answer."""
        self.link.send(write(request))
        while self._take(self.link.recv()).type != "ok":
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
        content = write(Content(operations=tuple(operations), reads=tuple(reads)))
        message = CommitMessage(local=Local(self.local), nonce=self.local.to_bytes(16, "big"), content=content)
        self.link.send(write(message))

    def _take(self, data: bytes) -> Told:
        told = read(data)
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


S = TypeVar("S", bound=Session)


class Space:
    """A space and the key that made it, which owns it; it counts the sessions."""

    def __init__(self, port: int, key: Key, *, used: int = 0) -> None:
        """`used` sessions it has had before: no id may be taken twice."""
        self.port, self.key, self._number = port, key, used
        self.did = key.did

    @classmethod
    def made(cls, port: int, *, others: Sequence[Key] = (), key: Key | None = None) -> Self:
        """A new one."""
        self = cls(port, key or Key())
        roles = {self.did: "own"} | {other.did: "write" for other in others}
        first = self.session()
        first.commit([Operation(op="set", id=EntityId(self.did), body=encode(roles), blind=True)])
        first.link.close()
        return self

    def session(self, standing: SessionPosition | None = None, *, receive_bytes: int | None = None) -> Session:
        self._number += 1
        session = Session(
            self.port, self.did, self.key, number=self._number, standing=standing, receive_bytes=receive_bytes
        )
        return session.open()

    def of(self, kind: type[S]) -> S:
        """An open session of this kind."""
        self._number += 1
        session = kind(self.port, self.did, self.key, number=self._number)
        session.open()
        return session

    def at(self, port: int) -> None:
        """The server was started again and listens elsewhere."""
        self.port = port

    def unopened(self, standing: SessionPosition) -> Session:
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


def holding(session: Session, query: Query) -> SessionPosition:
    """What a client says that comes back with one watch."""
    held = HeldWatch(watch=1, query=query, filled=True)
    return SessionPosition(to=Version(session.to), hash=Hash(session.hash), watches=(held,))


def query_of(id_: str, schema: dict[str, Any] | bool | None = None) -> Query:
    return Query(roots=(Root(id=id_, schema=schema),))


def _nothing() -> None:
    """Nobody listens."""
