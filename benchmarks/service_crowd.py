"""Commits of 32 clients, quiet and in a crowd: idle connections, slow readers and a flood of bad input at once.

And what connections that come and go leave behind in memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

from benchmarks import _load, _service

CLIENTS = 32
STRIKES_PER_SECOND = 100
SLOW_RECEIVE_BYTES = 4_096
QUIET, CROWDED = "stemmadb, quiet", "stemmadb, in the crowd"


class Crowd:
    """Those who are there beside the clients that are measured."""

    def __init__(
        self, server: _service.Server, space: _service.Space, key: _service.Key, idle: int, slow: int
    ) -> None:
        self.server = server
        self.idle = [space.session().ready() for _ in range(idle)]
        self.slow = [_slow(space) for _ in range(slow)]
        command = [sys.executable, "-m", "benchmarks._load_flood", str(server.port), space.did, key.secret.hex()]
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


def _slow(space: _service.Space) -> _service.Session:
    """Watches everything and reads no more."""
    session = space.session(receive_bytes=SLOW_RECEIVE_BYTES)
    session.watch(_service.query_of("*"))
    return session


def run(quick: bool = False) -> list[dict[str, object]]:
    idle, slow, seconds, reps, cycles = (100, 10, 0.5, 1, 500) if quick else (1_000, 100, 4.0, 3, 20_000)
    _load.prepare_process()
    with ExitStack() as stack:
        server = stack.enter_context(_service.served())
        rows = _crowded(server, idle=idle, slow=slow, seconds=seconds, reps=reps)
        fresh = stack.enter_context(_service.served())
        return [*rows, _cycled(fresh, cycles)]


def _crowded(server: _service.Server, *, idle: int, slow: int, seconds: float, reps: int) -> list[dict[str, object]]:
    key = _service.Key()
    space = _service.Space(server.port, others=[key])
    writers = [space.writer().begin(f"urn:todo:{number}") for number in range(CLIENTS)]
    quiet: list[_load.Figures] = []
    crowded: list[_load.Figures] = []
    memory: dict[str, list[float]] = {"before": [], "during": [], "after": []}
    floods: list[dict[str, Any]] = []
    _load.closed_loop(writers, pid=server.pid, seconds=seconds / 2)
    for _ in range(reps):
        memory["before"].append(_load.rss_mb(server.pid))
        quiet.append(_load.closed_loop(writers, pid=server.pid, seconds=seconds))
        crowd = Crowd(server, space, key, idle=idle, slow=slow)
        links = [session.link for session in crowd.idle]
        crowded.append(_load.closed_loop(writers, pid=server.pid, seconds=seconds, bystanders=links))
        memory["during"].append(_load.rss_mb(server.pid))
        floods.append(crowd.leave())
        time.sleep(0.5)
        memory["after"].append(_load.rss_mb(server.pid))
    scenario = f"service: {CLIENTS} clients, {idle:,} idle connections, {slow} slow readers, a flood of bad input"
    sent = sum(sum(flood["sent"].values()) for flood in floods) / sum(flood["seconds"] for flood in floods)
    more: dict[str, object] = {"clients": CLIENTS, "rss_before_mb": memory["before"][0]}
    names = {"p99_ratio": "p99_us", "p50_ratio": "p50_us", "rate_ratio": "rate"}
    return [
        _load.row(scenario, QUIET, quiet, **more),
        _load.row(scenario, CROWDED, crowded, **more)
        | {"rss_during_mb": max(memory["during"]), "rss_after_mb": memory["after"][-1], "bad_input_per_second": sent}
        | _load.ratios(crowded, quiet, names),
    ]


def _cycled(server: _service.Server, cycles: int) -> dict[str, object]:
    """Connect, open, leave, again and again; every other one leaves without a word."""
    space = _service.Space(server.port)
    latencies: list[float] = []
    for number in range(100):
        _cycle(space, number)
    before, watch = _load.rss_mb(server.pid), _load.Stopwatch(server.pid)
    for number in range(cycles):
        began = time.perf_counter()
        _cycle(space, number)
        latencies.append(time.perf_counter() - began)
    figures = watch.figures(latencies)
    time.sleep(0.5)
    after = _load.rss_mb(server.pid)
    return _load.row(
        f"service: {cycles:,} times connect, open, disconnect",
        "stemmadb",
        [figures],
        clients=1,
        rss_before_mb=before,
        rss_after_mb=after,
    )


def _cycle(space: _service.Space, number: int) -> None:
    session = space.session()
    if number % 2:
        session.link.leave()
    else:
        session.link.close()
