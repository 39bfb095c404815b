"""What the interpreter is told by a process that serves: for `stemmadb serve`, and for apps that run a store in
process and do little else."""

from __future__ import annotations

import gc
import sys
from typing import Final

COLLECTED_AT: Final = (20_000, 20, 50)
"""How many new objects, and how many rounds before that, make the collector of reference cycles look."""
SWITCH_SECONDS: Final = 0.0005
"""How long a thread that posts or reads waits for the loop to give up the interpreter (docs/decisions/0012)."""


def tune_interpreter() -> None:
    """What is alive now stays so, and little of what comes is in cycles: looking for them less often costs less."""
    gc.freeze()
    gc.set_threshold(*COLLECTED_AT)
    sys.setswitchinterval(SWITCH_SECONDS)
