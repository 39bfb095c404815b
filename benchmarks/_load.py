"""One load process for servers of any kind: sockets read as they get ready, and figures of what came back."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import select
import socket
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

STALL_SECONDS = 30.0
"""So long nothing at all may come before a run is given up."""
SLICE_US = int(os.environ.get("STEMMADB_BENCH_SLICE_US", "100"))
"""The slice of the scheduler for the load and all it starts; 0 leaves it alone."""
_TICKS = os.sysconf("SC_CLK_TCK")
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}


class Link(Protocol):
    """A connection whose messages go to its owner."""

    sock: socket.socket

    def pull(self) -> None:
        """Reads what is there; every whole message is given on."""
        ...


class Loop:
    """Reads links as they get ready. No task, no future: what costs here would be blamed on the server."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._epoll = select.epoll()
        self._links = {link.sock.fileno(): link for link in links}
        for number in self._links:
            self._epoll.register(number, select.EPOLLIN)

    def run(self, done: Callable[[], bool]) -> None:
        links = self._links
        while not done():
            ready = self._epoll.poll(STALL_SECONDS)
            if not ready:
                raise TimeoutError(f"nothing came in {STALL_SECONDS} s")
            for number, _ in ready:
                links[number].pull()

    def idle(self, seconds: float) -> None:
        """Reads whatever comes for a while."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            for number, _ in self._epoll.poll(left):
                self._links[number].pull()

    def close(self) -> None:
        self._epoll.close()


@contextmanager
def looping(links: Sequence[Link]) -> Iterator[Loop]:
    loop = Loop(links)
    try:
        yield loop
    finally:
        loop.close()


class Client(Protocol):
    """One that has one request in flight: the next goes out when the answer to the last one is there."""

    @property
    def link(self) -> Link: ...

    answered: Callable[[], None]
    """Called when the answer came."""

    def send(self) -> None: ...


class Figures:
    """What one run measured."""

    def __init__(self, *, latencies: Sequence[float], seconds: float, server_cpu: float, load_cpu: float) -> None:
        ordered = sorted(latencies)
        self.n = len(ordered)
        self.rate = self.n / seconds
        self.p50_us = ordered[self.n // 2] * 1e6
        self.p99_us = ordered[min(self.n - 1, self.n * 99 // 100)] * 1e6
        self.cpu_us_per_op = server_cpu / self.n * 1e6
        self.load_cpu_share = load_cpu / seconds


class Stopwatch:
    """Wall time, CPU of a server's process tree, and our own, from its making on."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._server = cpu_seconds(pid) if pid is not None else 0.0
        self._load = time.process_time()
        self._began = time.perf_counter()

    def figures(self, latencies: Sequence[float]) -> Figures:
        """Without a server the work was done in this process, so its CPU is ours."""
        seconds, load = time.perf_counter() - self._began, time.process_time() - self._load
        server = cpu_seconds(self._pid) - self._server if self._pid is not None else load
        return Figures(latencies=latencies, seconds=seconds, server_cpu=server, load_cpu=load)


def closed_loop(
    clients: Sequence[Client], *, pid: int, seconds: float, bystanders: Sequence[Link] = (), warm_up: int = 3
) -> Figures:
    """Every client sends when its last answer came, for so long; the first few rounds are not counted."""
    run = _ClosedLoop(clients)
    with looping([*(client.link for client in clients), *bystanders]) as loop:
        run.go(loop, rounds=warm_up)
        watch = Stopwatch(pid)
        run.go(loop, until=time.perf_counter() + seconds)
        return watch.figures(run.latencies)


class _ClosedLoop:
    def __init__(self, clients: Sequence[Client]) -> None:
        self.clients = clients
        self.latencies: list[float] = []
        self._sent = [0.0] * len(clients)
        self._rounds = [0] * len(clients)
        self._busy = 0
        self._limit, self._until = 0, 0.0
        for place, client in enumerate(clients):
            client.answered = partial(self._answered, place)

    def go(self, loop: Loop, *, rounds: int = 0, until: float = 0.0) -> None:
        self._limit, self._until = rounds, until
        self._rounds = [0] * len(self.clients)
        self.latencies = []
        self._busy = len(self.clients)
        for place in range(len(self.clients)):
            self._send(place)
        loop.run(lambda: self._busy == 0)

    def _send(self, place: int) -> None:
        self._sent[place] = time.perf_counter()
        self.clients[place].send()

    def _answered(self, place: int) -> None:
        now = time.perf_counter()
        self.latencies.append(now - self._sent[place])
        self._rounds[place] += 1
        if now < self._until or self._rounds[place] < self._limit:
            self._send(place)
        else:
            self._busy -= 1


