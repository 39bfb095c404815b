"""Reading a body exactly, against the msgpack package with a hook that finds keys that occur twice."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from typing import Any

import msgpack

from stemmadb.protocol.model.values import body, scan

TODO = {"title": "write the spec", "done": False, "votes": [1, 2, 3], "tags": {"a": "b", "c": 1.5}}


def _pairs(items: list[tuple[Any, Any]]) -> dict[Any, Any]:
    made = dict(items)
    if len(made) != len(items):
        raise ValueError("a key occurs twice")
    return made


def run(quick: bool = False) -> list[dict[str, object]]:
    data = body.encode(TODO)
    systems: dict[str, Callable[[], Any]] = {
        "stemmadb": lambda: body.read(data),
        "stemmadb, exact reader alone": lambda: scan.read(data),
        "msgpack + hook for keys": lambda: msgpack.unpackb(data, object_pairs_hook=_pairs),
    }
    samples: dict[str, list[float]] = {name: [] for name in systems}
    number = 2_000
    for _ in range(5 if quick else 25):
        for name, call in systems.items():
            samples[name].append(timeit.timeit(call, number=number) / number * 1e6)
    scenario = f"body read, {len(data)} bytes"
    return [
        {"scenario": scenario, "system": name, "p50_us": statistics.median(taken)} for name, taken in samples.items()
    ]
