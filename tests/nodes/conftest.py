"""Fixtures of the tests on PostgreSQL: an empty database, or a reason why there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import postgres_programs
import postgres_server
from stemmadb.server.storage.postgres import PostgresStorage


@pytest.fixture(autouse=True)
def _postgres() -> None:
    postgres_server.need()


@pytest.fixture
def url() -> str:
    """A database without spaces, used by no other test meanwhile."""
    return postgres_server.empty_database()


@pytest.fixture
def storage(url: str) -> Iterator[PostgresStorage]:
    made = PostgresStorage(url)
    yield made
    made.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Which PostgreSQL was used, or why there was none; `make test` repeats the line at its end."""
    found = postgres_programs.found()
    line = f"postgresql: {found}" if found else f"postgresql: skipped, there is none: {postgres_programs.HOW}"
    terminalreporter.write_line(line)
    if "STEMMADB_SKIPS" in os.environ:
        with Path(os.environ["STEMMADB_SKIPS"]).open("a") as skips:
            skips.write(f"{line}\n")
