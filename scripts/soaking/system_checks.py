"""The system tests, once more, against another kind of server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from scripts.soaking.kinds import Counts

ROOT: Final = Path(__file__).parents[2]
SHOWN_CHARACTERS: Final = 4_000


def system_with_workers(_: int) -> Counts:
    """All of them against three workers, of which one accepts and others serve the spaces."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/system"]
    done = subprocess.run(  # noqa: S603
        command, env=os.environ | {"TEST_WORKERS": "3"}, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-SHOWN_CHARACTERS:]
    return Counts(1)
