"""Coming back after 1,000 missed commits: bytes and time of the first frame, and what they follow."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns, of_times
from benchmarks.load.document import DOCUMENT
from benchmarks.load.processes import DIRECTORY, cpu_seconds
from benchmarks.ours import service
from benchmarks.ours.sessions import Space, holding, query_of
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.wire.connection.client_side import SessionPosition

NAME = "resume"
TITLE = "back after 1,000 missed commits: bytes and time of the first frame, by what was watched and what changed"
MISSED = 1_000
IN_FLIGHT = 100
RAN_ON, FIRST, AGAIN = "ran on", "started since, first", "started since, again"
"""A server that ran on may remember what was watched; one that was started since has to find out."""


class Case(NamedTuple):
    """How many are watched, how many of them changed, and whether all missed commits were on those."""

    watched: int
    changed: int
    only_these: bool = False

    @property
    def scenario(self) -> str:
        which = f"all on {self.changed}" if self.only_these else f"{self.changed} changed"
        return f"{NAME}: {self.watched:,} watched, {which}"


CASES = (Case(10_000, 10), Case(10_000, 100), Case(1_000, 10), Case(10_000, 10, only_these=True))


class Resumed(NamedTuple):
    seconds: float
    frame_bytes: int
    cpu: float


class Setting:
    """A space, and a client that watched it and has missed the commits."""

    def __init__(self, port: int, case: Case) -> None:
        self.space = Space.made(port)
        self.space.fill({f"urn:watched:{n}": DOCUMENT for n in range(case.watched)})
        self.space.fill({f"urn:other:{n}": DOCUMENT for n in range(1_000)})
        query = query_of("urn:watched:*")
        session = self.space.session()
        session.watch(query)
        self.standing: SessionPosition = holding(session, query)
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
        before, cpu, began = session.link.received_bytes, cpu_seconds(pid), time.perf_counter()
        session.open()
        seconds = time.perf_counter() - began
        session.link.close()
        return Resumed(seconds, session.link.received_bytes - before, cpu_seconds(pid) - cpu)


def _patch(case: Case, number: int) -> Operation:
    every = MISSED // case.changed
    touched = case.only_these or number % every == 0
    at = number % case.changed if case.only_these else number // every
    id_ = f"urn:watched:{at * 7}" if touched else f"urn:other:{number}"
    change = encode([{"op": "replace", "path": "/count", "value": number}])
    return Operation(op="patch", id=EntityId(id_), body=change, blind=True)


def scenario(case: Case, server: str) -> str:
    return f"{case.scenario}, {server}"


class Bench:
    """One data directory; the server on it is started again and again."""

    def __init__(self, directory: Path, cases: tuple[Case, ...]) -> None:
        self.directory, self.turns = directory, Turns()
        self.server = service.start(directory)
        self.settings = {case: Setting(self.server.port, case) for case in cases}

    def restart(self) -> None:
        self.server.stop()
        self.server = service.start(self.directory)
        for setting in self.settings.values():
            setting.space.at(self.server.port)

    def measure(self, server: str, times: int) -> None:
        """One turn of each case; they resume one after the other, `times` times."""
        found: dict[Case, list[Resumed]] = {case: [] for case in self.settings}
        for _ in range(times):
            for case, setting in self.settings.items():
                found[case].append(setting.resume(self.server.pid))
        for case, runs in found.items():
            turn = of_times([run.seconds for run in runs]) | {
                "cpu_us_per_op": sum(run.cpu for run in runs) / times * 1e6,
                "frame_bytes": sorted(run.frame_bytes for run in runs)[times // 2],
            }
            self.turns.add(Key(scenario(case, server), rows.OURS, 1), turn, n=times)


def run(plan: Plan) -> list[Row]:
    cases = plan.pick(quick=(Case(2_000, 10), Case(1_000, 10)), usual=CASES)
    resumes = plan.pick(quick=3, usual=10)
    with tempfile.TemporaryDirectory(prefix="stemmadb-bench-", dir=DIRECTORY) as name:
        bench = Bench(Path(name), cases)
        try:
            for _ in range(plan.reps):
                bench.measure(RAN_ON, resumes)
            for _ in range(plan.reps):
                bench.restart()
                bench.measure(FIRST, 1)
                bench.measure(AGAIN, resumes // 2)
        finally:
            bench.server.stop()
    return bench.turns.rows()
