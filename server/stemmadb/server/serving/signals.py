"""Signals: the first one asks for a graceful stop, the second one ends the process at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

AT_ONCE: Final = 130
"""The exit code of a process that was not given the time to stop."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopping_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """Sets `stop` at the first signal. What is acknowledged is durable, so the second loses nothing either."""
    loop = asyncio.get_running_loop()

    def signalled() -> None:
        if stop.is_set():
            os._exit(AT_ONCE)
        stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, signalled)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
