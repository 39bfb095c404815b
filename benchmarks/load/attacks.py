"""Attacks on a server, as a process of their own: one attack is one function, and `ATTACKS` lists them all.

Run as `python -m benchmarks.load.attacks NAME PORT SECONDS`. It prints a line when it begins, and when it ends
how often the server closed a connection of the attacker. A closed connection is opened again, as an attacker would.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from benchmarks.load import costly_attacks
from benchmarks.load.websocket import Gone, WebSocket, frame, upgrade
from benchmarks.ours.sessions import Key, Space, query_of, write
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.wire.connection.client_side import ClientConnection
from stemmadb.protocol.wire.messages.session import Ping
from stemmadb.protocol.wire.version import JSON, MSGPACK, Subprotocol, space_path

FIRST, NEXT, TEXT, BINARY, PING, COMPRESSED = 0x02, 0x00, 0x81, 0x82, 0x89, 0xC2
SOCKETS: Final = 2
PLACES: Final = 1_500
CHUNK_BYTES: Final = 1 << 20
AGAIN_SECONDS: Final = 0.05


class Target:
    """The server under attack, until the time is over; the attacker has an identity and a space of its own."""

    def __init__(self, port: int, seconds: float) -> None:
        self.port, self.closed, self.sent_bytes = port, 0, 0
        self._seconds, self._ends = seconds, 0.0
        self._numbers = iter(range(1, 1 << 30))
        self.key = Key()
        self.space = Space.made(port)

    def begin(self) -> None:
        """Everything is prepared: says so, and the time runs."""
        print("begun", flush=True)
        self._ends = time.perf_counter() + self._seconds

    def is_over(self) -> bool:
        return time.perf_counter() >= self._ends

    def stranger(self, subprotocol: Subprotocol = MSGPACK) -> socket.socket:
        """Greeted, and not opened."""
        return WebSocket(self.port, space_path(self.key.did), subprotocol).sock

    def member(self, subprotocol: Subprotocol = MSGPACK) -> socket.socket:
        """With an open session on the attacker's own space."""
        link = WebSocket(self.port, space_path(self.space.did), subprotocol)
        connection = ClientConnection(subprotocol=subprotocol, space=self.space.did)
        hello, key = link.recv(), self.space.key
        connection.receive(hello if subprotocol == MSGPACK else hello.decode())
        session = (next(self._numbers) << 64).to_bytes(16, "big")
        opening = connection.open(principal=key.did, session=session, sign=key.sign)
        link.sock.sendall(frame(opening) if isinstance(opening, bytes) else frame(opening.encode(), TEXT))
        link.recv()
        return link.sock

    def flood(self, connect: Callable[[], socket.socket], data: bytes, *, first: bytes = b"") -> None:
        """Sends `first` and then `data` again and again over some connections, and reads what comes back."""
        streams: dict[socket.socket, _Stream] = {}
        while not self.is_over():
            while len(streams) < SOCKETS:
                try:
                    sock = connect()
                    sock.setblocking(False)
                    streams[sock] = _Stream(first, data)
                except (OSError, Gone):
                    time.sleep(AGAIN_SECONDS)
                    if self.is_over():
                        return
            readable, writable, _ = select.select(streams, streams, [], 0.1)
            for sock in {*readable, *writable}:
                try:
                    if sock in readable:
                        _drop(sock)
                    if sock in writable:
                        self.sent_bytes += streams[sock].send(sock)
                except OSError:
                    self.closed += 1
                    del streams[sock]
                    sock.close()
        for sock in streams:
            sock.close()


class _Stream:
    """Bytes to send, once and then again and again."""

    def __init__(self, first: bytes, again: bytes) -> None:
        self._left = memoryview(first or again)
        self._again = memoryview(again)

    def send(self, sock: socket.socket) -> int:
        sent = sock.send(self._left[: 1 << 18])
        self._left = self._left[sent:] if sent < len(self._left) else self._again
        return sent


