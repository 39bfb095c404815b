"""A row of the results: one system in one scenario with so many clients; how rows are made, merged and kept."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

SYSTEMS = ("stemmadb", "etcd", "postgres", "redis", "nats", "sharedb", "sqlite", "fdatasync")
OURS, ETCD, POSTGRES, REDIS, NATS, SHAREDB, SQLITE, FDATASYNC = SYSTEMS
COLUMNS = ("rate", "p50_us", "p99_us", "cpu_us_per_op")
"""What every row has, though a scenario that does not measure it has none in it."""
LATEST = Path(__file__).parents[1] / "results" / "latest.json"

Row: TypeAlias = dict[str, Any]
Turn: TypeAlias = Mapping[str, float]
"""What one turn measured, by column."""


class Key(NamedTuple):
    """One row's place."""

    scenario: str
    system: str
    clients: int


def key_of(row: Row) -> Key:
    return Key(row["scenario"], row["system"], row["clients"])


def base(scenario: str) -> str:
    """The scenario that a row belongs to: `fanout: by write` is a variant of `fanout`."""
    return scenario.partition(":")[0]


def made(key: Key, turns: Sequence[Turn], *, n: int, durable: bool, **more: object) -> Row:
    """Medians over the turns, the range of the rate, and every turn, so that systems can be compared turn by turn."""
    assert key.system in SYSTEMS, key
    columns = list(dict.fromkeys(name for turn in turns for name in turn))
    by_column = {name: [_short(turn[name]) for turn in turns] for name in columns}
    medians = {name: float(statistics.median(figures)) for name, figures in by_column.items()}
    rates = by_column.get("rate")
    return {
        **key._asdict(),
        **dict.fromkeys(COLUMNS),
        **medians,
        "rate_min": min(rates) if rates else None,
        "rate_max": max(rates) if rates else None,
        "durable": durable,
        "n": n,
        "reps": len(turns),
        **more,
        "turns": by_column,
    }


def _short(figure: float) -> float:
    """Five digits: more is noise, and makes the file hard to read."""
    return float(f"{figure:.5g}")


def merged(old: Iterable[Row], new: Sequence[Row]) -> list[Row]:
    """The new rows, and the old ones of scenarios that the new run did not touch; one row for each key, in order."""
    again = {base(row["scenario"]) for row in new}
    kept = [row for row in old if base(row["scenario"]) not in again]
    rows = {key_of(row): row for row in [*kept, *new]}
    return [rows[key] for key in sorted(rows, key=_order)]


def _order(key: Key) -> tuple[str, int, int]:
    return key.scenario, key.clients, SYSTEMS.index(key.system)


def load(path: Path = LATEST) -> dict[str, Any]:
    """`{"machine": ..., "rows": [...]}`; empty if there is no file yet."""
    if not path.exists():
        return {"machine": {}, "rows": []}
    kept: dict[str, Any] = json.loads(path.read_text())
    return kept


def save(machine: Mapping[str, object], rows: Sequence[Row], path: Path = LATEST) -> None:
    """One line for each row, so that a change can be read; the file is replaced as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    text = f'{{\n "machine": {json.dumps(machine)},\n "rows": [\n{lines}\n ]\n}}\n'
    scratch = path.with_suffix(".new")
    scratch.write_text(text)
    scratch.replace(path)
