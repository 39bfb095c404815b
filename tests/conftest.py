"""What holds for all tests.

Ctrl-C means what it means, also in the background of a shell, which has it ignored. What was there before the first
test is not looked through for garbage again and again: ten thousand tests are many objects, and all of them stay.
One worker more than there are cores: some always wait for a server that starts or a disk that syncs.
"""

from __future__ import annotations

import gc
import os
import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    gc.freeze()


def pytest_xdist_auto_num_workers() -> int:
    return (os.cpu_count() or 1) + 1
