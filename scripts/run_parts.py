"""`make test`: everything that must pass on every change, part by part, with the seconds of each.

A new part is one line of PARTS. Each is a target of the Makefile that builds what it needs by itself. The first part
that fails ends the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

PARTS = (
    ("environment and types", "checks"),
    ("core", "tests-core"),
    ("http", "tests-http"),
    ("memory", "tests-memory"),
    ("cache", "tests-cache"),
)


def main() -> int:
    """The exit code of the first part that failed."""
    lines: list[str] = []
    code = 0
    for name, target in PARTS:
        began = time.monotonic()
        if not code:
            code = _make(target)
            lines.append(f"{name:<22} {time.monotonic() - began:6.1f} s{'  FAILED' if code else ''}")
        else:
            lines.append(f"{name:<22} not run")
    print("\n" + "\n".join(lines), flush=True)
    return code


def _make(target: str) -> int:
    """Two jobs at a time: style, types and layers do not need each other."""
    command = [os.environ.get("MAKE", "make"), "--no-print-directory", "-j2", target]
    return subprocess.run(command, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
