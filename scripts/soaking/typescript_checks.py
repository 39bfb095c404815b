"""The TypeScript client: its core decides other cases than on every change as Python does, and apps meet faults."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from scripts.soaking.kinds import Counts, reported

from faults_node import TYPESCRIPT, node_program, node_storm

CASES: Final = 10_000
SHOWN_CHARACTERS: Final = 4_000
TEST: Final = "client/test/differential.test.ts"


def differential(seed: int) -> Counts:
    """Nothing is counted where node is not installed: `make web`."""
    node = node_program()
    if node is None:
        return Counts(0)
    done = subprocess.run(  # noqa: S603
        [str(node), "--conditions=stemmadb-source", "--test", TEST],
        env=os.environ
        | {"STEMMADB_PYTHON": sys.executable, "STEMMADB_CASES": str(CASES), "STEMMADB_SEED": str(seed * CASES)},
        cwd=TYPESCRIPT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-SHOWN_CHARACTERS:]
    return Counts(CASES)


def storm(seed: int) -> Counts:
    """Nothing is counted where node is not installed, neither."""
    return reported(node_storm)(seed) if node_program() is not None else Counts(0)
