"""Ours alone as clients grow: durable commits of 3, 30 and 300 of them on one space."""

from __future__ import annotations

from benchmarks.harness import rows
from benchmarks.harness.growth import SIZE, fitted
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.systems import serving
from benchmarks.harness.turns import Turns
from benchmarks.scenarios.commit import measured

NAME = "growth_clients"
TITLE = "ours with 3, 30 and 300 clients on one space: durable commits"
SIZES = (3, 30, 300)


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    with serving(()) as (system,):
        for rep in range(plan.reps):
            for clients in SIZES:
                key = Key(NAME, rows.OURS, clients)
                figures = measured(system, clients=clients, rep=rep, seconds=plan.seconds)
                turns.add_figures(key, figures)
                turns.note(key, **{SIZE: clients})
    return fitted(turns.rows(), ("cpu_us_per_op", "p50_us"))