def _drop(sock: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        if not sock.recv(1 << 18):
            raise ConnectionResetError


def _many(data: bytes) -> bytes:
    return data * (CHUNK_BYTES // len(data) or 1)


# ---------------------------------------------------------------- strangers


def stranger_fragments(target: Target) -> None:
    """One-byte fragments before `session.open`."""
    target.flood(target.stranger, _many(frame(b"x", NEXT)), first=frame(b"x", FIRST))


def stranger_fragments_json(target: Target) -> None:
    target.flood(lambda: target.stranger(JSON), _many(frame(b"x", NEXT)), first=frame(b"x", FIRST - 1))


def stranger_pings(target: Target) -> None:
    target.flood(target.stranger, _many(frame(b"", PING)))


def stranger_compression(target: Target) -> None:
    """Offers `permessage-deflate` and sends compressed frames, whatever the server answers."""

    def connect() -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", target.port), timeout=5)
        asked = upgrade(target.port, space_path(target.key.did), MSGPACK)
        sock.sendall(asked[:-2] + b"Sec-WebSocket-Extensions: permessage-deflate; client_no_context_takeover\r\n\r\n")
        return sock

    target.flood(connect, _many(frame(b"\x4b\x04\x00", COMPRESSED)))


def all_places(target: Target) -> None:
    """Takes as many connections as it can get, and keeps them."""
    asked = upgrade(target.port, space_path(target.key.did), MSGPACK)
    places: list[socket.socket] = []
    with contextlib.suppress(OSError):
        while len(places) < PLACES and not target.is_over():
            places.append(socket.create_connection(("127.0.0.1", target.port), timeout=5))
            places[-1].sendall(asked)
    while not target.is_over():
        time.sleep(AGAIN_SECONDS)
    for place in places:
        place.close()


# ---------------------------------------------------------------- members


def pings(target: Target) -> None:
    target.flood(target.member, _many(frame(b"", PING)))


def fragments(target: Target) -> None:
    target.flood(target.member, _many(frame(b"x", NEXT)), first=frame(b"x", FIRST))


def short_messages_in_fragments(target: Target) -> None:
    """Whole messages, each of many one-byte fragments, so that no bound on one message is reached."""
    message = frame(b"\xc1", FIRST) + frame(b"x", NEXT) * 500 + frame(b"x", NEXT | 0x80)
    target.flood(target.member, _many(message))


def unreadable(target: Target) -> None:
    target.flood(target.member, _many(frame(b"\xc1")))


def ping_requests(target: Target) -> None:
    requests = b"".join(frame(write(Ping(id=number))) for number in range(1, 40_000))
    target.flood(target.member, requests)


def open_brackets(target: Target) -> None:
    """JSON: one `{` for each message."""
    target.flood(lambda: target.member(JSON), _many(frame(b"{", TEXT)))


def long_brackets(target: Target) -> None:
    """JSON: messages of 500 KB of `[`."""
    target.flood(lambda: target.member(JSON), frame(b"[" * 500_000, TEXT))


def too_large(target: Target) -> None:
    """Messages of one byte more than `message_bytes_max`."""
    target.flood(target.member, frame(b"\x81\xa4type\xc6" + struct.pack(">I", 1 << 24) + bytes((1 << 24) - 9)))


def slow_readers(target: Target) -> None:
    """Twenty sessions that watch large values, have many more sent, and read nothing."""
    writer = target.space.session()
    readers = []
    for _ in range(20):
        reader = target.space.session(receive_bytes=4_096)
        reader.watch(query_of("*"))
        readers.append(reader)
    number = 0
    while not target.is_over():
        number += 1
        body = encode({"text": "x" * 1_000_000, "number": number})
        writer.commit([Operation(op="set", id=EntityId(f"urn:large:{number % 8}"), body=body, blind=True)])
    for reader in readers:
        reader.link.close()


Attack: TypeAlias = Callable[[Target], None]
ATTACKS: Final[dict[str, Attack]] = {
    attack.__name__: attack
    for attack in (
        stranger_fragments,
        stranger_fragments_json,
        stranger_pings,
        stranger_compression,
        all_places,
        pings,
        fragments,
        short_messages_in_fragments,
        unreadable,
        ping_requests,
        open_brackets,
        long_brackets,
        too_large,
        slow_readers,
    )
}
COSTLY: Final[dict[str, Attack]] = {
    attack.__name__: attack
    for attack in (
        costly_attacks.costly_watches,
        costly_attacks.costly_roots,
        costly_attacks.many_watches,
        costly_attacks.large_watched_document,
        costly_attacks.diff_pages,
        costly_attacks.blame_pages,
        costly_attacks.unfounded_spaces,
    )
}
"""Those that have something to prepare, and begin by themselves."""


def main(arguments: Sequence[str]) -> None:
    name, port, seconds = arguments
    target = Target(int(port), float(seconds))
    if name in ATTACKS:
        target.begin()
    with contextlib.suppress(OSError, Gone):
        (ATTACKS | COSTLY)[name](target)
    print(json.dumps({"closed": target.closed, "megabytes": target.sent_bytes / 1e6}))


if __name__ == "__main__":
    main(sys.argv[1:])
