"""One hundred watchers of one entity under load: writers never wait for them, so that events may come together."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.systems import serving
from benchmarks.harness.turns import Turns, columns
from benchmarks.load.document import DOCUMENT, VALUE
from benchmarks.load.figures import Figures, Pids
from benchmarks.load.loop import Client, Link, closed_loop
from benchmarks.ours.sessions import Space, query_of
from benchmarks.ours.system import System
from benchmarks.ours.writers import Writer
from benchmarks.peers import etcd
from benchmarks.peers.port import Peer
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.body import encode

NAME = "fanout_load"
TITLE = "100 watchers of one entity and 16 writers that do not wait for them, by event; beside etcd"
WATCHERS = 100
WRITERS = 16
SAMPLED = 10
"""Watchers whose events are timed; of the others only the bytes are taken, so that the load is not the bottleneck."""
_MARK = re.compile(rb"#(\d{12})#")


class Marks:
    """Each write carries its number, by which a watcher's event finds the time it was sent."""

    def __init__(self) -> None:
        self.sent: list[float] = []
        self.latencies: list[float] = []

    def next(self) -> str:
        self.sent.append(time.perf_counter())
        return f"#{len(self.sent) - 1:012d}#"

    def took(self, message: bytes) -> None:
        now = time.perf_counter()
        self.latencies += [now - self.sent[int(number)] for number in _MARK.findall(message)]


class Heard(Link, Protocol):
    """A connection whose messages can be given to somebody else."""

    took: Callable[[bytes], None]


class BlindWriter(Writer):
    marks: Marks

    def send(self) -> None:
        body = encode(DOCUMENT | {"mark": self.marks.next()})
        self.push((Operation(op="set", id=self.id, body=body, blind=True),))


class BlindEtcd(etcd.Writer):
    marks: Marks | None = None

    def send(self) -> None:
        mark = self.marks.next() if self.marks else ""
        self.put_blindly(encode(DOCUMENT | {"mark": mark}))


def ours(system: System, seconds: float) -> dict[str, float]:
    space, marks = Space.made(system.port), Marks()
    writers = [space.of(BlindWriter).begin("urn:todo:1") for _ in range(WRITERS)]
    sessions = [space.session() for _ in range(WATCHERS)]
    for session in sessions:
        session.watch(query_of("urn:todo:1"))
        session.ready()
    for writer in writers:
        writer.marks = marks
    return driven(writers, [session.link for session in sessions], marks, pid=system.pids, seconds=seconds)


def theirs(peer: etcd.Etcd, seconds: float) -> dict[str, float]:
    marks = Marks()
    writers = [BlindEtcd(peer.port, "loaded", VALUE) for _ in range(WRITERS)]
    for writer in writers:
        writer.marks = marks
    links = [peer.watcher("loaded").link for _ in range(WATCHERS)]
    return driven(writers, links, marks, pid=peer.pids, seconds=seconds)


def driven(
    writers: Sequence[Client], links: Sequence[Heard], marks: Marks, *, pid: Pids, seconds: float
) -> dict[str, float]:
    for place, link in enumerate(links):
        link.took = marks.took if place < SAMPLED else _nothing
    try:
        return by_event(closed_loop(writers, pid=pid, seconds=seconds, bystanders=links), marks)
    finally:
        for each in (*links, *(writer.link for writer in writers)):
            each.close()


def _nothing(_: bytes) -> None: ...


def by_event(figures: Figures, marks: Marks) -> dict[str, float]:
    """Each write is an event for each watcher; latencies are those of the sampled ones."""
    ordered = sorted(marks.latencies)
    return columns(figures) | {
        "rate": figures.rate * WATCHERS,
        "cpu_us_per_op": figures.cpu_us_per_op / WATCHERS,
        "p50_us": ordered[len(ordered) // 2] * 1e6,
        "p99_us": ordered[len(ordered) * 99 // 100] * 1e6,
    }


def run(plan: Plan) -> list[Row]:
    turns, clients = Turns(), WATCHERS + WRITERS
    with serving([name for name in plan.peers if name == rows.ETCD]) as systems:
        for _ in range(plan.reps):
            for system in systems:
                turn = _measured(system, plan.seconds)
                n = round(turn["rate"] * plan.seconds)
                turns.add(Key(NAME, system.name, clients), turn, n=n, durable=system.durable)
    return turns.rows()


def _measured(system: Peer, seconds: float) -> dict[str, float]:
    if isinstance(system, System):
        return ours(system, seconds)
    assert isinstance(system, etcd.Etcd), "no other peer is asked for"
    return theirs(system, seconds)
