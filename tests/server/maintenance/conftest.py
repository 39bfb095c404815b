"""Fixtures for keeping a store: a space with one of everything on each backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backends import BACKENDS, Backend
from kept_spaces import fill
from stemmadb.server.storage.port import SpaceLog


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    made = Backend(request.param, tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def log(backend: Backend) -> SpaceLog:
    """A log with one of everything in it."""
    made = backend.open()
    fill(made)
    return made
