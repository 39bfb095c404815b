"""Interpreter settings of a process that serves: for `stemmadb serve`, and for apps that run a store in process and
do little else."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Final

COLLECTED_AT: Final = (10_000, 4, 500)
"""How many new objects, and how many rounds before that, make the collector of reference cycles look.

A look at 20,000 new objects held the loop for 7 ms. At 7,000 an event for 100 watchers cost 5 % more CPU.
Spaces that were opened for nothing are in cycles when they are closed again: 180,000 such objects held the loop for
300 ms where they were looked for every 40 rounds.
"""
SWITCH_SECONDS: Final = 0.0005
"""How long a thread that applies records or reads waits for the loop to release the GIL (docs/decisions/0012)."""

MAPPED_BYTES: Final = 256 * 1024
"""A block from this size on is a mapping of its own, which goes back to the system as soon as it is freed."""
TRIMMED_BYTES: Final = 4 * 1024 * 1024
"""Free memory at the end of the heap that is kept."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def return_memory() -> None:
    """Fixes what glibc would raise by itself, which kept the buffers of slow readers after they had left."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
        mallopt(_M_TRIM_THRESHOLD, TRIMMED_BYTES)


def tune_interpreter() -> None:
    """What is alive now stays so, and little of what comes is in cycles: looking for them less often costs less."""
    return_memory()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AT)
    sys.setswitchinterval(SWITCH_SECONDS)
