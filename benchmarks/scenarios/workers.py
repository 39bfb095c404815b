"""Workers: commits on many spaces by 1, 2 and (with four cores) 4 workers; passing on; a killed worker; memory.

`allowed` is the rate that all cores allow over the rate that one server core allows, from the CPU of a commit in the
server and in the load, measured with one worker in the same turn: (cores / (server + load)) / (1 / server). `reached`
is what came of it. `cores` is how many cores server and load used: where these are all, only a commit that takes less
CPU gives more.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns, columns, of_times
from benchmarks.load.figures import Figures
from benchmarks.load.loop import closed_loop, closing
from benchmarks.load.processes import DIRECTORY, rss_mb
from benchmarks.load.websocket import Gone, WebSocket
from benchmarks.ours import service
from benchmarks.ours.sessions import Key as SpaceKey
from benchmarks.ours.sessions import Space
from benchmarks.ours.writers import Writer
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.wire.version import MSGPACK, space_path
from stemmadb.server.serving.ownership.worker_ownership import worker_of

NAME = "workers"
TITLE = "256 clients on 256 spaces with 1, 2 and 4 workers; a connection that is passed on; a killed worker; memory"
CLIENTS = 256
MANY = 1_000
"""Spaces, where there are four cores for four workers."""
KILLS = 20
PAUSE_SECONDS = 0.01


def run(plan: Plan) -> list[Row]:
    turns, clients = Turns(), plan.pick(quick=64, usual=CLIENTS)
    wanted = [1, 2] + [4] * ((os.cpu_count() or 1) >= 4)
    for _ in range(plan.reps):
        alone = _commits(turns, 1, clients, plan.seconds)
        for workers in wanted[1:]:
            _commits(turns, workers, MANY if workers == 4 else clients, plan.seconds, alone)
    _passing(turns, count=plan.pick(quick=50, usual=300))
    _relaying(turns, clients=32, seconds=plan.seconds)
    _killing(turns, count=plan.pick(quick=5, usual=KILLS))
    for workers in (1, 4):
        with service.served(workers=workers) as server:
            turns.add(Key(f"{NAME}: idle memory", rows.OURS, workers), {"rss_mb": _tree_mb(server.pid)}, n=1)
    return turns.rows()


def _commits(turns: Turns, workers: int, clients: int, seconds: float, alone: Figures | None = None) -> Figures:
    with service.served(workers=workers) as server:
        spaces = [Space.made(server.port) for _ in range(clients)]
        figures = _driven(server, spaces, seconds)
    load_us = figures.load_cpu_share / figures.rate * 1e6
    more = {"load_us_per_op": load_us, "cores": figures.cpu_us_per_op * figures.rate / 1e6 + figures.load_cpu_share}
    if alone is not None:
        load = alone.load_cpu_share / alone.rate * 1e6
        cores = min(workers, os.cpu_count() or 1)
        more["allowed"] = cores / (alone.cpu_us_per_op + load) * alone.cpu_us_per_op
        more["reached"] = figures.rate / alone.rate
    turns.add(Key(f"{NAME}: {workers}", rows.OURS, clients), columns(figures) | more, n=figures.n)
    return figures


def _driven(server: service.Server, spaces: list[Space], seconds: float) -> Figures:
    writers = [space.of(Writer).begin("urn:todo:1") for space in spaces]
    with closing(writers):
        return closed_loop(writers, pid=server.pid, seconds=seconds)


def _of_worker(port: int, number: int, workers: int) -> Space:
    while True:
        key = SpaceKey()
        if worker_of(key.did, workers) == number:
            return Space.made(port, key=key)


def _passing(turns: Turns, count: int) -> None:
    """From the connect until `hello`, at the right worker and at another one, in turn."""
    with service.served(workers=2, accept_only=0) as server:
        spaces = [_of_worker(server.port, number, 2) for number in range(2)]
        times: list[list[float]] = [[], []]
        for _ in range(count):
            for number, space in enumerate(spaces):
                began = time.perf_counter()
                link = WebSocket(server.port, space_path(space.did), MSGPACK)
                link.recv()
                times[number].append(time.perf_counter() - began)
                link.close()
        for name, found in zip(("right", "passed on"), times, strict=True):
            turns.add(Key(f"{NAME}: hello, {name}", rows.OURS, 1), of_times(found), n=len(found))


def _relaying(turns: Turns, clients: int, seconds: float) -> None:
    """The CPU of a commit over TLS at the right worker, and relayed by another one."""
    with tempfile.TemporaryDirectory(prefix="stemmadb-bench-", dir=DIRECTORY) as name:
        flags = {"tls_cert": f"{name}/cert.pem", "tls_key": f"{name}/key.pem"}
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        files = ["-keyout", flags["tls_key"], "-out", flags["tls_cert"], "-days", "2", "-subj", "/CN=localhost"]
        subprocess.run([*command, *files], check=True, capture_output=True)  # noqa: S603
        WebSocket.secure = ssl._create_unverified_context()  # noqa: S323
        try:
            with service.served(workers=2, accept_only=0, **flags) as server:
                for number, how in enumerate(("direct", "relayed")):
                    spaces = [_of_worker(server.port, number, 2) for _ in range(clients)]
                    figures = _driven(server, spaces, seconds)
                    turns.add_figures(Key(f"{NAME}: TLS, {how}", rows.OURS, clients), figures)
        finally:
            WebSocket.secure = None


def _killing(turns: Turns, count: int) -> None:
    """From `kill -9` of a worker until its space says `hello` again; the first death of each, which has no pause."""
    times: list[float] = []
    while len(times) < count:
        with tempfile.TemporaryDirectory(prefix="stemmadb-bench-", dir=DIRECTORY) as name:
            server = service.start(Path(name), workers=2)
            try:
                times += [_killed(Path(name), server.port, number) for number in range(2)]
            finally:
                server.stop()
    turns.add(Key(f"{NAME}: killed", rows.OURS, 1), of_times(times) | {"worst_ms": max(times) * 1e3}, n=len(times))


def _killed(data: Path, port: int, number: int) -> float:
    space = _of_worker(port, number, 2)
    session = space.session()
    for count in range(50):  # enough for a group WAL that has to be recovered
        session.commit([Operation(op="set", id=EntityId("urn:todo:1"), body=encode({"n": count}), blind=True)])
    began = time.perf_counter()
    os.kill(json.loads((data / "server.json").read_text())["workers"][str(number)], signal.SIGKILL)
    while not _answers(port, space):
        time.sleep(PAUSE_SECONDS)
    return time.perf_counter() - began


@contextmanager
def _connected(port: int, space: Space) -> Iterator[None]:
    link = WebSocket(port, space_path(space.did), MSGPACK)
    try:
        link.recv()
        yield
    finally:
        link.close()


def _answers(port: int, space: Space) -> bool:
    with suppress(Gone, OSError), _connected(port, space):
        return True
    return False


def _tree_mb(pid: int) -> float:
    """The resident memory of a process and all below it."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = [int(name) for task in tasks for name in (task / "children").read_text().split()]
    return rss_mb(pid) + sum(map(_tree_mb, children))
