"""A client written from docs/spec alone: it opens, commits, watches, resumes, and checks whatever can be checked.

It reads the socket only while one of its methods waits, so that a test says when a client reads and when it is slow.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin, Subprotocol

import plain_chain
from plain_bytes import Key, opening_payload, pack, unpack
from plain_content import ABSENT, content_of
from plain_holding import BrokenStream, Fields, Holding, Sent, Watch
from plain_text import from_text, to_text

PATIENCE_SECONDS = 10.0
"""How long any one message is awaited before the test fails."""
RECEIVE_BYTES = 64 * 1024
BINARY, TEXT = Subprotocol("stemma.v1.msgpack"), Subprotocol("stemma.v1.json")


class Refused(Exception):
    """A request was answered with `error`."""

    def __init__(self, error: Fields) -> None:
        super().__init__(f"{error['code']}: {error['message']} {error.get('details')}")
        self.code: str = error["code"]
        self.error = error
        self.details: Fields = error.get("details") or {}


class Gone(Exception):
    """The connection is over; `farewell` is the goodbye, if one was said."""

    def __init__(self, farewell: Fields | None, code: int | None) -> None:
        super().__init__(f"{farewell} (close code {code})")
        self.farewell, self.close_code = farewell or {}, code


async def _narrow_socket(address: str) -> socket.socket:
    """A connected socket whose receive buffer does not grow."""
    where, made = urlsplit(address), socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, (where.hostname, where.port))
    return made


class PlainClient:
    """One session of one principal on one space."""

    def __init__(
        self, address: str, space: str, key: Key, *, text: bool = False, session: bytes | None = None,
        delegations: list[bytes] | None = None, origin: str | None = None,
    ) -> None:  # fmt: skip
        self.address, self.space, self.key, self.text = address, space, key, text
        self.holding = Holding(space, session or secrets.token_bytes(16))
        self.delegations, self.origin = delegations or [], origin
        self.limits: dict[str, int] = {}
        self.hello: Fields = {}
        self.deferred: list[Fields] = []
        self.errors: list[Fields] = []
        """Errors about messages that could not be read and had no `id`."""
        self.heard: list[str] = []
        """The types of the messages of this connection, in order."""
        self.heard_bytes = 0
        self.last_local = 0
        self._socket: ClientConnection | None = None
        self._number = 0
        self._waiting: set[int] = set()
        self._answers: dict[int, Fields] = {}
        self._farewell: Fields | None = None

    # The connection

    async def greet(self, *, slow: bool = False) -> Fields:
        """Connects and reads `hello`; one that is slow takes next to nothing while nobody waits for it."""
        origin = Origin(self.origin) if self.origin else None
        self._socket = await connect(
            f"{self.address}/v1/spaces/{self.space}", subprotocols=[TEXT if self.text else BINARY], origin=origin,
            compression=None, max_size=None, max_queue=1 if slow else 16, ping_interval=None, proxy=None,
            close_timeout=1, sock=await _narrow_socket(self.address) if slow else None,
        )  # fmt: skip
        self._waiting, self._answers, self._farewell, self.heard = set(), {}, None, []
        self.holding.forget_parts()
        self.hello = await self.receive()
        assert self.hello["type"] == "hello"
        assert self.hello["protocol"] == 1
        self.limits = self.hello.get("limits") or {}
        return self.hello

    def opening(self, **instead: Any) -> Fields:
        """The `session.open` for what is held; `instead` replaces fields, for those who lie."""
        held = self.holding
        signed = opening_payload(
            server=self.hello["server"], challenge=self.hello["challenge"], space=self.space,
            principal=self.key.did, session=held.session,
        )  # fmt: skip
        message: Fields = {
            "type": "session.open", "principal": self.key.did, "session": held.session,
            "signature": self.key.sign(signed), "space": self.space,
        }  # fmt: skip
        if held.to:
            message |= {"to": held.to, "hash": held.hash}
        own = [local for session, local in held.pending if session == held.session]
        message["lowest"] = min(own, default=self.last_local + 1)
        if own:
            message["held"] = own
        for number, watch in held.watches.items():
            if not watch.filled:
                held.release(number)
        if watches := {number: watch for number, watch in held.watches.items() if watch.ended is None}:
            message["watches"] = [
                {"watch": number, "query": watch.query, "filled": watch.filled} for number, watch in watches.items()
            ]
        if self.delegations:
            message["delegations"] = self.delegations
        return message | instead

    async def open(self, *, slow: bool = False, **instead: Any) -> Fields:
        """Connects, signs, and applies the first frame, which is the answer."""
        await self.greet(slow=slow)
        await self.send(self.opening(**instead))
        frames = len(self.holding.frames)
        await self.until(lambda: len(self.holding.frames) > frames)
        return self.holding.frames[-1]

    async def resume(self) -> Fields:
        """Comes back: the first frame, then every undecided commit again, the oldest first (RESUME-2)."""
        frame = await self.open()
        if frame.get("reset") != "history":
            await self.send_again()
        return frame

    async def send_again(self) -> None:
        for sent in list(self.holding.pending.values()):
            await self._send_commit(sent)

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()
            self._socket = None

    def abort(self) -> None:
        """The network is gone: no close frame, nothing more is read."""
        assert self._socket is not None
        self._socket.transport.abort()
        self._socket = None

    async def send(self, message: Fields) -> None:
        await self.send_raw(to_text(message) if self.text else pack(message))

    async def send_raw(self, data: bytes | str) -> None:
        assert self._socket is not None
        try:
            await self._socket.send(data)
        except ConnectionClosed:
            await self._drain()

    async def _drain(self) -> None:
        """The server closed: what it said before that is read, then Gone is raised."""
        while True:
            await self.pump()

    async def receive(self) -> Fields:
        """One message, in the form it has in msgpack."""
        assert self._socket is not None
        try:
            data = await asyncio.wait_for(self._socket.recv(), PATIENCE_SECONDS)
        except ConnectionClosed as closed:
            raise Gone(self._farewell, closed.rcvd.code if closed.rcvd else None) from None
        if isinstance(data, str) is not self.text:
            raise BrokenStream("text where binary is spoken, or binary where text is")
        self.heard_bytes += len(data)
        message: Fields = from_text(data) if isinstance(data, str) else unpack(data)
        self.heard.append(message["type"])
        return message

    async def pump(self) -> Fields:
        """Receives one message and does what it says."""
        message = await self.receive()
        kind = message["type"]
        if kind == "sync":
            self.holding.take(message)
        elif kind in ("ok", "error") and message.get("id") is not None:
            if message["id"] not in self._waiting:
                raise BrokenStream(f"an answer to no request: {message}")
            self._waiting.discard(message["id"])
            self._answers[message["id"]] = message
        elif kind == "error":
            self._refuse(message)
        elif kind == "deferred":
            self.deferred.append(message)
        elif kind == "goodbye":
            self._farewell = message
        else:
            raise BrokenStream(f"an unknown message: {kind}")
        return message

    def _refuse(self, error: Fields) -> None:
        """A commit that could not be read is as good as rejected."""
        self.errors.append(error)
        if error.get("local") is not None:
            self.holding.pending.pop((error.get("session", self.holding.session), error["local"]), None)

    async def until(self, done: Callable[[], bool]) -> None:
        """Reads until something is so."""
        while not done():
            await self.pump()

    async def farewell(self) -> Gone:
        """Reads until the connection is over."""
        try:
            await self._drain()
        except Gone as gone:
            return gone
        raise AssertionError("a drain ends with Gone")

    # Requests

    async def ask(self, kind: str, **fields: Any) -> int:
        """Sends a request; its number."""
        self._number += 1
        self._waiting.add(self._number)
        await self.send({"type": kind, "id": self._number, **fields})
        return self._number

    async def answer(self, number: int) -> Fields:
        """The result of a request, or Refused."""
        await self.until(lambda: number in self._answers)
        message = self._answers.pop(number)
        if message["type"] == "error":
            raise Refused(message)
        result: Fields = message["result"]
        return result

    async def request(self, kind: str, **fields: Any) -> Fields:
        return await self.answer(await self.ask(kind, **fields))

    async def refusal(self, kind: str, **fields: Any) -> Refused:
        """The error that a request is answered with."""
        try:
            result = await self.request(kind, **fields)
        except Refused as refused:
            return refused
        raise AssertionError(f"{kind} was answered with {result}")

    async def write(self, kind: str, **fields: Any) -> Fields:
        """A write that carries an operation id (COMMIT-11)."""
        given = {"operation": secrets.token_bytes(16), "nonce": secrets.token_bytes(16), **fields}
        return await self.request(kind, **given)

    async def pages(self, kind: str, items: str, **fields: Any) -> list[list[Fields]]:
        """Every page of a list."""
        found: list[list[Fields]] = []
        after: dict[str, str] = {}
        while True:
            result = await self.request(kind, **fields, **after)
            found.append(result.get(items) or [])
            if result.get("next") is None:
                return found
            after = {"after": result["next"]}

    async def query(self, query: Fields) -> dict[str, tuple[int, bytes, Any]]:
        """Version, hash and value of each entity of an answer; all pages, pinned to the version of the first."""
        pages = await self.pages("query", "entities", query=query)
        return {item["id"]: (item["version"], item["hash"], unpack(item["body"])) for page in pages for item in page}

    async def watch(self, number: int, query: Fields, **fields: Any) -> Fields:
        """Registers a watch and waits for its answer; it is filled by the stream.

        One that replaces another waits until that is filled: a frame that names it in `filled` does not say which.
        """
        before = self.holding.watches.get(number)
        if before is not None and before.ended is None:
            await self.until(lambda: before.filled or before.ended is not None)
        self.holding.watches[number] = Watch(query)
        return await self.request("watch", watch=number, query=query, **fields)

    async def watch_filled(self, number: int, query: Fields) -> dict[str, tuple[int, bytes, Any]]:
        """Registers a watch and waits until it is complete; what it holds."""
        await self.watch(number, query)
        await self.filled(number)
        return self.holding.held_by(number)

    async def filled(self, number: int) -> None:
        await self.until(lambda: self.holding.watches[number].filled)

    async def unwatch(self, number: int) -> None:
        assert await self.request("unwatch", watch=number) == {}
        self.holding.unwatch(number)

    async def heal(self) -> None:
        """Asks, once, for every entity that is not known for sure (SYNC-4)."""
        for branch, entity in self.holding.unknown():
            found = await self.query({"roots": [{"id": entity}], "branch": branch})
            held = self.holding.entities[branch, entity]
            if entity in found:
                held.version, held.hash, held.value = found[entity]
            held.exists, held.known = entity in found, True

    async def verified(self) -> bytes:
        """Verifies the whole space from its log; the hash of its last commit."""
        pages = await self.pages("log", "entries", order="oldest", with_facts=True)
        return plain_chain.verify(self.space, plain_chain.join_pages(pages))

    # Commits

    async def commit(
        self, *operations: Fields, reads: list[Fields] | None = None, branch: str = "main", note: Any = ABSENT,
        local: int | None = None,
    ) -> int:  # fmt: skip
        """Sends a commit; its local."""
        self.last_local = local or self.last_local + 1
        content = content_of(list(operations), reads=reads or [], branch=branch, note=note)
        sent = Sent(self.holding.session, self.last_local, secrets.token_bytes(16), content)
        self.holding.pending[sent.session, sent.local] = sent
        await self._send_commit(sent)
        return sent.local

    async def _send_commit(self, sent: Sent) -> None:
        message: Fields = {"type": "commit", "local": sent.local, "nonce": sent.nonce, "content": sent.content}
        if sent.session != self.holding.session:
            message["session"] = sent.session
        await self.send(message)

    async def verdict(self, local: int, session: bytes | None = None) -> Fields:
        """The verdict on a commit, once the frame that tells it is applied."""
        identity = (session or self.holding.session, local)
        await self.until(lambda: identity in self.holding.verdicts)
        return self.holding.verdicts[identity]

    async def write_now(self, *operations: Fields, **fields: Any) -> Fields:
        """Sends a commit and waits for its verdict, which is acceptance."""
        verdict = await self.verdict(await self.commit(*operations, **fields))
        assert verdict["verdict"] == "accepted", verdict
        return verdict

    async def rejected(self, *operations: Fields, **fields: Any) -> Fields:
        """Sends a commit and waits for its verdict, which is rejection."""
        verdict = await self.verdict(await self.commit(*operations, **fields))
        assert verdict["verdict"] == "rejected", verdict
        return verdict

    async def reach(self, version: int) -> None:
        """Reads until the stream has come to a version."""
        if self.holding.to < version:
            await self.query({"roots": [{"id": "urn:nobody:is:here"}]})
        assert self.holding.to >= version, f"an answer came before the frame that reaches {version} (SYNC-7)"
