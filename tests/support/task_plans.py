"""Plans to draw: valid ones, and ones that break rules."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

STATUSES = ["pending", "in-progress", "done"]
IDS = st.lists(st.integers(1, 12), min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))
TEXTS = st.text('a1. "\\/<\n\t\x01\x7fü漢\u2028\U0001f600', max_size=5)
TIMES = st.sampled_from([None, "2025-10-01T10:05:00Z", "2025-10-01T10:05:00.5Z", "2026-01-01T00:00:00Z"])


def _with_ancestors(drawn: set[str]) -> list[str]:
    every = {".".join(one.split(".")[:size]) for one in drawn for size in range(1, one.count(".") + 2)}
    return sorted(every, key=lambda one: [int(part) for part in one.split(".")])


@st.composite
def plans(draw: st.DrawFn, *, at_least: int = 0) -> dict[str, dict[str, Any]]:
    """Task records that keep every rule but the roll-up: dependencies lead to tasks that come before."""
    every = _with_ancestors(draw(st.sets(IDS, max_size=8, min_size=at_least)))
    records: dict[str, dict[str, Any]] = {}
    for place, id_ in enumerate(every):
        record: dict[str, Any] = {"id": id_, "type": ("epic", "feature", "task")[id_.count(".")]}
        record["status"] = draw(st.sampled_from(STATUSES))
        if place:
            record["dependencies"] = draw(st.lists(st.sampled_from(every[:place]), unique=True, max_size=2))
        for field, values in (
            ("title", TEXTS), ("deliverables", st.lists(TEXTS, max_size=2)), ("startedAt", TIMES), ("zebra", TEXTS),
        ):  # fmt: skip
            if draw(st.booleans()):
                record[field] = draw(values)
        records[id_] = record
    return records


@st.composite
def broken_files(draw: st.DrawFn) -> dict[str, Any]:
    """Task records with fields of any kind, by the name of their file."""
    odd_ids = st.sampled_from(["1", "1.1", "1.2", "2", "1.1.1", "2.1.1", "01", "1..2", "1.2.3.4", "1.a"])
    fields = {
        "id": odd_ids, "type": st.sampled_from(["epic", "feature", "task", "x", None]),
        "status": st.sampled_from([*STATUSES, "DONE", 3]),
    }  # fmt: skip
    more: dict[str, st.SearchStrategy[Any]] = {
        "parent": st.none() | odd_ids, "children": st.lists(odd_ids, max_size=2) | st.just("1.1"),

        "dependencies": st.lists(odd_ids, max_size=3) | st.just({}),
        "deliverables": st.lists(TEXTS, max_size=1) | st.just([1]), "tests": st.lists(TEXTS, max_size=1) | st.none(),
        "startedAt": TIMES | st.just("yesterday"), "completedAt": TIMES,
    }  # fmt: skip
    found: dict[str, Any] = {}
    for name in draw(st.sets(odd_ids, max_size=5)):
        record = draw(st.fixed_dictionaries(fields, optional=more))
        found[name] = draw(st.sampled_from([record | {"id": name}] * 6 + [record, [], "text"]))
    return found
