"""Ours alone as watchers grow: 10, 100 and 1,000 sessions watch one entity, one write at a time."""

from __future__ import annotations

from benchmarks.harness import rows
from benchmarks.harness.growth import SIZE, fitted
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.load.document import VALUE
from benchmarks.load.loop import fan_out
from benchmarks.ours import service
from benchmarks.ours.system import System

NAME = "growth_watchers"
TITLE = "ours with 10, 100 and 1,000 watchers of one entity: one write at a time, by event"
SIZES = (10, 100, 1_000)
COMMITS = 1_000


def run(plan: Plan) -> list[Row]:
    turns, sizes = Turns(), plan.pick(quick=SIZES[:2], usual=SIZES)
    with service.served() as server:
        system = System(server)
        writers = {size: system.watched_writer(f"watched/{size}", VALUE) for size in sizes}
        watchers = {size: [system.watcher(f"watched/{size}") for _ in range(size)] for size in sizes}
        for _ in range(plan.reps):
            for size in sizes:
                events, _writes = fan_out(
                    writers[size], watchers[size], pid=server.pid, commits=COMMITS, seconds=plan.seconds, warm_up=3
                )
                key = Key(NAME, rows.OURS, size)
                turns.add_figures(key, events)
                turns.note(key, **{SIZE: size})
    return fitted(turns.rows(), ("cpu_us_per_op", "p50_us"))
