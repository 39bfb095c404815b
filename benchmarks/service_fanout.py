"""One hundred sessions watch one entity: from a writer's send to their receipt, beside etcd.

Once with one writer, whose next write goes out when all have the last; once under load, with writers that never wait
for watchers: then several events may come in one message.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks import _etcd, _load, _service
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.request import Operation

SCENARIO = "service: {} watchers of one entity, one writer, {}"
OURS, ETCD = "stemmadb", "etcd, gRPC watches, a connection each"
LOADED = "service: {} watchers of one entity, {} writers that do not wait for them"
VALUE = encode(_service.DOCUMENT)
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


class BlindWriter(_service.Writer):
    marks: Marks

    def send(self) -> None:
        body = encode(_service.DOCUMENT | {"mark": self.marks.next()})
        self.push((Operation(op="set", id=self.id, body=body, blind=True),))


class BlindEtcd(_etcd.Writer):
    marks: Marks

    def send(self) -> None:
        mark = self.marks.next() if hasattr(self, "marks") else ""
        self.put_blindly(encode(_service.DOCUMENT | {"mark": mark}))


class Ours:
    """Set up once, measured many times."""

    def __init__(self, server: _service.Server, watchers: int) -> None:
        self.pid = server.pid
        space = _service.Space(server.port)
        self.writer = space.writer().begin("urn:todo:1")
        self.watchers = []
        for _ in range(watchers):
            session = space.session()
            session.watch(_service.query_of("urn:todo:1"))
            self.watchers.append(session.ready())


class Peer:
    def __init__(self, server: _etcd.Etcd, watchers: int) -> None:
        self.pid = server.pid
        self.writer = _etcd.Writer(server.port, "todo/1", VALUE)
        self.watchers = [_etcd.Watcher(server.port, "todo/1") for _ in range(watchers)]


def loaded_ours(server: _service.Server, watchers: int, seconds: float) -> tuple[_load.Figures, Marks]:
    marks, space = Marks(), _service.Space(server.port)
    writers = [space.of(BlindWriter).begin("urn:todo:1") for _ in range(WRITERS)]
    sessions = []
    for _ in range(watchers):
        session = space.session()
        session.watch(_service.query_of("urn:todo:1"))
        sessions.append(session.ready())
    return _loaded(writers, [session.link for session in sessions], marks, server.pid, seconds)


def loaded_etcd(server: _etcd.Etcd, watchers: int, seconds: float) -> tuple[_load.Figures, Marks]:
    marks = Marks()
    writers = [BlindEtcd(server.port, "todo/loaded", VALUE) for _ in range(WRITERS)]
    links = [_etcd.Watcher(server.port, "todo/loaded").link for _ in range(watchers)]
    return _loaded(writers, links, marks, server.pid, seconds)


def _loaded(
    writers: Sequence[BlindWriter | BlindEtcd], links: Sequence[Any], marks: Marks, pid: int, seconds: float
) -> tuple[_load.Figures, Marks]:
    for writer in writers:
        writer.marks = marks
    for place, link in enumerate(links):
        link.took = marks.took if place < SAMPLED else _nothing
    try:
        return _load.closed_loop(writers, pid=pid, seconds=seconds, bystanders=links), marks
    finally:
        for link in (*links, *(writer.link for writer in writers)):
            link.close()


def _nothing(_: bytes) -> None: ...


def _loaded_rows(quick: bool) -> list[dict[str, object]]:
    watchers, seconds, reps = (100, 0.5, 1) if quick else (100, 2.0, 5)
    runs: dict[str, list[_load.Figures]] = {OURS: [], ETCD: []}
    with ExitStack() as stack:
        server = stack.enter_context(_service.served())
        peer = stack.enter_context(_etcd.served()) if _etcd.is_installed() else None
        for _ in range(reps):
            runs[OURS].append(_by_event(*loaded_ours(server, watchers, seconds), watchers))
            if peer is not None:
                runs[ETCD].append(_by_event(*loaded_etcd(peer, watchers, seconds), watchers))
    names = {"p50_to_etcd": "p50_us", "p99_to_etcd": "p99_us", "cpu_to_etcd": "cpu_us_per_op", "rate_to_etcd": "rate"}
    more = _load.ratios(runs[OURS], runs[ETCD], names) if runs[ETCD] else {}
    scenario, clients = LOADED.format(watchers, WRITERS), watchers + WRITERS
    rows = [_load.row(scenario, OURS, runs[OURS], clients=clients, **more)]
    return rows + ([_load.row(scenario, ETCD, runs[ETCD], clients=clients)] if runs[ETCD] else [])


def _by_event(figures: _load.Figures, marks: Marks, watchers: int) -> _load.Figures:
    """Each write is an event for each watcher; latencies are those of the sampled ones."""
    ordered = sorted(marks.latencies)
    figures.p50_us = ordered[len(ordered) // 2] * 1e6
    figures.p99_us = ordered[len(ordered) * 99 // 100] * 1e6
    figures.n *= watchers
    figures.rate *= watchers
    figures.cpu_us_per_op /= watchers
    return figures


def run(quick: bool = False) -> list[dict[str, object]]:
    watchers, commits, reps = (100, 30, 1) if quick else (100, 500, 6)
    _load.prepare_process()
    events: dict[str, list[_load.Figures]] = {}
    writes: dict[str, list[_load.Figures]] = {}
    with ExitStack() as stack:
        sides: dict[str, Ours | Peer] = {OURS: Ours(stack.enter_context(_service.served()), watchers)}
        if _etcd.is_installed():
            sides[ETCD] = Peer(stack.enter_context(_etcd.served()), watchers)
        for _ in range(reps):
            for system, side in sides.items():
                by_event, by_write = _load.fan_out(side.writer, side.watchers, pid=side.pid, commits=commits)
                events.setdefault(system, []).append(by_event)
                writes.setdefault(system, []).append(by_write)
    return _rows(events, writes, watchers) + _loaded_rows(quick)


def _rows(
    events: dict[str, list[_load.Figures]], writes: dict[str, list[_load.Figures]], watchers: int
) -> list[dict[str, object]]:
    rows = []
    for system, by_event in events.items():
        more: dict[str, dict[str, float]] = {"by event": {}, "by write": {}}
        if system == OURS and ETCD in events:
            names = {"p50_to_etcd": "p50_us", "p99_to_etcd": "p99_us", "cpu_to_etcd": "cpu_us_per_op"}
            more["by event"] = _load.ratios(events[OURS], events[ETCD], names)
            more["by write"] = _load.ratios(writes[OURS], writes[ETCD], names)
        for kind, runs in (("by event", by_event), ("by write", writes[system])):
            scenario = SCENARIO.format(watchers, kind)
            rows.append(_load.row(scenario, system, runs, clients=watchers + 1, **more[kind]))
    return rows
