"""A flood of bad input, as a process of its own: bad handshakes, wrong signatures, messages that cannot be read.

Run as `python -m benchmarks.load.flood PORT SPACE KEY RATE`; it says when it begins, and how much it sent when
it is told to end.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import socket
import sys
import time
from collections import Counter

from benchmarks.load.websocket import Gone, WebSocket, frame, upgrade
from benchmarks.ours import sessions
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.version import MSGPACK

MESSAGES_EACH = 5
"""Bad messages in open sessions for every bad connection."""
BAD_MESSAGES = (
    b"\xc1\xff\xff",
    b"\x81\xa4type\xa6commit",
    b"\x82\xa4type\xa7nothing\xa2id\x01",
    b"\x92" * 4_000,
    b"\x83\xa4type\xa5query\xa2id\x02\xa5query\x81\xa5roots\x91\x81\xa2id\xa0",
)


class Flood:
    def __init__(self, port: int, space: Did, key: sessions.Key) -> None:
        self.port, self.space, self.key = port, space, key
        self.sent: Counter[str] = Counter()
        self._session: WebSocket | None = None
        self._number = itertools.count(10_000_000)
        self._messages = itertools.cycle(BAD_MESSAGES)
        self._connections = itertools.cycle((self._garbage, self._nowhere, self._half, self._wrong_signature))
        self._halves: list[socket.socket] = []

    def strike(self) -> None:
        """One bad connection, and some bad messages in an open session."""
        with contextlib.suppress(OSError, Gone):
            next(self._connections)()
        try:
            for _ in range(MESSAGES_EACH):
                self._bad_message()
        except (OSError, Gone):
            self._session = None
            self.sent["sessions ended"] += 1

    def _raw(self, data: bytes) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        sock.sendall(data)
        return sock

    def _garbage(self) -> None:
        self.sent["garbage"] += 1
        self._raw(b"\x16\x03\x01\x02\x00" * 400 + b"\r\n\r\n").close()

    def _nowhere(self) -> None:
        self.sent["bad paths"] += 1
        sock = self._raw(upgrade(self.port, "/v1/spaces/nowhere", MSGPACK))
        sock.recv(4_096)
        sock.close()

    def _half(self) -> None:
        """A handshake that never ends; a hundred are held at a time."""
        self.sent["half handshakes"] += 1
        self._halves.append(self._raw(b"GET /v1/spaces/ HTTP/1.1\r\nHost: x\r\n"))
        if len(self._halves) > 100:
            self._halves.pop(0).close()

    def _wrong_signature(self) -> None:
        self.sent["wrong signatures"] += 1
        session = sessions.Session(self.port, self.space, self.key, number=next(self._number))
        place = session.opening.index(b"signature") + 20
        session.link.send(session.opening[:place] + bytes(8) + session.opening[place + 8 :])
        with contextlib.suppress(Gone):
            while True:
                session.link.recv()
        session.link.close()

    def _bad_message(self) -> None:
        if self._session is None:
            opened = sessions.Session(self.port, self.space, self.key, number=next(self._number)).open()
            self._session = opened.link
            self._session.sock.setblocking(False)
        self.sent["bad messages"] += 1
        self._session.sock.sendall(frame(next(self._messages)))
        with contextlib.suppress(BlockingIOError):
            while self._session.sock.recv(1 << 16):
                pass


def main() -> None:
    port, space, secret, rate = sys.argv[1:]
    flood = Flood(int(port), Did(space), sessions.Key(bytes.fromhex(secret)))
    ends: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ends.append(1))
    print("begun", flush=True)
    began = time.perf_counter()
    for strike in itertools.count():
        if ends:
            break
        time.sleep(max(0.0, began + strike / float(rate) - time.perf_counter()))
        flood.strike()
    print(json.dumps({"seconds": time.perf_counter() - began, "sent": flood.sent}))


if __name__ == "__main__":
    main()
