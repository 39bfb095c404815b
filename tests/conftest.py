"""What holds for all tests.

Ctrl-C means what it means, also in the background of a shell, which has it ignored. What was there before the first
test is not looked through for garbage again and again: ten thousand tests are many objects, and all of them stay.
"""

from __future__ import annotations

import gc
import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    gc.freeze()
