"""What a watch costs: steps that follow the change, and no values kept."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from graphs import Stored, feed, link, stored
from stemmadb.protocol.model.query.query import Query, Root, prepare
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.watch import WatchEvaluator

ROOT = Root("urn:a:1", schema=True)


def tree(count: int) -> dict[str, Any]:
    """Each entity links to two below it, to the one above, and to a hub that all of them link to."""
    values: dict[str, Any] = {}
    for n in range(count):
        below = [link(f"urn:n:{child}") for child in (2 * n + 1, 2 * n + 2) if child < count]
        values[f"urn:n:{n}"] = {
            "below": below,
            "above": link(f"urn:n:{max(n - 1, 0) // 2}"),
            "hub": link("urn:hub:1"),
        }
    return values | {"urn:hub:1": {"first": link("urn:n:0")}}


def calls_of_steps(count: int, *changes: dict[str, Any]) -> int:
    """How many functions are called by the steps: a measure of cost that no clock disturbs."""
    entities = stored(tree(count))
    watched: WatchEvaluator[Stored] = WatchEvaluator(prepare(Query(roots=(Root("urn:n:0", schema=True),))))
    feed(watched.fill(), entities)
    calls = 0

    def count_calls(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    for change in map(stored, changes):
        sys.setprofile(count_calls)
        try:
            feed(watched.step(change), {})
        finally:
            sys.setprofile(None)
    return calls


@pytest.mark.rule("WATCH-2")
@pytest.mark.parametrize(
    "changed",
    [
        {"below": [], "above": link("urn:n:0"), "hub": link("urn:hub:1"), "title": "edited"},
        {"below": [], "above": link("urn:n:0")},
        {"below": [link("urn:n:1")], "above": link("urn:n:0"), "hub": link("urn:hub:1")},
        {},
        [],
    ],
)
def test_a_step_in_a_large_graph_does_as_much_as_in_a_small_one(changed: Any) -> None:
    small, large = calls_of_steps(7, {"urn:n:6": changed}), calls_of_steps(4_095, {"urn:n:4094": changed})
    assert large <= small + 5


@pytest.mark.rule("WATCH-2")
def test_a_hub_that_loses_the_link_it_hangs_on_finds_another_without_a_search() -> None:
    # The hub hangs on the root; the next link to it is taken, and what hangs below the hub is left in peace.
    roots = {"urn:n:0": {"below": [link("urn:n:1"), link("urn:n:2")]}}
    assert calls_of_steps(4_095, roots) <= calls_of_steps(7, roots) + 5


@pytest.mark.rule("WATCH-2")
def test_no_value_is_kept_between_steps() -> None:
    import gc
    import weakref

    class Counted(Stored):
        pass

    def values() -> dict[EntityId, Stored]:
        return {EntityId("urn:a:1"): Counted({"next": link("urn:a:2")}), EntityId("urn:a:2"): Counted({})}

    kept: WatchEvaluator[Stored] = WatchEvaluator(prepare(Query(roots=(ROOT,))))
    supplied = values()
    seen = [weakref.ref(held) for held in supplied.values()]
    feed(kept.fill(), supplied)
    changes: dict[EntityId, Stored | None] = {**values()}
    seen += [weakref.ref(held) for held in changes.values() if held is not None]
    feed(kept.step(changes), {})
    del supplied, changes
    gc.collect()
    assert [held() for held in seen] == [None] * 4
    assert kept.entities() == {"urn:a:1", "urn:a:2"}
