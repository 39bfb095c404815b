"""`make test`: everything that must pass on every change, part by part, with the seconds of each.

A new part is one line of PARTS. Each is a target of the Makefile that builds what it needs by itself. The first part
that fails ends the run. What a part had to skip stands again in the last lines.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PARTS = (
    ("environment and types", "checks"),
    ("core", "tests-core"),
    ("http", "tests-http"),
    ("memory", "tests-memory"),
    ("cache", "tests-cache"),
    ("nodes", "tests-nodes"),
    ("workers", "tests-workers"),
    ("web", "tests-web"),
)


def main() -> int:
    """The exit code of the first part that failed."""
    with tempfile.TemporaryDirectory() as directory:
        skips = Path(directory, "skips")
        skips.touch()
        os.environ["STEMMADB_SKIPS"] = str(skips)
        code, lines = _run_parts()
        print("\n" + "\n".join([*lines, *skips.read_text().splitlines()]), flush=True)
    return code


def _run_parts() -> tuple[int, list[str]]:
    lines: list[str] = []
    code = 0
    for name, target in PARTS:
        began = time.monotonic()
        if not code:
            code = _make(target)
            lines.append(f"{name:<22} {time.monotonic() - began:6.1f} s{'  FAILED' if code else ''}")
        else:
            lines.append(f"{name:<22} not run")
    return code, lines


def _make(target: str) -> int:
    """Two jobs at a time: style, types and layers do not need each other."""
    command = [os.environ.get("MAKE", "make"), "--no-print-directory", "-j2", target]
    return subprocess.run(command, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
