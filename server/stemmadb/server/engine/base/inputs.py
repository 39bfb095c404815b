"""What a space is given from outside: time, randomness and bounds, so that a simulation can replace them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.counters import Counts
from stemmadb.server.engine.base.settings import Settings


class Inputs(NamedTuple):
    """Shared by all spaces of a store; `salts` gives 16 random bytes at a time (FACT-2)."""

    now: Callable[[], TimeMs]
    salts: Iterator[bytes]
    limits: Limits
    settings: Settings
    counts: Counts
