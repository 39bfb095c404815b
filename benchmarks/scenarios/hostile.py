"""A client that commits every 20 ms in its own space, quiet and under each attack of `benchmarks.load.attacks`.

The environment picks a part of it: `STEMMADB_ATTACKS=pings,fragments` and `STEMMADB_ATTACKED=picows`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.load.attacks import ATTACKS, COSTLY
from benchmarks.load.figures import Stopwatch
from benchmarks.load.processes import descriptors, rss_mb, threads
from benchmarks.ours import service
from benchmarks.ours.service import Server
from benchmarks.ours.sessions import Session, Space
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId

NAME = "hostile"
TITLE = "a client that commits every 20 ms, quiet and beside each attack, on both listeners"
LISTENERS = ("picows", "websockets")
PERIOD_SECONDS = 0.02
REST_SECONDS = 1.0
"""What the server needs to notice that the attacker left."""
SETTINGS: dict[str, int | str] = {"connections_max": 1_000, "requests_per_second": 2_000}
"""Places for connections that an attack can fill, and the bound on requests that is usual."""


class Bystander:
    """The client that does nothing wrong."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._session: Session = Space.made(server.port).session()

    def measure(self, seconds: float) -> tuple[Any, float]:
        """Commits for so long; the figures, and the longest wait in milliseconds."""
        waits: list[float] = []
        watch, began = Stopwatch(self.server.pid), time.perf_counter()
        while time.perf_counter() - began < seconds:
            sent = time.perf_counter()
            body = encode({"number": len(waits)})
            self._session.commit([Operation(op="set", id=EntityId("urn:note:1"), body=body, blind=True)])
            waits.append(time.perf_counter() - sent)
            time.sleep(max(0.0, PERIOD_SECONDS - waits[-1]))
        return watch.figures(waits), max(waits) * 1e3


class Meter(threading.Thread):
    """The most memory, descriptors and threads that the server has while this runs."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._over = pid, threading.Event()
        self.most = footprint(pid)

    def run(self) -> None:
        while not self._over.wait(0.1):
            now = footprint(self._pid)
            self.most = {name: max(value, now[name]) for name, value in self.most.items()}

    def stop(self) -> dict[str, float]:
        self._over.set()
        self.join()
        return self.most


def footprint(pid: int) -> dict[str, float]:
    return {"rss_mb": rss_mb(pid), "descriptors": descriptors(pid), "threads": threads(pid)}


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    seconds = max(plan.seconds, plan.pick(quick=3.0, usual=5.0))
    for listener in chosen("STEMMADB_ATTACKED", LISTENERS):
        with service.served(listener=listener, **SETTINGS) as server:
            bystander = Bystander(server)
            bystander.measure(1.0)
            quiet(turns, bystander, listener, seconds)
            for name in chosen("STEMMADB_ATTACKS", (*ATTACKS, *COSTLY)):
                attacked(turns, bystander, listener, name, seconds)
            quiet(turns, bystander, listener, seconds)
    return turns.rows()


def chosen(variable: str, usual: tuple[str, ...]) -> tuple[str, ...]:
    given = os.environ.get(variable)
    return tuple(given.split(",")) if given else usual


def quiet(turns: Turns, bystander: Bystander, listener: str, seconds: float) -> None:
    figures, longest = bystander.measure(seconds)
    now = footprint(bystander.server.pid)
    turns.add_figures(
        Key(f"{NAME}: {listener}, quiet", rows.OURS, 1), figures, durable=True, longest_ms=longest, **now
    )
    show(f"{listener}, quiet", figures, longest, now)


def attacked(turns: Turns, bystander: Bystander, listener: str, name: str, seconds: float) -> None:
    pid = bystander.server.pid
    before, meter = footprint(pid), Meter(pid)
    command = [sys.executable, "-m", "benchmarks.load.attacks", name, str(bystander.server.port), str(seconds + 0.5)]
    attack = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert attack.stdout is not None
    attack.stdout.readline()  # it has begun
    meter.start()
    figures, longest = bystander.measure(seconds)
    told, _ = attack.communicate(timeout=120)
    most = meter.stop()
    time.sleep(REST_SECONDS)
    after = footprint(pid)
    footprints = {
        f"{what}_{when}": found[what]
        for when, found in (("before", before), ("during", most), ("after", after))
        for what in before
    }
    lines = told.strip().splitlines()
    done = json.loads(lines[-1]) if lines else {}
    key = Key(f"{NAME}: {listener}, {name}", rows.OURS, 1)
    turns.add_figures(
        key, figures, durable=True, longest_ms=longest, **footprints, **{f"attack_{k}": v for k, v in done.items()}
    )
    show(f"{listener}, {name}", figures, longest, footprints | done)


def show(name: str, figures: Any, longest: float, more: dict[str, float]) -> None:
    """A line as soon as it is measured: under attack a run can be slow."""
    told = ", ".join(f"{what} {value:.0f}" for what, value in more.items())
    waits = f"p50 {figures.p50_us / 1e3:.1f} ms, p99 {figures.p99_us / 1e3:.1f} ms, longest {longest:.0f} ms"
    print(f"{name}: {waits}, n {figures.n}; {told}", file=sys.stderr, flush=True)
