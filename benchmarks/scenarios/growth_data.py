"""Ours alone as data grows: commits on random entities of a space that has more and more of them."""

from __future__ import annotations

import random

from benchmarks.harness import rows
from benchmarks.harness.growth import SIZE, fitted
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.load.document import DOCUMENT, VALUE
from benchmarks.load.figures import Figures
from benchmarks.load.loop import closed_loop, closing
from benchmarks.load.processes import rss_mb
from benchmarks.ours import service
from benchmarks.ours.sessions import Session, Space
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.ids import EntityId

NAME = "growth_data"
TITLE = "ours with 1,000, 10,000 and 100,000 entities: 32 clients commit on random ones"
SIZES = (1_000, 10_000, 100_000)
CLIENTS = 32


class Anywhere(Session):
    """Sets a random entity, whatever it was."""

    entities = 0
    chance: random.Random

    def send(self) -> None:
        id_ = EntityId(f"urn:todo:{self.chance.randrange(self.entities)}")
        self.push((Operation(op="set", id=id_, body=VALUE, blind=True),))


def writers(space: Space, entities: int) -> list[Anywhere]:
    made = [space.of(Anywhere) for _ in range(CLIENTS)]
    for number, writer in enumerate(made):
        writer.entities, writer.chance = entities, random.Random(number)
        writer.ready()
    return made


def measured(server: service.Server, space: Space, entities: int, seconds: float) -> Figures:
    clients = writers(space, entities)
    with closing(clients):
        return closed_loop(clients, pid=server.pid, seconds=seconds)


def run(plan: Plan) -> list[Row]:
    turns, sizes = Turns(), plan.pick(quick=SIZES[:2], usual=SIZES)
    with service.served() as server:
        spaces = {entities: Space.made(server.port) for entities in sizes}
        for entities, space in spaces.items():
            space.fill({f"urn:todo:{number}": DOCUMENT for number in range(entities)})
        for _ in range(plan.reps):
            for entities, space in spaces.items():
                key = Key(f"{NAME}: {entities:,} entities", rows.OURS, CLIENTS)
                figures = measured(server, space, entities, plan.seconds)
                turns.add_figures(key, figures, rss_mb=rss_mb(server.pid))
                turns.note(key, **{SIZE: entities})
    return fitted(turns.rows(), ("cpu_us_per_op", "p50_us"))
