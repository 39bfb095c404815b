"""Shrinking: the smallest options with which a run still fails, by trying to take one thing away after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from simulation.options import Options

SIMPLEST: Final = {
    "apps": 2,
    "workers": 1,
    "latency": 0.001,
    "jitter": 0.0,
    "disk_seconds": 0.0,
    "journals": 0.0,
    "json": 0.0,
    "part_bytes": 1 << 20,
    "feed_batches": 4096,
    "cache_bytes": 1 << 26,
}
"""What a person would rather look at."""
LEAST_SECONDS: Final = 0.1


def shrink(options: Options, fails: Callable[[Options], bool], *, tries: int = 300) -> Options:
    """Greedy: whatever can go, goes, until nothing more can; `fails` is true of what is given and what comes back."""
    while True:
        for smaller in _smaller(options):
            tries -= 1
            if fails(smaller):
                options = smaller
                break
            if tries <= 0:
                return options
        else:
            return options


def _smaller(options: Options) -> Iterator[Options]:
    """The same with one thing less each, what takes most away first."""
    for field in ("faults", "work"):
        kinds: tuple[str, ...] = getattr(options, field)
        half = len(kinds) // 2
        parts = [kinds[half:], kinds[:half]] if half > 1 else []
        ones = [tuple(one for one in kinds if one != without) for without in kinds]
        for fewer in [*parts, *ones]:
            yield msgspec.structs.replace(options, **{field: fewer})
    if options.seconds > LEAST_SECONDS:
        yield msgspec.structs.replace(options, seconds=options.seconds / 2)
        yield msgspec.structs.replace(options, seconds=options.seconds * 0.8)
    if options.apps > SIMPLEST["apps"]:
        yield msgspec.structs.replace(options, apps=options.apps - 1)
    for field, simple in SIMPLEST.items():
        if field != "apps" and getattr(options, field) != simple:
            yield msgspec.structs.replace(options, **{field: simple})
