"""What holds for all tests.

Ctrl-C means what it means, also in the background of a shell, which has it ignored. What was there before the first
test is not looked through for garbage again and again: ten thousand tests are many objects, and all of them stay.
One worker more than there are cores: some always wait for a server that starts or a disk that syncs.
"""

from __future__ import annotations

import gc
import os
import signal

import pytest

from requirements import required

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure() -> None:
    required()  # refuses a name in STEMMADB_REQUIRE that does not exist


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # xdist reads it
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 1
