"""One load process for servers of any kind: sockets read as they get ready, one request in flight for each client."""

from __future__ import annotations

import math
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from benchmarks.load.figures import Figures, Pids, Stopwatch

STALL_SECONDS = 30.0
"""So long nothing at all may come before a run is given up."""


class Link(Protocol):
    """A connection whose messages go to its owner."""

    sock: socket.socket

    def pull(self) -> None:
        """Reads what is there; every whole message is given on."""
        ...

    def close(self) -> None: ...


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


class Watcher(Protocol):
    """One that is told of every change."""

    @property
    def link(self) -> Link: ...

    event: Callable[[], None]


def closed_loop(
    clients: Sequence[Client], *, pid: Pids, seconds: float, bystanders: Sequence[Link] = (), warm_up: int = 3
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
    writer: Client,
    watchers: Sequence[Watcher],
    *,
    pid: Pids,
    commits: int,
    seconds: float = math.inf,
    warm_up: int = 10,
) -> tuple[Figures, Figures]:
    """One write at a time, the next when all watchers have its event: figures by event, and by write.

    It ends after so many commits, or so many seconds, whichever comes first.
    """
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
        watch, end = Stopwatch(pid), time.perf_counter() + seconds
        while len(writes) < commits and time.perf_counter() < end:
            write()
        return watch.figures(events), watch.figures(writes)


@contextmanager
def closing(clients: Sequence[Client | Watcher]) -> Iterator[None]:
    """Their connections are closed in the end."""
    try:
        yield
    finally:
        for client in clients:
            client.link.close()
