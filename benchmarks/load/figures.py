"""What one run measured, and the stopwatch that measured it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypeAlias

from benchmarks.load.processes import cpu_seconds

Pids: TypeAlias = "int | tuple[int, ...]"
"""The process of a server, or the roots of its process trees where it has several."""


class Figures:
    """What one run measured."""

    def __init__(
        self, *, latencies: Sequence[float], seconds: float, server_cpu: Sequence[float], load_cpu: float
    ) -> None:
        ordered = sorted(latencies)
        self.n = len(ordered)
        self.rate = self.n / seconds
        self.p50_us = ordered[self.n // 2] * 1e6
        self.p99_us = ordered[min(self.n - 1, self.n * 99 // 100)] * 1e6
        self.cpu_us_each = tuple(cpu / self.n * 1e6 for cpu in server_cpu)
        """Of each process tree, for one operation."""
        self.cpu_us_per_op = sum(self.cpu_us_each)
        self.load_cpu_share = load_cpu / seconds


class Stopwatch:
    """Wall time, CPU of a server's process tree, and our own, from its making on."""

    def __init__(self, pid: Pids | None) -> None:
        self._pids = (pid,) if isinstance(pid, int) else pid
        self._servers = self._server_seconds()
        self._load = time.process_time()
        self._began = time.perf_counter()

    def figures(self, latencies: Sequence[float]) -> Figures:
        """Without a server the work was done in this process, so its CPU is ours."""
        seconds, load = time.perf_counter() - self._began, time.process_time() - self._load
        servers = [now - then for now, then in zip(self._server_seconds(), self._servers, strict=True)]
        used = servers if self._pids is not None else [load]
        return Figures(latencies=latencies, seconds=seconds, server_cpu=used, load_cpu=load)

    def _server_seconds(self) -> list[float]:
        return [cpu_seconds(pid) for pid in self._pids or ()]
