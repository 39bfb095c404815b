"""HTTP beside the WebSocket: a GET at the head, a conditional PUT beside a commit, and streams of events."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable
from functools import partial
from urllib.parse import quote

import msgspec

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.retries import retried
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.systems import serving
from benchmarks.harness.turns import Turns
from benchmarks.load.document import DOCUMENT
from benchmarks.load.figures import Figures
from benchmarks.load.http import EventLink, HttpLink, HttpReader, field, request
from benchmarks.load.loop import closed_loop, closing, fan_out
from benchmarks.load.processes import rss_mb
from benchmarks.load.websocket import WebSocket
from benchmarks.ours import service
from benchmarks.ours.sessions import Space
from benchmarks.ours.writers import Writer
from benchmarks.peers.port import Peer
from stemmadb.protocol.model.access import access_token
from stemmadb.protocol.model.access.access_token import AccessToken
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.protocol.wire.version import MSGPACK, space_path

NAME = "http"
TITLE = (
    "HTTP: a GET at the head, a conditional PUT beside a commit on a WebSocket, 1,000 readers of a stream of events"
)
GET, PUT, COMMIT, STREAM = (f"{NAME}: {what}" for what in ("get", "put", "commit", "stream"))
READERS, READERS_QUICK = 1_000, 100
COMMITS = 200
HOUR_MS = 3_600_000


class HttpWriter:
    """A client of a closed loop: PUTs its own entity, on the tag of what it wrote before."""

    def __init__(self, port: int, target: str, token: str) -> None:
        self.link = HttpLink(port)
        self.answered: Callable[[], None] = lambda: None
        self._target, self._token, self._count = target, token, 0
        head, _ = self.link.ask(self._request("If-None-Match", "*"))
        self._tag = field(head, b"ETag")
        self.link.took = self._took

    def send(self) -> None:
        assert self._tag is not None, "every write is answered with a tag"
        self.link.send(self._request("If-Match", self._tag))

    def _request(self, condition: str, tag: str) -> bytes:
        self._count += 1
        body = json.dumps(DOCUMENT | {"count": self._count}).encode()
        return request("PUT", self._target, self._token, body, **{condition: tag})

    def _took(self, head: bytes, body: bytes) -> None:
        assert b" 200 " in head[:13], (head, body)
        self._tag = field(head, b"ETag")
        self.answered()


class EtcdWriter(HttpReader):
    """The same on etcd's HTTP gateway, which takes gRPC messages as JSON; without a condition.

    Without a token, too: etcd answers 401 to any that it does not know.
    """

    def __init__(self, port: int) -> None:
        value = base64.b64encode(json.dumps(DOCUMENT).encode()).decode()
        body = json.dumps({"key": base64.b64encode(b"http").decode(), "value": value}).encode()
        super().__init__(port, request("POST", "/v3/kv/put", None, body))


class Side:
    """Our server with a space, and a token of its owner."""

    def __init__(self, server: service.Server) -> None:
        self.server = server
        self.space = Space.made(server.port)
        self.path = space_path(self.space.did)
        greeted = WebSocket(server.port, self.path, MSGPACK)
        did = msgspec.msgpack.decode(greeted.recv())["server"]
        greeted.close()
        now = TimeMs(int(time.time() * 1_000))
        said = AccessToken(
            server=did,
            space=self.space.did,
            principal=self.space.key.did,
            role="write",
            prefixes=("",),
            not_before=now,
            expires=TimeMs(now + HOUR_MS),
            nonce=os.urandom(16),
        )
        self.token = access_token.write_text(access_token.issue(said, self.space.key.sign))
        self._made = 0

    def entity(self) -> str:
        self._made += 1
        return f"urn:http:{self._made}"

    def writer(self) -> HttpWriter:
        return HttpWriter(self.server.port, f"{self.path}/entity?id={self.entity()}", self.token)

    def reader(self, id_: str) -> HttpReader:
        return HttpReader(self.server.port, request("GET", f"{self.path}/entity?id={id_}", self.token))

    def stream(self, id_: str) -> EventLink:
        return EventLink(self.server.port, request("GET", f"{self.path}/watch?select={quote(id_)}", self.token))

    def measure(self, turns: Turns, plan: Plan) -> None:
        pid = self.server.pid
        known = self.entity()
        writer = self.space.of(Writer).begin(known)
        for clients in (1, 32):
            made: dict[str, list[HttpReader | HttpWriter | Writer]] = {
                GET: [self.reader(known) for _ in range(clients)],
                PUT: [self.writer() for _ in range(clients)],
                COMMIT: [self.space.of(Writer).begin(self.entity()) for _ in range(clients)],
            }
            for scenario, driven in made.items():
                with closing(driven):
                    figures = closed_loop(driven, pid=pid, seconds=plan.seconds)
                    turns.add_figures(Key(scenario, rows.OURS, clients), figures)
        self._streams(turns, plan, known, writer)

    def _streams(self, turns: Turns, plan: Plan, known: str, writer: Writer) -> None:
        count, before = plan.pick(quick=READERS_QUICK, usual=READERS), rss_mb(self.server.pid)
        streams = [self.stream(known) for _ in range(count)]
        each_kb = (rss_mb(self.server.pid) - before) * 1_024 / count
        with closing([*streams, writer]):
            events, _ = fan_out(writer, streams, pid=self.server.pid, commits=COMMITS, seconds=plan.seconds * 4)
            turns.add_figures(Key(STREAM, rows.OURS, count), events, kb_each=each_kb)


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    peers = tuple(peer for peer in plan.peers if peer == rows.ETCD)
    with serving(peers) as systems, service.served(http_streams_max=READERS + 1) as server:
        side = Side(server)
        for _ in range(plan.reps):
            side.measure(turns, plan)
            for system in systems:
                if system.name != rows.ETCD:
                    continue
                figures = retried(rows.ETCD, partial(_etcd, system, plan.seconds))
                turns.add_figures(Key(PUT, rows.ETCD, 1), figures)
    return turns.rows()


def _etcd(system: Peer, seconds: float) -> Figures:
    writer = EtcdWriter(system.port)  # type: ignore[attr-defined]  # etcd has one
    with closing([writer]):
        return closed_loop([writer], pid=system.pids, seconds=seconds)
