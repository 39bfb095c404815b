"""Whole conversations with fixed keys in both encodings: what each side sends, in order (`transcripts.json`)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from service_peers import ALICE, BOB, SPACE, Peer, ServiceHarness, patch, put, service_harness
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit.request import Operation, Read
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.messages.reading import LogRequest, QueryRequest
from stemmadb.protocol.wire.messages.session import HeldWatch
from stemmadb.protocol.wire.version import JSON, MSGPACK, Subprotocol

Line = dict[str, Any]
SESSION: Final = bytes(range(16))
ALICE_SEED: Final = hashlib.sha256(b"alice").hexdigest()
TODOS: Final = Query((Root("urn:todo:*"),))


def transcripts() -> dict[str, Any]:
    """Each conversation twice: the same messages as JSON texts and as msgpack."""
    return {
        "description": "Conversations of alice with a server, level by level, each in both encodings: `json` is the "
        "text of a message, `msgpack_hex` its bytes. The seed of alice's key is the SHA-256 of the text `alice`: "
        f"{ALICE_SEED}. Her space is {SPACE.did}. Salts, times and challenges are fixed.",
        "cases": [
            {"title": title, "subprotocol": subprotocol, "lines": asyncio.run(_recorded(play, subprotocol))}
            for title, play in CONVERSATIONS.items()
            for subprotocol in (JSON, MSGPACK)
        ],
    }


class _Recorded(Peer):
    """A peer that writes down what goes either way."""

    lines: list[Line]

    def give(self, data: Data) -> None:
        self.lines.append(_line("client", data))
        super().give(data)

    def take(self) -> None:
        self.lines.extend(_line("server", data) for data in self.wire.sent)
        super().take()


def _line(sender: str, data: Data) -> Line:
    return {"from": sender, **({"json": json.loads(data)} if isinstance(data, str) else {"msgpack_hex": data.hex()})}


Play = Callable[[ServiceHarness, "_Peers"], Awaitable[None]]


async def _recorded(
    play: Callable[[ServiceHarness, _Peers], Awaitable[None]], subprotocol: Subprotocol
) -> list[Line]:
    async with service_harness() as home:
        peers = _Peers(home, subprotocol)
        await play(home, peers)
        return peers.lines


class _Peers:
    """Makes the connections of one conversation; all of them write into one list."""

    def __init__(self, home: ServiceHarness, subprotocol: Subprotocol) -> None:
        self._home, self._subprotocol, self.lines = home, subprotocol, list[Line]()

    def connect(self) -> _Recorded:
        peer = _Recorded(self._home, ALICE, session=SESSION, subprotocol=self._subprotocol)
        peer.lines = self.lines
        self._home.peers.append(peer)
        return peer


async def _open_commit_query(_home: ServiceHarness, peers: _Peers) -> None:
    alice = await peers.connect().open()
    await alice.commit(put("urn:todo:1", {"title": "write a client", "done": False}))
    await alice.ask(QueryRequest, query=TODOS)
    with suppress(StemmaError):  # the error is a line of the conversation
        await alice.ask(LogRequest, version=99)


async def _watch_and_resume(home: ServiceHarness, peers: _Peers) -> None:
    bob = await home.peer(BOB).open()
    await bob.commit(put("urn:todo:1", {"title": "one"}))
    alice = await peers.connect().open()
    await alice.watch(1, "urn:todo:*")
    await bob.commit(patch("urn:todo:1", {"op": "replace", "path": "/title", "value": "two"}))
    alice.lose()
    await bob.commit(put("urn:todo:2", {"title": "while away"}))
    held = (HeldWatch(watch=1, query=TODOS, filled=True),)
    await peers.connect().open(to=alice.connection.to, hash=alice.connection.hash, watches=held)


async def _conflict(home: ServiceHarness, peers: _Peers) -> None:
    bob = await home.peer(BOB).open()
    alice = await peers.connect().open()
    await alice.watch(1, "urn:todo:*")
    await bob.commit(put("urn:todo:1", {"title": "bob was first"}))
    stale = Read(version=Version(1), id=EntityId("urn:todo:1"))
    write = Operation(op="set", id=EntityId("urn:todo:1"), body=encode({"title": "alice read an older version"}))
    await alice.commit(write, reads=(stale,))


CONVERSATIONS: Final[dict[str, Play]] = {
    "level 1: open, commit, query, an error": _open_commit_query,
    "level 2: watch, lose the connection, resume": _watch_and_resume,
    "level 3: a commit that is rejected with a conflict": _conflict,
}
