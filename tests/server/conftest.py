"""What tests of the server share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def scratch() -> Iterator[Path]:
    """In memory if there is such a place: for what need not outlive anything."""
    shared = Path("/dev/shm")  # noqa: S108
    directory = Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else None))
    yield directory
    shutil.rmtree(directory)
