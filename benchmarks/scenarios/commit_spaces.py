"""256 clients on 256 spaces, each on its own, beside the same clients on one space; and patches for whole values."""

from __future__ import annotations

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.load.figures import Figures
from benchmarks.load.loop import closed_loop, closing
from benchmarks.ours import service
from benchmarks.ours.sessions import Space
from benchmarks.ours.writers import Writer

NAME = "commit_spaces"
TITLE = "the same commits by 256 clients on 256 spaces, on one space, and as patches on one space"
ONE, PATCHES = f"{NAME}: one space", f"{NAME}: one space, patches"
CLIENTS = 256


def driven(server: service.Server, writers: list[Writer], seconds: float) -> Figures:
    with closing(writers):
        return closed_loop(writers, pid=server.pid, seconds=seconds)


def on_one(server: service.Server, clients: int, seconds: float, *, patches: bool) -> Figures:
    space = Space.made(server.port)
    writers = [space.of(Writer).begin(f"urn:todo:{number}") for number in range(clients)]
    for writer in writers:
        writer.patches = patches
    return driven(server, writers, seconds)


def apart(server: service.Server, spaces: list[Space], seconds: float) -> Figures:
    return driven(server, [space.of(Writer).begin("urn:todo:1") for space in spaces], seconds)


def run(plan: Plan) -> list[Row]:
    turns, clients = Turns(), plan.pick(quick=32, usual=CLIENTS)
    with service.served() as server:
        spaces = [Space.made(server.port) for _ in range(clients)]
        for _ in range(plan.reps):
            found = {
                NAME: apart(server, spaces, plan.seconds),
                ONE: on_one(server, clients, plan.seconds, patches=False),
                PATCHES: on_one(server, clients, plan.seconds, patches=True),
            }
            for scenario, figures in found.items():
                turns.add_figures(Key(scenario, rows.OURS, clients), figures)
    return turns.rows()
