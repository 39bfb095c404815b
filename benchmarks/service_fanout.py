"""One hundred sessions watch one entity that one session writes: from its send to their receipt, beside etcd."""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks import _etcd, _load, _service
from stemmadb.protocol.model.body import encode

SCENARIO = "service: {} watchers of one entity, one writer, {}"
OURS, ETCD = "stemmadb", "etcd, gRPC watches, a connection each"
VALUE = encode(_service.DOCUMENT)


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
    return _rows(events, writes, watchers)


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
