"""Durable commits over the socket, one in flight for each client, beside the engine in process, etcd and the disk."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import _engine, _etcd, _load, _service
from stemmadb.protocol.model.admission import Accepted
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import EntityId, Version
from stemmadb.protocol.model.proposal import Proposal
from stemmadb.protocol.model.request import Operation, Read

CLIENTS = (1, 32, 256)
SPACES = 256
ONE_SPACE = "service: durable commits, {} clients on one space"
MANY_SPACES = "service: durable commits, {} clients on as many spaces"
OURS, PATCHES, ENGINE = "stemmadb", "stemmadb, patches", "engine in process, encoding and prepare too"
ETCD, DISK = "etcd, gRPC, a transaction with a version compare", "append 4 KB + fdatasync, one at a time"
VALUE = encode(_service.DOCUMENT)


def ours(server: _service.Server, clients: int, seconds: float, *, patches: bool = False) -> _load.Figures:
    space = _service.Space(server.port)
    writers = [space.writer().begin(f"urn:todo:{number}") for number in range(clients)]
    return _driven(server, writers, seconds, patches=patches)


def ours_apart(server: _service.Server, spaces: list[_service.Space], seconds: float) -> _load.Figures:
    """Every client on a space of its own."""
    writers = [space.writer().begin("urn:todo:1") for space in spaces]
    return _driven(server, writers, seconds)


def _driven(
    server: _service.Server, writers: list[_service.Writer], seconds: float, *, patches: bool = False
) -> _load.Figures:
    for writer in writers:
        writer.patches = patches
    try:
        return _load.closed_loop(writers, pid=server.pid, seconds=seconds)
    finally:
        for writer in writers:
            writer.link.close()


def etcd(server: _etcd.Etcd, clients: int, seconds: float, prefix: str) -> _load.Figures:
    writers = [_etcd.Writer(server.port, f"{prefix}/{number}", VALUE) for number in range(clients)]
    try:
        return _load.closed_loop(writers, pid=server.pid, seconds=seconds)
    finally:
        for writer in writers:
            writer.link.close()


def engine(clients: int, seconds: float) -> _load.Figures:
    async def run() -> _load.Figures:
        async with _engine.fresh() as (load, _):
            return await _Inside(load, clients).run(seconds)

    return asyncio.run(run())


class _Inside:
    """The same clients without a socket: each submits when its last commit was decided."""

    def __init__(self, load: _engine.Load, clients: int) -> None:
        self._load = load
        self._versions = [0] * clients
        self._sent = [0.0] * clients
        self._counts = [0] * clients
        self._latencies: list[float] = []
        self._busy = 0
        self._until = 0.0
        self._done = asyncio.Event()

    async def run(self, seconds: float) -> _load.Figures:
        await self._go(0.2)
        self._latencies.clear()
        watch = _load.Stopwatch(None)
        await self._go(seconds)
        return watch.figures(self._latencies)

    async def _go(self, seconds: float) -> None:
        self._done.clear()
        self._until = time.perf_counter() + seconds
        self._busy = len(self._versions)
        for client in range(len(self._versions)):
            self._send(client)
        await self._done.wait()

    def _proposal(self, client: int) -> Proposal:
        id_, version = EntityId(f"urn:todo:{client}"), Version(self._versions[client])
        self._counts[client] += 1
        body = encode(_service.DOCUMENT | {"count": self._counts[client]})
        return self._load.proposal(
            (Operation(op="set", id=id_, body=body),), (Read(id=id_, version=version),), session=client + 1
        )

    def _send(self, client: int) -> None:
        self._sent[client] = time.perf_counter()
        decided = self._load.space.submit(self._proposal(client))
        decided.add_done_callback(lambda future: self._answered(client, future.result()))

    def _answered(self, client: int, outcome: object) -> None:
        assert isinstance(outcome, Accepted), outcome
        self._versions[client] = outcome.commit.version
        now = time.perf_counter()
        self._latencies.append(now - self._sent[client])
        if now < self._until:
            self._send(client)
            return
        self._busy -= 1
        if not self._busy:
            self._done.set()


def run(quick: bool = False) -> list[dict[str, object]]:
    seconds, reps, clients_, spaces_ = (0.3, 1, (1, 32), 16) if quick else (1.2, 4, CLIENTS, SPACES)
    _load.prepare_process()
    found: dict[tuple[str, str, int], list[_load.Figures]] = defaultdict(list)
    with ExitStack() as stack:
        here = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="raw-bench-", dir=_engine.DIRECTORY)))
        server = stack.enter_context(_service.served())
        peer = stack.enter_context(_etcd.served()) if _etcd.is_installed() else None
        spaces = [_service.Space(server.port) for _ in range(spaces_)]
        for rep in range(reps):
            for clients in clients_:
                name = ONE_SPACE.format(clients)
                runs: dict[str, Callable[[], _load.Figures]] = {
                    OURS: partial(ours, server, clients, seconds),
                    ENGINE: partial(engine, clients, seconds),
                }
                if clients > 1:
                    runs[PATCHES] = partial(ours, server, clients, seconds, patches=True)
                if peer is not None:
                    runs[ETCD] = partial(etcd, peer, clients, seconds, f"{rep}/{clients}")
                if clients == 1:
                    runs[DISK] = partial(_load.raw_appends, here, seconds / 2)
                for system, measure in runs.items():
                    found[name, system, clients].append(measure())
            found[MANY_SPACES.format(spaces_), OURS, spaces_].append(ours_apart(server, spaces, seconds))
    return _rows(found)


def _rows(found: dict[tuple[str, str, int], list[_load.Figures]]) -> list[dict[str, Any]]:
    rows = []
    for (scenario, system, clients), runs in found.items():
        more: dict[str, object] = {"clients": clients}
        peers = found.get((scenario, ETCD, clients))
        if peers and system in (OURS, PATCHES):
            names = {"rate_to_etcd": "rate", "cpu_to_etcd": "cpu_us_per_op", "p50_to_etcd": "p50_us"}
            more |= _load.ratios(runs, peers, names)
        one = found.get((ONE_SPACE.format(clients), OURS, clients))
        if one and scenario == MANY_SPACES.format(clients):
            more |= _load.ratios(runs, one, {"rate_to_one_space": "rate"})
        rows.append(_load.row(scenario, system, runs, **more))
    return rows
