"""The disk alone: 4 KB appended and synced, one at a time."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.load.figures import Figures, Stopwatch


def appends(directory: Path, *, seconds: float) -> Figures:
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
