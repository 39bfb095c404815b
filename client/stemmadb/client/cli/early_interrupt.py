"""Ctrl-C while the command is still being loaded: one sentence and exit 130, as at any later time.

Until then Python itself would end the process by the signal, with a traceback.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
SENTENCE: Final = b"Interrupted. Nothing was left half done.\n"


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """For the time of the block, where Ctrl-C means what it means to Python: an app has handlers of its own."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    try:
        signal.signal(signal.SIGINT, _leave)
    except ValueError:  # in a thread, where nobody may set one
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os.write(2, SENTENCE)
    os._exit(INTERRUPTED)
