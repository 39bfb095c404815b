"""Fixtures of the conformance suite: every backend, and an empty log on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backends import BACKENDS, Backend
from stemmadb.server.storage.port import SpaceLog


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    made = Backend(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def log(backend: Backend) -> SpaceLog:
    return backend.open()
