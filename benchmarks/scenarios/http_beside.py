"""What a WebSocket pays for HTTP beside it: commits, and a cold start, on servers with HTTP and without it."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns, of_times
from benchmarks.load.loop import closed_loop, closing
from benchmarks.load.processes import DIRECTORY, cpu_seconds
from benchmarks.load.websocket import WebSocket
from benchmarks.ours import service, sessions
from benchmarks.ours.service import Server
from benchmarks.ours.sessions import Space
from benchmarks.ours.writers import Writer
from stemmadb.protocol.wire.version import MSGPACK, space_path

NAME = "http_beside"
TITLE = "commits on WebSockets, and a start until the first answer on one, with HTTP on the port and without it"
COMMIT, START = ({True: f"{NAME}: {what}", False: f"{NAME}: {what} without HTTP"} for what in ("commit", "start"))
CLIENTS = (1, 32)
STARTS = 3
"""In each turn, of each kind."""
BOTH = (True, False)


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    with service.served() as server, service.served(service.WITHOUT_HTTP) as other:
        spaces = {True: Space.made(server.port), False: Space.made(other.port)}
        time.sleep(2 * _LOADED_SECONDS)  # the library has been loaded
        for turn in range(plan.reps):
            kinds = BOTH if turn % 2 else tuple(reversed(BOTH))  # so that neither always has the warmer disk
            for clients in CLIENTS:
                for has_http in kinds:
                    _commits(turns, plan, server if has_http else other, spaces[has_http], (has_http, turn, clients))
            for has_http in kinds:
                took, used = zip(*(_start(has_http=has_http) for _ in range(STARTS)), strict=True)
                cpu = {"cpu_us_per_op": statistics.median(used) * 1e6}
                turns.add(Key(START[has_http], rows.OURS, 1), of_times(took) | cpu, n=STARTS)
    return turns.rows()


def _commits(turns: Turns, plan: Plan, server: Server, space: Space, which: tuple[bool, int, int]) -> None:
    has_http, turn, clients = which
    writers = [space.of(Writer).begin(f"urn:beside:{turn}:{clients}:{number}") for number in range(clients)]
    with closing(writers):
        figures = closed_loop(writers, pid=server.pid, seconds=plan.seconds)
    turns.add_figures(Key(COMMIT[has_http], rows.OURS, clients), figures)


def _start(*, has_http: bool) -> tuple[float, float]:
    """Seconds, and those of CPU, from the start of the process to the first message on a WebSocket."""
    with tempfile.TemporaryDirectory(prefix="stemmadb-bench-", dir=DIRECTORY) as name:
        began = time.perf_counter()
        server = service.start(Path(name), service.COMMAND if has_http else service.WITHOUT_HTTP)
        try:
            socket = WebSocket(server.port, space_path(sessions.Key().did), MSGPACK)
            socket.recv()
            took, used = time.perf_counter() - began, cpu_seconds(server.pid)
            socket.close()
        finally:
            server.stop()
    return took, used


_LOADED_SECONDS = 1.0
