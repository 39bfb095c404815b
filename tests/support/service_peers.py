"""A service in process, without sockets, and clients that speak to it through the wire's own client end."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from engines import inline_executors
from stemmadb.protocol import identity
from stemmadb.protocol.model.commit.request import Content, Operation, Read
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Local, TimeMs, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.codec.msgpack_codec import Data, encode_content
from stemmadb.protocol.wire.connection.base import Closed
from stemmadb.protocol.wire.connection.client_side import Answered, ClientConnection, ClientEvent, SessionPosition
from stemmadb.protocol.wire.messages.base import Part, Request
from stemmadb.protocol.wire.messages.commit import CommitMessage, Deferred
from stemmadb.protocol.wire.messages.reading import WatchRequest
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.protocol.wire.version import JSON, MSGPACK, Subprotocol
from stemmadb.server.counters import Counts
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.store import Store
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.service.base.transport import DRAIN_BYTES, Arrival, RawWriter, Write
from stemmadb.server.service.service import Service
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import Storage


class Key:
    """An identity made from a name, so that tests are the same each time."""

    def __init__(self, name: str) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())
        self.did: Did = identity.did_of(self._key.public_key().public_bytes_raw())

    def sign(self, payload: bytes) -> bytes:
        return self._key.sign(payload)


SERVER, SPACE, ALICE, BOB, CAROL = (Key(name) for name in ("server", "space", "alice", "bob", "carol"))


class Clock:
    def __init__(self) -> None:
        self.now = 1_790_000_000_000

    def __call__(self) -> TimeMs:
        return TimeMs(self.now)


class Wire:
    """A socket in memory: what is sent waits until the peer takes it."""

    def __init__(self, *, is_text: bool) -> None:
        self.is_text = is_text
        self.sent: list[Data] = []
        self.unsent = 0
        self.is_paused = False
        self.closed: int | None = None
        self._raw_writer = RawWriter()
        self.is_reading = True
        """Whether the peer takes what is sent."""

    def send(self, data: Data) -> None:
        if self.closed is None:
            self.sent.append(data)
            self.unsent += 0 if self.is_reading else len(data)

    def framed(self, data: Data) -> bytes:
        return data.encode() if isinstance(data, str) else data

    def raw_writer(self, end: Callable[[], None]) -> Write | None:
        if self.unsent > DRAIN_BYTES or self.closed is not None:
            return None
        self._raw_writer.begin(end)
        return self._write

    def _write(self, frame: bytes) -> None:
        self.send(frame.decode() if self.is_text else frame)
        if self.unsent > DRAIN_BYTES:
            self._raw_writer.end()

    def clog(self, unsent: int) -> None:
        """So many bytes wait for a peer that does not read, as the system says."""
        self.is_reading, self.unsent = False, unsent
        if unsent > DRAIN_BYTES:
            self._raw_writer.end()

    def release_raw_writer(self) -> None:
        self._raw_writer.release()

    def repeated(self, count: int, size: int) -> None:
        """Nothing is counted here."""

    def trust(self) -> None:
        """Nothing is bounded here."""

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def close(self, code: int) -> None:
        if self.closed is None:
            self.closed = code
            self._raw_writer.end()


class Peer:
    """A client on one connection; everything that happened to it is in `events`."""

    def __init__(
        self, harness: ServiceHarness, key: Key, *, space: Did | None = None, session: bytes, subprotocol: Subprotocol
    ):
        self.harness = harness
        self.key = key
        self.session = session
        self.wire = Wire(is_text=subprotocol == JSON)
        self.events: list[ClientEvent] = []
        self.frames: list[Sync] = []
        self.is_lost = False
        self._local = 0
        space = space or harness.space
        self.connection = ClientConnection(subprotocol=subprotocol, space=space, limits=harness.limits)
        arrival = Arrival(space=space, subprotocol=subprotocol, address="127.0.0.1")
        self.handler = harness.service.welcome(self.wire, arrival)
        self._waiting: list[Data] = []

    # ------------------------------------------------------------ carrying messages

    def take(self) -> None:
        """Takes what was sent to it."""
        if not self.wire.is_reading:
            return
        sent, self.wire.sent = self.wire.sent, []
        for data in sent:
            for event in self.connection.receive(data):
                self.events.append(event)
                if isinstance(event, Sync):
                    self.frames.append(event)
        if self.wire.closed is not None and not self.is_lost:
            self.lose()

    def give(self, data: Data) -> None:
        self._waiting.append(data)
        self.pump()

    def pump(self) -> None:
        while self._waiting and not self.wire.is_paused and not self.is_lost:
            self.handler.received(self._waiting.pop(0))

    def lose(self) -> None:
        self.is_lost = True
        self.handler.lost()

    def stop_reading(self) -> None:
        self.wire.is_reading = False

    def read_on(self) -> None:
        was = self.wire.unsent
        self.wire.is_reading, self.wire.unsent = True, 0
        self.take()
        if was > DRAIN_BYTES:
            self.handler.drained()

    async def settle(self) -> None:
        """Until nothing happens any more, here and for everybody else."""
        await self.harness.settle()

    # ------------------------------------------------------------ speaking

    async def open(self, **standing: Any) -> Peer:
        self.take()
        self.give(
            self.connection.open(
                principal=self.key.did, session=self.session, sign=self.key.sign, standing=SessionPosition(**standing)
            )
        )
        await self.settle()
        return self

    async def ask(self, kind: type[Request], **fields: Any) -> Part:
        """The result; raises the error that was answered."""
        request = kind(id=self.connection.next_id(), **fields)
        self.give(self.connection.request(request))
        await self.settle()
        answered = [one for one in self.events if isinstance(one, Answered) and one.request is request]
        assert len(answered) == 1, f"{request} has {len(answered)} answers"
        result = answered[0].result
        if isinstance(result, Exception):
            raise result
        return result

    def answers(self, request: Request) -> list[Exception | None]:
        """How often it was answered, and with which error."""
        found = [one.result for one in self.events if isinstance(one, Answered) and one.request is request]
        return [result if isinstance(result, Exception) else None for result in found]

    async def watch(self, number: int, *roots: Root | str, branch: str = "main", **more: Any) -> Part:
        asked = Query(roots=tuple(Root(one) if isinstance(one, str) else one for one in roots), branch=branch)
        return await self.ask(WatchRequest, watch=number, query=asked, **more)

    def send(self, *operations: Operation, reads: tuple[Read, ...] = (), branch: str = "main", **more: Any) -> Local:
        content = Content(operations=operations, reads=reads, branch=BranchName(branch), note=more.pop("note", None))
        self._local += 1
        local = more.pop("local", Local(self._local))
        nonce = more.pop("nonce", local.to_bytes(16, "big"))
        message = CommitMessage(local=local, nonce=nonce, content=encode_content(content), **more)
        self.give(self.connection.commit(message))
        return Local(local)

    async def commit(self, *operations: Operation, **more: Any) -> Any:
        """Its verdict."""
        local = self.send(*operations, **more)
        await self.settle()
        return self.verdict(local)

    def verdict(self, local: int) -> Any:
        found = [one for frame in self.frames for one in frame.verdicts if one.local == local]
        assert len(found) == 1, f"commit {local} has {len(found)} verdicts"
        return found[0]

    # ------------------------------------------------------------ what it was told

    @property
    def closed(self) -> Closed | None:
        return next((one for one in self.events if isinstance(one, Closed)), None)

    @property
    def deferred(self) -> list[Deferred]:
        return [one for one in self.events if isinstance(one, Deferred)]


def put(id_: str, value: Any) -> Operation:
    return Operation(op="set", id=EntityId(id_), body=encode(value), blind=True)


def patch(id_: str, *operations: dict[str, Any]) -> Operation:
    return Operation(op="patch", id=EntityId(id_), body=encode(list(operations)), blind=True)


def remove(id_: str) -> Operation:
    return Operation(op="delete", id=EntityId(id_), blind=True)


def read(id_: str, version: int, path: str = "") -> Read:
    return Read(version=Version(version), id=EntityId(id_), path=path)


class ServiceHarness:
    """A service on memory whose blocking work runs on the loop, so that everything happens in order."""

    def __init__(
        self,
        storage: Storage,
        *,
        limits: Limits,
        settings: ServiceSettings,
        workers: executors.Executors | None = None,
    ) -> None:
        self.clock = Clock()
        self.limits = limits
        self.space = SPACE.did
        self._random = 0
        self.storage = storage
        self.counts = Counts()
        self.store = Store(
            storage,
            now=self.clock,
            salts=iter(lambda: self.random(16), b""),
            workers=workers or inline_executors(),
            limits=limits,
            counts=self.counts,
        )
        self.service = Service(
            self.store,
            server=SERVER.did,
            now=self.clock,
            random=self.random,
            limits=limits,
            settings=settings,
            workers=executors.Inline(),
            counts=self.counts,
        )
        self.peers: list[Peer] = []
        self.turns = 40 if workers is None else 400

    def random(self, count: int) -> bytes:
        self._random += 1
        return hashlib.sha256(self._random.to_bytes(8, "big")).digest()[:count]

    def peer(
        self, key: Key, *, session: bytes | None = None, subprotocol: Subprotocol = MSGPACK, space: Did | None = None
    ) -> Peer:
        peer = Peer(self, key, session=session or self.random(16), subprotocol=subprotocol, space=space)
        self.peers.append(peer)
        return peer

    async def settle(self, times: int = 1) -> None:
        """Some turns of the loop: enough for one thing to be done, more if its workers take their time."""
        for _ in range(times * self.turns):
            await asyncio.sleep(0)
            for peer in self.peers:
                peer.pump()
                peer.take()

    async def make_space(self, **roles: str) -> None:
        """Its access list: alice owns it, and the others as given."""
        owner = await self.peer(SPACE).open()
        listed = {ALICE.did: "own"} | {Key(name).did: role for name, role in roles.items()}
        verdict = await owner.commit(put(self.space, listed))
        assert verdict.version == 1
        owner.lose()


@asynccontextmanager
async def service_harness(
    *,
    storage: Storage | None = None,
    limits: Limits = DEFAULTS,
    settings: ServiceSettings | None = None,
    workers: executors.Executors | None = None,
    bare: bool = False,
) -> AsyncIterator[ServiceHarness]:
    """A harness with a space that alice owns, where bob may write and carol may read, unless it is bare."""
    settings = settings or ServiceSettings()
    if settings.refusal_ms == ServiceSettings().refusal_ms:  # at once, unless a test is about it
        settings = msgspec.structs.replace(settings, refusal_ms=0)
    internal_errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: internal_errors.append(context))
    made = ServiceHarness(storage or MemoryStorage(), limits=limits, settings=settings, workers=workers)
    if not bare:
        await made.make_space(bob="write", carol="read")
    try:
        yield made
    finally:
        for peer in made.peers:
            if not peer.is_lost:
                peer.lose()
        await made.service.stop()
        await made.store.close()
    assert not internal_errors, internal_errors
