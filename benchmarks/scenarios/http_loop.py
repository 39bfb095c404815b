"""How long one callback holds the event loop of a server while HTTP and WebSockets are busy."""

from __future__ import annotations

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.load.loop import Client, closed_loop, closing, fan_out
from benchmarks.ours import held_loop, service
from benchmarks.ours.writers import Writer
from benchmarks.scenarios.http import COMMITS, READERS, READERS_QUICK, Side

NAME = "http_loop"
TITLE = "the longest callback of the event loop, of the clock and of CPU, while each of the kinds of `http` is busy"
CLIENTS = 32


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    with service.served(held_loop.PROGRAM, http_streams_max=READERS + 1) as server:
        side = Side(server)
        known = side.entity()
        writer = side.space.of(Writer).begin(known)
        held_loop.told(server)  # the start is another row
        for _ in range(plan.reps):
            made: dict[str, list[Client]] = {
                "get": [side.reader(known) for _ in range(CLIENTS)],
                "put": [side.writer() for _ in range(CLIENTS)],
                "commit": [side.space.of(Writer).begin(side.entity()) for _ in range(CLIENTS)],
            }
            held_loop.told(server)
            for what, driven in made.items():
                with closing(driven):
                    closed_loop(driven, pid=server.pid, seconds=plan.seconds)
                _add(turns, server, what, CLIENTS)
            count = plan.pick(quick=READERS_QUICK, usual=READERS)
            streams = [side.stream(known) for _ in range(count)]
            _add(turns, server, "streams opened", count)
            with closing(streams):
                fan_out(writer, streams, pid=server.pid, commits=COMMITS, seconds=plan.seconds * 4)
            _add(turns, server, "stream", count)
    return turns.rows()


def _add(turns: Turns, server: service.Server, what: str, clients: int) -> None:
    seen = held_loop.told(server)
    longest = {"longest_us": seen["wall"][-1] * 1e6, "longest_cpu_us": seen["cpu"][-1] * 1e6}
    turns.add(Key(f"{NAME}: {what}", rows.OURS, clients), longest, n=seen["n"])
