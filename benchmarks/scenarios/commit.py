"""Durable commits with a version check, one in flight for each client, beside all peers and the disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.systems import serving
from benchmarks.harness.turns import Turns
from benchmarks.limits import fdatasync, sqlite
from benchmarks.load.document import VALUE
from benchmarks.load.figures import Figures
from benchmarks.load.loop import closed_loop, closing
from benchmarks.load.processes import DIRECTORY
from benchmarks.peers.port import Peer

NAME = "commit"
TITLE = "durable commits of a document of 180 B on a declared version, one in flight for each client"
CLIENTS = (1, 32, 256)
RECORDED = 1_000
"""Commits whose rows SQLite is given, one transaction for each."""


def measured(system: Peer, *, clients: int, rep: int, seconds: float) -> Figures:
    """One turn: new keys, each written by a connection of its own."""
    writers = [system.writer(f"commit/{rep}/{clients}/{number}", VALUE) for number in range(clients)]
    with closing(writers):
        return closed_loop(writers, pid=system.pids, seconds=seconds)


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    sizes = plan.pick(quick=(32, 256), usual=CLIENTS)
    with serving(plan.peers) as systems:
        for rep in range(plan.reps):
            for clients in sizes:
                for system in systems:
                    figures = measured(system, clients=clients, rep=rep, seconds=plan.seconds)
                    turns.add_figures(Key(NAME, system.name, clients), figures, durable=system.durable)
            if not plan.is_quick:
                _limits(turns, plan)
    return turns.rows()


def _limits(turns: Turns, plan: Plan) -> None:
    with tempfile.TemporaryDirectory(prefix="limit-bench-", dir=DIRECTORY) as name:
        appended = fdatasync.appends(Path(name), seconds=plan.seconds / 2)
        turns.add_figures(Key(NAME, rows.FDATASYNC, 1), appended)
        inserted = sqlite.one_by_one(Path(name), commits=RECORDED)
        turns.add_figures(Key(NAME, rows.SQLITE, 1), inserted)
