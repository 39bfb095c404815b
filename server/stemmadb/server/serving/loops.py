"""The event loop of the process: uvloop where it is there, since it costs less for each message, else asyncio's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=fastest()) as runner:
        return runner.run(work)


def fastest() -> Callable[[], asyncio.AbstractEventLoop]:
    """Makes loops of the kind that serves best here (docs/decisions/0008)."""
    try:
        import uvloop  # noqa: PLC0415  compiled code, which not every machine has
    except ImportError:
        return asyncio.new_event_loop
    made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return made
