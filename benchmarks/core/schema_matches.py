"""Matching a value of 1 KB against a schema of ten keywords, beside the library alternative; selecting; reaching."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jsonschema_rs

from stemmadb.protocol.model import schema

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["title", "done"],
    "properties": {
        "title": {"type": "string", "minLength": 1, "maxLength": 200},
        "done": {"const": False},
        "priority": {"type": "integer", "minimum": 0, "maximum": 9},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 32, "uniqueItems": True},
        "state": {"enum": ["open", "waiting", "blocked"]},
        "code": {"pattern": "^[A-Z]{2}-[0-9]+$"},
    },
}
VALUE: dict[str, Any] = {
    "title": "Write the report",
    "done": False,
    "priority": 3,
    "tags": [f"tag {number}" for number in range(12)],
    "state": "open",
    "code": "AB-1234",
    "notes": "x" * 460,
    "people": [{"name": f"n{number}", "mail": f"n{number}@example.org"} for number in range(8)],
}
LINKED: dict[str, Any] = {**VALUE, "parts": [{"/": {"link@1": {"id": f"urn:todo:{number}"}}} for number in range(3)]}
MATCHES = "schema.matches, ten keywords, 1 KB"


def run(quick: bool = False) -> list[dict[str, object]]:
    """Medians of batches, the systems taking turns so that a busy machine is unfair to none."""
    compiled = schema.compile(SCHEMA)
    conjuncts = frozenset((compiled,))
    library = jsonschema_rs.validator_for(SCHEMA, pattern_options=jsonschema_rs.RegexOptions())
    systems: dict[tuple[str, str], Callable[[], object]] = {
        (MATCHES, "stemmadb, plain schema (cached)"): lambda: schema.matches(VALUE, SCHEMA),
        (MATCHES, "stemmadb, compiled"): lambda: compiled.matches(VALUE),
        (MATCHES, "jsonschema-rs, compiled"): lambda: library.is_valid(VALUE),
        ("schema.selects, ten keywords, 1 KB", "stemmadb"): lambda: schema.selects(conjuncts, VALUE),
        ("schema.reach, everything, 1 KB, 3 links", "stemmadb"): lambda: schema.reach(schema.EVERYTHING, LINKED),
    }
    times: dict[tuple[str, str], list[float]] = {name: [] for name in systems}
    for _ in range(5 if quick else 51):
        for name, call in systems.items():
            times[name].append(_batch(call, 200 if quick else 1_000))
    return [
        {"scenario": scenario, "system": system, "p50_us": round(statistics.median(taken), 2)}
        for (scenario, system), taken in times.items()
    ]


def _batch(call: Callable[[], object], count: int) -> float:
    assert call()
    start = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - start) / count / 1_000
