"""One hundred watchers of one entity, one write at a time: the next goes out when all have the event of the last."""

from __future__ import annotations

from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.systems import serving
from benchmarks.harness.turns import Turns
from benchmarks.load.document import VALUE
from benchmarks.load.loop import fan_out
from benchmarks.peers.port import Peer

NAME = "fanout"
TITLE = "100 watchers of one entity, one write at a time: from the writer's send to each receipt, by event"
BY_WRITE = f"{NAME}: by write"
WATCHERS = 100
COMMITS = 1_000
"""The most that a turn has."""


class Side:
    """One system's writer and watchers; set up once, measured many times."""

    def __init__(self, system: Peer) -> None:
        self.system = system
        self.writer = system.watched_writer("fanout", VALUE)
        self.watchers = [system.watcher("fanout") for _ in range(WATCHERS)]

    def measure(self, turns: Turns, seconds: float) -> None:
        pids = self.system.pids
        events, writes = fan_out(self.writer, self.watchers, pid=pids, commits=COMMITS, seconds=seconds)
        for scenario, figures in ((NAME, events), (BY_WRITE, writes)):
            key = Key(scenario, self.system.name, WATCHERS)
            turns.add_figures(key, figures, durable=self.system.durable)


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    with serving(plan.peers) as systems:
        sides = [Side(system) for system in systems]
        for _ in range(plan.reps):
            for side in sides:
                side.measure(turns, plan.seconds)
    return turns.rows()
