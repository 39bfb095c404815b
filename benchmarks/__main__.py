"""Runs the benchmarks: `make bench`, `make bench SCENARIO=patch_apply`, `make bench-quick`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import platform
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import benchmarks

RESULTS = Path(__file__).parent / "results" / "latest.json"
Row = dict[str, Any]


def scenarios() -> list[str]:
    return sorted(info.name for info in pkgutil.iter_modules(benchmarks.__path__) if not info.name.startswith("_"))


def machine() -> dict[str, Any]:
    packages = ("apsw", "msgspec", "blake3", "msgpack", "pydantic", "jsonpatch")
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in packages},
    }


def merged(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """New rows in the place of the old ones of the same scenario and system, so that a run can be resumed."""
    rows = {(row["scenario"], row["system"], row.get("clients")): row for row in [*old, *new]}
    return [rows[key] for key in sorted(rows, key=str)]


def show(rows: Iterable[Row]) -> None:
    for row in rows:
        figures = {name: value for name, value in row.items() if name not in ("scenario", "system")}
        shown = "  ".join(
            f"{name} {value:,.2f}" if isinstance(value, float) else f"{name} {value}"
            for name, value in figures.items()
        )
        print(f"{row['scenario']:<62} {row['system']:<36} {shown}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--only", metavar="NAME", choices=scenarios(), help="one of: " + ", ".join(scenarios()))
    parser.add_argument("--quick", action="store_true", help="fewer repetitions; nothing is written")
    chosen = parser.parse_args()
    rows: list[Row] = []
    for name in [chosen.only] if chosen.only else scenarios():
        module = importlib.import_module(f"benchmarks.{name}")
        if getattr(module, "ALONE", False) and not (chosen.only or chosen.quick):
            continue  # takes so long that it is run only when it is asked for
        print(f"-- {name}", file=sys.stderr, flush=True)
        found = module.run(quick=chosen.quick)
        show(found)
        rows += found
    if not chosen.quick:
        old = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
        RESULTS.write_text(json.dumps({"machine": machine(), "rows": merged(old, rows)}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
