"""Ours alone as history grows: commits on, and reads of, an entity that has more and more facts."""

from __future__ import annotations

from benchmarks.harness import rows
from benchmarks.harness.growth import SIZE, fitted
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.load.loop import closed_loop
from benchmarks.ours import service
from benchmarks.ours.sessions import Space
from benchmarks.ours.system import write_history
from benchmarks.ours.writers import Writer

NAME = "growth_history"
TITLE = "ours with 100, 1,000 and 10,000 facts on one entity: one client patches it"
SIZES = (100, 1_000, 10_000)


def patcher(space: Space, facts: int) -> Writer:
    """Goes on where the history ends."""
    id_ = f"urn:history:{facts}"
    values = write_history(space, id_, facts - 1, patches=True)
    writer = space.of(Writer).begin(id_)
    writer.patches = True
    assert writer.version > max(values), "it continues the history"
    return writer


def run(plan: Plan) -> list[Row]:
    turns, sizes = Turns(), plan.pick(quick=SIZES[:2], usual=SIZES)
    with service.served() as server:
        space = Space.made(server.port)
        writers = {facts: patcher(space, facts) for facts in sizes}
        for _ in range(plan.reps):
            for facts, writer in writers.items():
                key = Key(f"{NAME}: {facts:,} facts", rows.OURS, 1)
                turns.add_figures(key, closed_loop([writer], pid=server.pid, seconds=plan.seconds))
                turns.note(key, **{SIZE: facts})
    return fitted(turns.rows(), ("cpu_us_per_op", "p50_us"))
