"""Replay: an entity's state is a fold of its facts, from the beginning or from a snapshot (COMMIT-8, SNAP-1)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from stemmadb.protocol.model import patch
from stemmadb.protocol.model.log.facts import Foldable
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.json_values import Value

SNAPSHOT_FACTOR = 2
SNAPSHOT_PATCH_BYTES = 1024
"""What replaying a patch costs beside its bytes: about as much as reading so many bytes of a value."""
SNAPSHOT_BYTES_MIN = 16 * SNAPSHOT_PATCH_BYTES
SNAPSHOT_COUNT_MAX = 1024


def fold(
    start: Value | Missing,
    facts: Iterable[Foldable],
    *,
    erased: Missing = Missing.ERASED,
) -> Value | Missing:
    """The state after the facts, oldest first, given the state before them.

    Bodies are read whatever the bounds are now: what was admitted once can be read for ever (COMMIT-8). A body that
    is gone makes the state `erased` until the next `set` or `delete` (ERASE-1); a checkpoint states the value again,
    so replay can begin there too. Patches that follow one another copy what they change once, not once each.
    """
    state = start
    for is_patch, run in groupby(facts, _is_patch):
        if is_patch and not isinstance(state, Missing):
            state = patch.apply_each(state, map(_operations, run))
        else:
            for fact in run:
                state = _after(state, fact, erased)
    return state


def _is_patch(fact: Foldable) -> bool:
    return fact.kind == "patch" and fact.body is not None


def _operations(fact: Foldable) -> Any:
    assert fact.body is not None, "a patch that is gone is folded by itself"
    return body.read_stored(fact.body)


def _after(state: Value | Missing, fact: Foldable, erased: Missing) -> Value | Missing:
    if fact.kind == "delete":
        return Missing.ABSENT
    if fact.body is None:
        # A checkpoint changes nothing, so one that is gone takes nothing away from a state that is there.
        return state if fact.kind == "checkpoint" and not isinstance(state, Missing) else erased
    if fact.kind == "patch":
        assert state is not Missing.ABSENT, f"admission let a patch of nothing into the log: {fact.id}"
        return state
    return body.read_stored(fact.body)


def begins_here(fact: Foldable) -> bool:
    """Whether the state after this fact needs none before it; a `set` whose body is gone leaves what is gone."""
    return fact.kind in ("set", "delete") or (fact.kind == "checkpoint" and fact.body is not None)


def snapshot_due(*, patches: int, patch_bytes: int, value_bytes: int) -> bool:
    """Whether replaying the patches since the last whole value costs more than a bounded multiple of reading it.

    A small value gets a snapshot about every sixteen patches; a large one when replaying costs twice as much as
    reading it, so that snapshots do not outweigh the patches, and at the latest after `SNAPSHOT_COUNT_MAX` (SNAP-1).
    """
    cost = patch_bytes + SNAPSHOT_PATCH_BYTES * patches
    return cost >= max(SNAPSHOT_BYTES_MIN, SNAPSHOT_FACTOR * value_bytes) or patches >= SNAPSHOT_COUNT_MAX
