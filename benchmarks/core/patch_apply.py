"""Patch apply against the `jsonpatch` package: two small operations on nested documents of 10 KB and 1 MB."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jsonpatch
import msgspec

from stemmadb.protocol.model import patch
from stemmadb.protocol.model.values import json_values

SHAPES = {"10 KB": 14, "1 MB": 140}  # so many keys of so many keys
TEXT = "x" * 40


def document(width: int) -> dict[str, Any]:
    return {f"key{row}": {f"key{column}": f"{TEXT}{row}.{column}" for column in range(width)} for row in range(width)}


def operations(width: int) -> list[dict[str, Any]]:
    """Replace a leaf and add a leaf, in different objects."""
    return [
        {"op": "replace", "path": f"/key{width // 2}/key{width // 3}", "value": "changed"},
        {"op": "add", "path": f"/key{width // 4}/new", "value": 17},
    ]


def microseconds(call: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times * 1e6


def compare(size: str, width: int, rounds: int) -> list[dict[str, object]]:
    """Medians over rounds in which every system takes its turn, so that a busy moment strikes all alike."""
    value, changes = document(width), operations(width)
    length = len(msgspec.msgpack.encode(value))
    assert json_values.equal(patch.apply(value, changes), jsonpatch.apply_patch(value, changes))
    systems: dict[str, tuple[Callable[[], object], int]] = {
        "stemmadb": (lambda: patch.apply(value, changes), 200),
        "stemmadb sized": (
            lambda: patch.apply_sized(value, length, changes, size_max=2 * length, depth_max=64),
            200,
        ),
        "jsonpatch": (lambda: jsonpatch.apply_patch(value, changes), 1 if width > 100 else 20),
    }
    taken: dict[str, list[float]] = {system: [] for system in systems}
    for _ in range(rounds):
        for system, (call, times) in systems.items():
            taken[system].append(microseconds(call, times))
    medians = {system: statistics.median(samples) for system, samples in taken.items()}
    return [
        {
            "scenario": f"patch apply {size}",
            "system": system,
            "p50_us": round(median, 2),
            "ratio": round(medians["jsonpatch"] / median, 1),
        }
        for system, median in medians.items()
    ]


def run(quick: bool = False) -> list[dict[str, object]]:
    """One row for each size and system; `ratio` is how many times faster than `jsonpatch` it is."""
    return [row for size, width in SHAPES.items() for row in compare(size, width, rounds=5 if quick else 25)]
