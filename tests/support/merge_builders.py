"""Short words for the worked cases of merges."""

from __future__ import annotations

from merge_space import Space
from stemmadb.protocol.model.merge import MergePlan
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.json_values import Value

X = EntityId("urn:x")


def forked(value: Value, *names: str) -> Space:
    """A space with one entity on main and these branches, or `draft`, forked from it."""
    space = Space()
    space.set("main", X, value)
    for name in names or ("draft",):
        space.fork(name)
    return space


def replace(path: str, value: Value) -> dict[str, Value]:
    return {"op": "replace", "path": path, "value": value}


def increment(path: str, by: float = 1) -> dict[str, Value]:
    return {"op": "increment", "path": path, "by": by}


def summary(plan: MergePlan) -> list[tuple[str, str, str]]:
    """Where both sides differed, and who won."""
    return [(conflict.id, conflict.path, conflict.winner) for conflict in plan.conflicts]
