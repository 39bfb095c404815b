"""The generated tests for as long as you like: `make soak MINUTES=30`, or `scripts/soak.py --help`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = ("", "support", "checkers", "protocol/model", "protocol/wire", "server/faults")
sys.path[:0] = [str(ROOT), *(str(ROOT / "tests" / part) for part in PARTS)]

from scripts.soaking.command import main  # noqa: E402
from scripts.soaking.registry import kinds  # noqa: E402

if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of what a seed repeats
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONHASHSEED": "0"})  # noqa: S606
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was done until then is kept
    sys.exit(main(sys.argv[1:], kinds))
