"""What can be run: the scenarios in their order, and the micro benchmarks of the core."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Any

from benchmarks import core
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Row

ORDER = (
    "commit",
    "commit_spaces",
    "workers",
    "nodes",
    "commit_engine",
    "fanout",
    "fanout_load",
    "sparse",
    "past_read",
    "past_flat",
    "large_patch",
    "resume",
    "memory",
    "sdk_write",
    "client_live",
    "client_away",
    "client_memory",
    "crowd",
    "hostile",
    "http",
    "http_beside",
    "http_loop",
    "growth_data",
    "growth_clients",
    "growth_watchers",
    "growth_history",
    "growth_branches",
    "growth_merge",
)
QUICK = ("commit", "commit_engine", "fanout", "past_read")


def core_names() -> list[str]:
    return [info.name for info in pkgutil.iter_modules(core.__path__)]


def scenario(name: str) -> ModuleType:
    return importlib.import_module(f"benchmarks.scenarios.{name}")


def title(name: str) -> str:
    """One line on what it shows."""
    if name in ORDER:
        return str(scenario(name).TITLE)
    return (importlib.import_module(f"benchmarks.core.{name}").__doc__ or "").splitlines()[0]


def run_scenario(name: str, plan: Plan) -> list[Row]:
    rows: list[Row] = scenario(name).run(plan)
    return rows


def run_core(name: str, *, is_quick: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = importlib.import_module(f"benchmarks.core.{name}").run(quick=is_quick)
    return rows
