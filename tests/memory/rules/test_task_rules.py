"""The pure rules of task files, against naive definitions of the same."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stemmadb.memory.rules.refusals import InvalidRequest
from stemmadb.memory.rules.tasks import file_text, ids, index
from stemmadb.memory.rules.tasks.plan import TaskPlan, in_circles, rolled_up
from task_plans import IDS, STATUSES, TEXTS, plans

# ---------------------------------------------------------------- ids


@pytest.mark.rule("WBS-4")
@pytest.mark.parametrize(
    "id_", ["", "0", "01", "1.", ".1", "1..2", "1.2.3.4", "1.a", "a", "1.02", "-1", "1.2.3\n", " 1",
            "\u0661", "1,2", "1234567890", None, 1, 1.2]
)  # fmt: skip
def test_what_is_no_id(id_: object) -> None:
    assert not ids.is_id(id_)


@pytest.mark.rule("WBS-4")
@given(IDS)
def test_an_id_says_its_depth_type_and_parent(id_: str) -> None:
    parts = id_.split(".")
    assert ids.is_id(id_)
    assert ids.type_of(id_) == {1: "epic", 2: "feature", 3: "task"}[len(parts)]
    assert ids.parent_of(id_) == (".".join(parts[:-1]) or None)


@pytest.mark.rule("WBS-4")
def test_ids_are_ordered_by_their_numbers() -> None:
    given_ = ["10", "2", "1.10", "1.9", "1", "1.9.2", "1.9.11"]
    assert sorted(given_, key=ids.order) == ["1", "1.9", "1.9.2", "1.9.11", "1.10", "2", "10"]


# ---------------------------------------------------------------- roll-up and progress


@pytest.mark.rule("WBS-5")
@pytest.mark.parametrize(
    ("children", "parent"),
    [(["done", "done"], "done"), (["done", "pending"], "in-progress"), (["done", "in-progress"], "in-progress"),
     (["in-progress", "pending"], "pending"), (["pending"], "pending"), (["done"], "done")],
)  # fmt: skip
def test_a_parent_is_what_its_direct_children_come_to(children: list[str], parent: str) -> None:
    assert rolled_up(children) == parent


@pytest.mark.rule("WBS-5")
@given(plans())
def test_status_and_progress_against_a_naive_walk(records: dict[str, dict[str, Any]]) -> None:
    plan = TaskPlan(records)
    for id_ in records:
        below = [one for one in records if one.startswith(id_ + ".")]
        leaves = [one for one in below if not any(other.startswith(one + ".") for other in records)] or [id_]
        direct = [plan.status(one) for one in below if one.count(".") == id_.count(".") + 1]
        assert plan.status(id_) == (rolled_up(direct) if direct else records[id_]["status"])
        assert plan.progress(id_) == {
            "completed": sum(records[leaf]["status"] == "done" for leaf in leaves),
            "total": len(leaves),
        }


# ---------------------------------------------------------------- dependencies

GRAPHS = st.dictionaries(st.integers(0, 7).map(str), st.sets(st.integers(0, 7).map(str), max_size=3), max_size=8)


@pytest.mark.rule("WBS-6")
@given(GRAPHS)
def test_circles_against_reachability(graph: dict[str, set[str]]) -> None:
    edges = {node: {to for to in on if to in graph and to != node} for node, on in graph.items()}
    reach = {node: set(on) for node, on in edges.items()}
    for _ in graph:
        reach = {node: on.union(*(reach[to] for to in on)) for node, on in reach.items()}
    circular = {node for node in graph if node in reach[node]}
    found = in_circles(graph)
    assert circular <= found
    for node in found - circular:  # on a way from one circle to another
        assert reach[node] & circular
        assert any(node in reach[other] for other in circular)


@pytest.mark.rule("WBS-7")
@given(plans())
def test_the_next_task_is_the_first_that_can_be_started(records: dict[str, dict[str, Any]]) -> None:
    plan = TaskPlan(records)

    def can_start(id_: str) -> bool:
        try:
            plan.check_can_work(id_, "start")
        except InvalidRequest:
            return False
        return True

    ready = [id_ for id_ in records if id_.count(".") == 2 and plan.status(id_) == "pending" and can_start(id_)]
    assert plan.next_available() == min(ready, key=ids.order, default=None)


@pytest.mark.rule("WBS-7")
def test_what_cannot_be_started_says_why() -> None:
    records: dict[str, dict[str, Any]] = {
        "1": {"status": "pending"}, "1.1": {"status": "done"},
        "1.2": {"status": "pending", "dependencies": ["1.3", "1.1"]},
        "1.3": {"status": "in-progress"},
    }  # fmt: skip
    plan = TaskPlan(records)
    plan.check_can_work("1.3", "start")
    for id_, reason in (("1", "not a leaf"), ("1.1", "done already"), ("1.2", "blocked by 1.3."), ("9", "no task 9")):
        with pytest.raises(InvalidRequest, match=reason):
            plan.check_can_work(id_, "start")


# ---------------------------------------------------------------- bytes

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)


@pytest.mark.rule("WBS-14")
@given(VALUES)
def test_json_is_written_as_python_writes_it_and_read_back(value: Any) -> None:
    text = file_text.write_json(value)
    assert text == json.dumps(value, indent=2, ensure_ascii=False).replace("\x7f", "\\u007f") + "\n" or "\b" in str(
        value
    )
    assert file_text.read_json(text.encode()).value == value


@pytest.mark.rule("WBS-14")
@given(st.sets(st.sampled_from([*file_text.TASK_KEYS, "zebra", "alpha"])))
def test_known_fields_come_first_in_their_order_and_others_by_name(keys: set[str]) -> None:
    ordered = list(file_text.in_order(dict.fromkeys(keys)))
    rank = [*file_text.TASK_KEYS, "alpha", "zebra"]
    assert sorted(ordered) == sorted(keys)
    assert all(rank.index(one) < rank.index(two) for one, two in pairwise(ordered))


@pytest.mark.rule("WBS-14", "WBS-15")
@given(plans())
def test_a_task_file_gives_back_what_is_stored(records: dict[str, dict[str, Any]]) -> None:
    plan = TaskPlan(records)
    for id_, record in records.items():
        value = json.loads(index.task_text(id_, plan))
        assert value["children"] == list(plan.children(id_))
        stored = index.stored_of(id_, value, has_children=bool(plan.children(id_)))
        assert stored == index.stored_of(id_, record, has_children=bool(plan.children(id_)))
        assert "children" not in stored
        assert ("status" in stored) == (not plan.children(id_))


@pytest.mark.parametrize("data", [b"", b"{", b"{} {}", b"\xff", b'"\xed\xa0\x80"', b"nan", b"[1,]", b"[" * 5000])
def test_what_is_not_json_has_a_refusal(data: bytes) -> None:
    assert file_text.read_json(data).refusal == file_text.NOT_JSON


def test_statuses_are_the_seeds() -> None:
    assert tuple(STATUSES) == ids.STATUSES
