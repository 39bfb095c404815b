"""Turns that a peer broke off: a busy server ends a call, or a connection. It is said, and tried again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from benchmarks.load.websocket import Gone

TRIES = 3
PAUSE_SECONDS = 1.0
BROKEN_OFF = (OSError, Gone)
"""A call or a connection that was ended, and a server that says nothing for too long."""

T = TypeVar("T")


def retried(system: str, turn: Callable[[], T], pause: Callable[[float], None] = time.sleep) -> T:
    """What the turn gives. It makes its clients itself: those of a broken one are of no use. The last try raises."""
    for tried in range(1, TRIES):
        try:
            return turn()
        except BROKEN_OFF as error:
            why = str(error) or type(error).__name__
            print(f"   {system} broke off a turn, which is tried again ({tried}): {why}", file=sys.stderr, flush=True)
            pause(PAUSE_SECONDS)
    return turn()