def fan_out(
    writer: Client, watchers: Sequence[Watcher], *, pid: int, commits: int, warm_up: int = 10
) -> tuple[Figures, Figures]:
    """One write at a time, the next when all watchers have its event: figures by event, and by write."""
    events: list[float] = []
    writes: list[float] = []
    state = {"sent": 0.0, "waiting": 0}

    def event() -> None:
        events.append(time.perf_counter() - state["sent"])
        state["waiting"] -= 1

    def answered() -> None:
        writes.append(time.perf_counter() - state["sent"])
        state["waiting"] -= 1

    writer.answered = answered
    for watcher in watchers:
        watcher.event = event
    with looping([writer.link, *(watcher.link for watcher in watchers)]) as loop:

        def write() -> None:
            state["waiting"] = len(watchers) + 1
            state["sent"] = time.perf_counter()
            writer.send()
            loop.run(lambda: state["waiting"] <= 0)

        for _ in range(warm_up):
            write()
        events.clear()
        writes.clear()
        watch = Stopwatch(pid)
        for _ in range(commits):
            write()
        return watch.figures(events), watch.figures(writes)


class Watcher(Protocol):
    """One that is told of every change."""

    @property
    def link(self) -> Link: ...

    event: Callable[[], None]


def raw_appends(directory: Path, seconds: float) -> Figures:
    """4 KB appended and synced, one at a time: what the disk gives to one who waits for it."""
    block, latencies = os.urandom(4_096), []
    file = os.open(directory / "raw.bin", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    watch, end = Stopwatch(None), time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        os.write(file, block)
        os.fdatasync(file)
        latencies.append(time.perf_counter() - began)
    figures = watch.figures(latencies)
    os.close(file)
    os.unlink(directory / "raw.bin")
    return figures


def row(scenario: str, system: str, runs: Sequence[Figures], **more: object) -> dict[str, Any]:
    """Medians over the runs, with the range of the rate."""

    def median(name: str) -> float:
        return float(statistics.median(getattr(run, name) for run in runs))

    rates = [run.rate for run in runs]
    return {
        "scenario": scenario,
        "system": system,
        "rate": median("rate"),
        "rate_min": min(rates),
        "rate_max": max(rates),
        "p50_us": median("p50_us"),
        "p99_us": median("p99_us"),
        "cpu_us_per_op": median("cpu_us_per_op"),
        "load_cpu_share": median("load_cpu_share"),
        "durable": True,
        "n": sum(run.n for run in runs),
        "reps": len(runs),
        **more,
    }


def ratios(ours: Sequence[Figures], other: Sequence[Figures], names: Mapping[str, str]) -> dict[str, float]:
    """Medians of our figure over the other's, run by run, under the names given."""
    return {
        shown: statistics.median(getattr(a, name) / getattr(b, name) for a, b in zip(ours, other, strict=True))
        for shown, name in names.items()
    }


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, its threads and its living children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = [int(name) for task in _tasks(pid) for name in (task / "children").read_text().split()]
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS + sum(cpu_seconds(child) for child in children)


def _tasks(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())


def rss_mb(pid: int) -> float:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def prepare_process() -> None:
    """Many sockets, and a short slice, for this process and all that it starts."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if SLICE_US:
        _short_slice(SLICE_US * 1_000)


class _Attributes(ctypes.Structure):
    """`struct sched_attr`, first version. With the ordinary policy the runtime is the slice that is asked for."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def _short_slice(nanoseconds: int) -> None:
    """With all cores busy a sync seems to last a whole slice. Kernels that know no slices ignore this."""
    number = _SCHED_SETATTR.get(platform.machine())
    if number is not None:
        attributes = _Attributes(size=ctypes.sizeof(_Attributes), runtime=nanoseconds)
        ctypes.CDLL(None, use_errno=True).syscall(number, 0, ctypes.byref(attributes), 0)
