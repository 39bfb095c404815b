"""Chaos: faults at random moments, by a seeded schedule, until it is calm again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import TypeAlias

Fault: TypeAlias = Callable[[], None]
"""Does it at once; what has to end later is planned with `Chaos.later`."""


class Chaos:
    """One fault after the other, `every` so many seconds on average, each as likely as the others."""

    def __init__(self, random: Random, *, every: float, faults: Mapping[str, Fault]) -> None:
        assert every > 0, "faults need time between them"
        self.count = 0
        """Faults so far."""
        self._loop = asyncio.get_running_loop()
        self._random = random
        self._every = every
        self._faults = dict(sorted(faults.items()))
        self._timers: list[asyncio.TimerHandle] = []
        self._next = self._plan()

    def _plan(self) -> asyncio.TimerHandle:
        return self._loop.call_later(self._random.expovariate(1 / self._every), self._strike)

    def _strike(self) -> None:
        self._next = self._plan()
        self.count += 1
        self._faults[self._random.choice(list(self._faults))]()

    def later(self, seconds: float, end: Callable[[], None]) -> None:
        """Calls it after so many seconds, unless it is calm by then."""
        now = self._loop.time()
        self._timers = [timer for timer in self._timers if timer.when() > now]
        self._timers.append(self._loop.call_later(seconds, end))

    def stop(self) -> None:
        """No more faults; what they began is for the caller to take back."""
        self._next.cancel()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
