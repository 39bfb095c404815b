"""Reading at a random version as history grows: what it costs must not follow how much there is (HISTORY-3)."""

from __future__ import annotations

import random

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.load.loop import closed_loop, closing
from benchmarks.ours import service
from benchmarks.ours.system import System

NAME = "past_flat"
TITLE = "one client reads an entity at random versions, with 10 to 100,000 facts of history, a set and then patches"
SIZES = (10, 1_000, 100_000)
SEED = 1


def scenario(facts: int) -> str:
    return f"{NAME}: {facts:,} facts"


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    sizes = plan.pick(quick=SIZES[:2], usual=SIZES)
    with service.served(past_bytes_max=1) as server:  # what memory has costs the same for any history
        system, chance = System(server), random.Random(SEED)
        readers = {facts: system.reader(str(facts), facts, chance, patches=True) for facts in sizes}
        with closing(list(readers.values())):
            for _ in range(plan.reps):
                for facts, reader in readers.items():
                    figures = closed_loop([reader], pid=server.pid, seconds=plan.seconds)
                    turns.add_figures(Key(scenario(facts), rows.OURS, 1), figures)
    return turns.rows()
