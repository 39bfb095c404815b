"""Reading one entity at a random version, with 1,000 facts of history on it, over the socket, beside all peers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.retries import BROKEN_OFF, retried
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.systems import serving
from benchmarks.harness.turns import Turns
from benchmarks.load.figures import Figures
from benchmarks.load.loop import Client, closed_loop
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


class Side:
    """The clients of one system. A turn that it broke off is tried again with new ones, on the same history."""

    def __init__(self, system: Peer, *, patches: bool = False) -> None:
        self._system, self._patches = system, patches
        self._clients = list[Client]()

    def measured(self, seconds: float) -> Figures:
        return retried(self._system.name, lambda: self._turn(seconds))

    def _turn(self, seconds: float) -> Figures:
        try:
            self._clients = self._clients or readers(self._system, patches=self._patches)
            return closed_loop(self._clients, pid=self._system.pids, seconds=seconds)
        except BROKEN_OFF:
            self.close()
            raise

    def close(self) -> None:
        for client in self._clients:
            client.link.close()
        self._clients = []


@contextmanager
def _sides(systems: list[Peer], unheld: System) -> Iterator[dict[tuple[str, Peer], Side]]:
    sides = {(NAME, system): Side(system) for system in systems}
    sides |= {(PATCHES, system): Side(system, patches=True) for system in systems if system.name == rows.OURS}
    sides[UNHELD, unheld] = Side(unheld)
    try:
        yield sides
    finally:
        for side in sides.values():
            side.close()


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    with (
        serving(plan.peers) as systems,
        service.served(past_bytes_max=1) as unheld,
        _sides(systems, System(unheld)) as sides,
    ):
        for _ in range(plan.reps):
            for (scenario, system), side in sides.items():
                figures = side.measured(plan.seconds)
                turns.add_figures(Key(scenario, system.name, CLIENTS), figures, durable=system.durable)
    return turns.rows()
