"""Coming back after 1,000 missed commits: bytes and time of the first frame, and what they follow."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from benchmarks import _engine, _load, _service
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.request import Operation
from stemmadb.protocol.wire.client_side import Standing

MISSED = 1_000
IN_FLIGHT = 100
RAN_ON, FIRST, AGAIN = "stemmadb, ran on", "stemmadb, started since, first", "stemmadb, started since, again"
"""A server that ran on may remember what was watched; one that was started since has to find out."""


class Case(NamedTuple):
    """How many are watched, how many of them changed, and whether all missed commits were on those."""

    watched: int
    changed: int
    only_these: bool = False

    @property
    def scenario(self) -> str:
        which = f"all on {self.changed}" if self.only_these else f"{self.changed} changed"
        return f"service: resume after {MISSED:,} commits, {self.watched:,} watched, {which}"


CASES = (Case(10_000, 10), Case(10_000, 100), Case(1_000, 10), Case(10_000, 10, only_these=True))


class Resumed(NamedTuple):
    seconds: float
    frame_bytes: int
    cpu: float


class Setting:
    """A space, and a client that watched it and has missed the commits."""

    def __init__(self, port: int, case: Case) -> None:
        self.space = _service.Space(port)
        self.space.fill({f"urn:watched:{n}": _service.DOCUMENT for n in range(case.watched)})
        self.space.fill({f"urn:other:{n}": _service.DOCUMENT for n in range(1_000)})
        query = _service.query_of("urn:watched:*")
        session = self.space.session()
        session.watch(query)
        self.standing: Standing = _service.holding(session, query)
        session.link.close()
        self._miss(case)

    def _miss(self, case: Case) -> None:
        writer = self.space.session()
        for start in range(0, MISSED, IN_FLIGHT):
            numbers = range(start, start + IN_FLIGHT)
            writer.commit_all([[_patch(case, number)] for number in numbers])
        writer.link.close()

    def resume(self, pid: int) -> Resumed:
        session = self.space.unopened(self.standing)
        before, cpu, began = session.link.received_bytes, _load.cpu_seconds(pid), time.perf_counter()
        session.open()
        seconds = time.perf_counter() - began
        session.link.close()
        return Resumed(seconds, session.link.received_bytes - before, _load.cpu_seconds(pid) - cpu)


def _patch(case: Case, number: int) -> Operation:
    every = MISSED // case.changed
    touched = case.only_these or number % every == 0
    at = number % case.changed if case.only_these else number // every
    id_ = f"urn:watched:{at * 7}" if touched else f"urn:other:{number}"
    change = encode([{"op": "replace", "path": "/count", "value": number}])
    return Operation(op="patch", id=EntityId(id_), body=change, blind=True)


def run(quick: bool = False) -> list[dict[str, object]]:
    cases = (Case(2_000, 10), Case(1_000, 10)) if quick else CASES
    restarts, resumes = (1, 3) if quick else (4, 10)
    _load.prepare_process()
    found: dict[tuple[Case, str], list[Resumed]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="stemmadb-bench-", dir=_engine.DIRECTORY) as name:
        server = _service.start(Path(name))
        settings = {case: Setting(server.port, case) for case in cases}
        for _ in range(restarts * resumes):
            for case, setting in settings.items():
                found[case, RAN_ON].append(setting.resume(server.pid))
        for _ in range(restarts):
            server.stop()
            server = _service.start(Path(name))
            for case, setting in settings.items():
                setting.space.at(server.port)
                found[case, FIRST].append(setting.resume(server.pid))
            for _ in range(resumes // 2):
                for case, setting in settings.items():
                    found[case, AGAIN].append(setting.resume(server.pid))
        server.stop()
    return [_row(case, system, runs, restarts) for (case, system), runs in found.items()]


def _row(case: Case, system: str, runs: list[Resumed], reps: int) -> dict[str, object]:
    times = sorted(run.seconds for run in runs)
    return {
        "scenario": case.scenario,
        "system": system,
        "clients": 1,
        "p50_us": statistics.median(times) * 1e6,
        "p99_us": times[len(times) * 99 // 100] * 1e6,
        "cpu_us_per_op": statistics.mean(run.cpu for run in runs) * 1e6,
        "frame_bytes": statistics.median(run.frame_bytes for run in runs),
        "durable": True,
        "n": len(runs),
        "reps": reps,
    }
