"""Commits of 32 clients, quiet and in a crowd: idle connections, slow readers and a flood of bad input at once.

And what connections that come and go leave behind in memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.load.figures import Stopwatch
from benchmarks.load.loop import closed_loop
from benchmarks.load.processes import rss_mb
from benchmarks.ours import service, sessions
from benchmarks.ours.service import Server
from benchmarks.ours.sessions import Session, Space, query_of
from benchmarks.ours.writers import Writer

NAME = "crowd"
TITLE = "32 clients quiet, and beside 1,000 idle connections, 100 slow readers and a flood of bad input"
QUIET, CYCLES = f"{NAME}: quiet", f"{NAME}: connect, open, disconnect"
CLIENTS = 32
STRIKES_PER_SECOND = 100
SLOW_RECEIVE_BYTES = 4_096
FREE_SECONDS = 0.5
"""What a server needs to notice that somebody left."""


class Crowd:
    """Those who are there beside the clients that are measured."""

    def __init__(self, server: Server, space: Space, key: sessions.Key, idle: int, slow: int) -> None:
        self.server = server
        self.idle = [space.session().ready() for _ in range(idle)]
        self.slow = [_slow(space) for _ in range(slow)]
        command = [sys.executable, "-m", "benchmarks.load.flood", str(server.port), space.did, key.secret.hex()]
        self._flood = subprocess.Popen(  # noqa: S603
            [*command, str(STRIKES_PER_SECOND)], stdout=subprocess.PIPE, text=True
        )
        assert self._flood.stdout is not None
        self._flood.stdout.readline()  # it has begun

    def leave(self) -> dict[str, Any]:
        """Ends it all; what the flood sent."""
        self._flood.terminate()
        told, _ = self._flood.communicate(timeout=30)
        for session in [*self.idle, *self.slow]:
            session.link.close()
        flood: dict[str, Any] = json.loads(told)
        return flood


def _slow(space: Space) -> Session:
    """Watches everything and reads no more."""
    session = space.session(receive_bytes=SLOW_RECEIVE_BYTES)
    session.watch(query_of("*"))
    return session


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    with service.served() as server:
        _crowded(turns, server, plan)
    with service.served() as server:
        _cycled(turns, server, plan.pick(quick=500, usual=10_000))
    return turns.rows()


def _crowded(turns: Turns, server: Server, plan: Plan) -> None:
    idle, slow = plan.pick(quick=(100, 10), usual=(1_000, 100))
    key = sessions.Key()
    space = Space.made(server.port, others=[key])
    writers = [space.of(Writer).begin(f"urn:todo:{number}") for number in range(CLIENTS)]
    for _ in range(plan.reps):
        before = rss_mb(server.pid)
        quiet = closed_loop(writers, pid=server.pid, seconds=plan.seconds)
        crowd = Crowd(server, space, key, idle=idle, slow=slow)
        links = [session.link for session in crowd.idle]
        crowded = closed_loop(writers, pid=server.pid, seconds=2 * plan.seconds, bystanders=links)
        during, flood = rss_mb(server.pid), crowd.leave()
        time.sleep(FREE_SECONDS)
        turns.add_figures(Key(QUIET, rows.OURS, CLIENTS), quiet, rss_mb=before)
        turns.add_figures(
            Key(NAME, rows.OURS, CLIENTS),
            crowded,
            rss_mb=during,
            rss_after_mb=rss_mb(server.pid),
            bad_input_per_second=sum(flood["sent"].values()) / flood["seconds"],
        )


def _cycled(turns: Turns, server: Server, cycles: int) -> None:
    """Connect, open, leave, again and again; every other one leaves without a word."""
    space = Space.made(server.port)
    latencies: list[float] = []
    for number in range(100):
        _cycle(space, number)
    before, watch = rss_mb(server.pid), Stopwatch(server.pid)
    for number in range(cycles):
        began = time.perf_counter()
        _cycle(space, number)
        latencies.append(time.perf_counter() - began)
    figures = watch.figures(latencies)
    time.sleep(FREE_SECONDS)
    key = Key(CYCLES, rows.OURS, 1)
    turns.add_figures(key, figures, rss_mb=before, rss_after_mb=rss_mb(server.pid))


def _cycle(space: Space, number: int) -> None:
    session = space.session()
    if number % 2:
        session.link.leave()
    else:
        session.link.close()
