"""Waiting for at most a while: blocking code has no other way to stop waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from stemmadb.protocol.errors import TimedOut

T = TypeVar("T")


async def within(timeout: float | None, waiting: Awaitable[T]) -> T:
    """What is awaited; `TimedOut` if that takes more than `timeout` seconds, which changes nothing about it."""
    try:
        async with asyncio.timeout(timeout) as clock:
            return await waiting
    except TimeoutError:
        if not clock.expired():
            raise
        assert timeout is not None, "what has no time does not run out of it"
        raise TimedOut(timeout_ms=round(timeout * 1_000)) from None
