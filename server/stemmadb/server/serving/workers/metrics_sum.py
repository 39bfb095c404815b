"""Adds up what several workers answer to a scrape, line by line of the text format. No I/O.

Counters, gauges and cumulative buckets of histograms are added. The time a process began is the earliest of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

EARLIEST: Final = "process_start_time_seconds"


def add_up(answers: Sequence[bytes], *, workers: int) -> bytes:
    """The first answer's order; `workers` are those there should be."""
    values: dict[str, float] = {}
    lines: dict[str, list[str]] = {}
    family = ""
    for answer in answers:
        for line in answer.decode().splitlines():
            if line.startswith("#"):
                family = line.split(" ", 3)[2]
                heads = lines.setdefault(family, [])
                if line not in heads:
                    heads.append(line)
                continue
            name, _, value = line.rpartition(" ")
            if name not in values:
                values[name] = float(value)
                lines[family].append(name)
            else:
                both = (values[name], float(value))
                values[name] = min(both) if name == EARLIEST else sum(both)
    return "".join(_written(shown, values) for shown in lines.values()).encode() + _of_workers(len(answers), workers)


def _written(lines: Sequence[str], values: dict[str, float]) -> str:
    return "".join(f"{line}\n" if line.startswith("#") else f"{line} {values[line]!r}\n" for line in lines)


def _of_workers(answered: int, workers: int) -> bytes:
    return (
        "# HELP stemmadb_workers Workers of this server.\n"
        "# TYPE stemmadb_workers gauge\n"
        f"stemmadb_workers {workers}\n"
        "# HELP stemmadb_workers_missing Workers that did not answer this scrape: their share is missing in it.\n"
        "# TYPE stemmadb_workers_missing gauge\n"
        f"stemmadb_workers_missing {workers - answered}\n"
    ).encode()
