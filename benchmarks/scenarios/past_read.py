"""Reading one entity at a random version, with 1,000 facts of history on it, over the socket, beside all peers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.systems import serving
from benchmarks.harness.turns import Turns
from benchmarks.load.loop import Client, closed_loop, closing
from benchmarks.ours import service
from benchmarks.ours.system import System
from benchmarks.peers.port import Peer

NAME = "past_read"
TITLE = "reads of one entity at random versions of its past, 1,000 facts of history, 8 clients"
PATCHES = f"{NAME}: history of patches"
UNHELD = f"{NAME}: memory off"
"""Ours again, on a server that keeps no past states in memory, so that each read is one of the file."""
FACTS = 1_000
CLIENTS = 8
SEED = 1


def readers(system: Peer, *, patches: bool) -> list[Client]:
    """Each with a connection and chances of its own; they share one history."""
    chances = [random.Random(SEED + number) for number in range(CLIENTS)]
    if patches:
        assert isinstance(system, System), "only ours stores patches"
        return [system.reader("patched", FACTS, chance, patches=True) for chance in chances]
    return [system.past_reader("past", FACTS, chance) for chance in chances]


@contextmanager
def _sides(systems: list[Peer], unheld: System) -> Iterator[dict[tuple[str, Peer], list[Client]]]:
    sides = {(NAME, system): readers(system, patches=False) for system in systems}
    sides |= {(PATCHES, system): readers(system, patches=True) for system in systems if system.name == rows.OURS}
    sides[UNHELD, unheld] = readers(unheld, patches=False)
    with closing([client for clients in sides.values() for client in clients]):
        yield sides


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    with (
        serving(plan.peers) as systems,
        service.served(past_bytes_max=1) as unheld,
        _sides(systems, System(unheld)) as sides,
    ):
        for _ in range(plan.reps):
            for (scenario, system), clients in sides.items():
                figures = closed_loop(clients, pid=system.pids, seconds=plan.seconds)
                turns.add_figures(Key(scenario, system.name, CLIENTS), figures, durable=system.durable)
    return turns.rows()
