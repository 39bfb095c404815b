"""The pure rules of the JSON interface: its gates, the adjustment of truth and utility, ranking and places."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.lessons import gates, reading
from stemmadb.memory.rules.lessons.adjusting import adjusted
from stemmadb.memory.rules.lessons.faults import LessonRefused
from stemmadb.memory.rules.lessons.reading import LessonEdge, RankedLesson, ReachedLesson
from stemmadb.memory.rules.lessons.requests import Adjustment, NeighbourOptions, ReadLessons, ReadMode

UUID = "550e8400-e29b-41d4-a716-446655440000"
LESSON = {"text": "t", "scope": "repo", "kind": "fact", "confidence": 0.5}
TRUTH = {"target": 1, "confidence": 1, "rationale": "seen", "evidence_refs": ["run 1"]}
UTILITY = {"target": 1, "confidence": 1, "rationale": "helped"}
READ: dict[str, Any] = {"op": "read", "repo_id": "r", "mode": "targeted", "query": "q"}
WRITE: dict[str, Any] = {"op": "write", "repo_id": "r", "memory": LESSON}
UPDATE: dict[str, Any] = {
    "op": "update",
    "repo_id": "r",
    "memory_id": UUID,
    "mode": "commit",
    "updates": {"truth": TRUTH, "utility": UTILITY},
}
MISSING = object()


def changed(request: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy with another value at a path with dots."""
    made = copy.deepcopy(request)
    *parents, last = path.split(".")
    at = made
    for name in parents:
        at = at.setdefault(name, {})
    if value is MISSING:
        del at[last]
    else:
        at[last] = value
    return made


def faults(value: object) -> list[tuple[str, str]]:
    with pytest.raises(LessonRefused) as refused:
        gates.passed(value)
    return [(fault.code, fault.field) for fault in refused.value.faults]


# ---------------------------------------------------------------- gates


@pytest.mark.rule("OPS-1")
@pytest.mark.parametrize(
    ("request_", "path", "value", "field"),
    [
        (READ, "op", "delete", "op"),
        (READ, "op", MISSING, "op"),
        (READ, "op", ["read"], "op"),
        (READ, "repo_id", 7, "repo_id"),
        (READ, "repo_id", MISSING, "repo_id"),
        (READ, "mode", "deep", "mode"),
        (READ, "query", "", "query"),
        (READ, "include_global", 1, "include_global"),
        (READ, "kinds", ["decision"], "kinds.0"),
        (READ, "kinds", ["fact", "fact"], "kinds"),
        (READ, "limit", 0, "limit"),
        (READ, "limit", 101, "limit"),
        (READ, "limit", True, "limit"),
        (READ, "limit", 1.5, "limit"),
        (READ, "expand.semantic_hops", -1, "expand.semantic_hops"),
        (READ, "expand.semantic_hops", 4, "expand.semantic_hops"),
        (READ, "expand.include_problem_links", "no", "expand.include_problem_links"),
        (WRITE, "memory", [], "memory"),
        (WRITE, "memory.text", "", "memory.text"),
        (WRITE, "memory.text", "half \ud800", ""),
        (WRITE, "memory.scope", "team", "memory.scope"),
        (WRITE, "memory.kind", "decision", "memory.kind"),
        (WRITE, "memory.confidence", -0.01, "memory.confidence"),
        (WRITE, "memory.confidence", 1.01, "memory.confidence"),
        (WRITE, "memory.confidence", "1", "memory.confidence"),
        (WRITE, "memory.confidence", MISSING, "memory.confidence"),
        (WRITE, "memory.links.related_memory_ids", [1], "memory.links.related_memory_ids.0"),
        (WRITE, "memory.evidence_refs", "run 1", "memory.evidence_refs"),
        (UPDATE, "memory_id", MISSING, "memory_id"),
        (UPDATE, "mode", "try", "mode"),
        (UPDATE, "updates", {}, "updates"),
        (UPDATE, "updates.truth.evidence_refs", [], "updates.truth.evidence_refs"),
        (UPDATE, "updates.truth.evidence_refs", MISSING, "updates.truth.evidence_refs"),
        (UPDATE, "updates.truth.target", 1.1, "updates.truth.target"),
        (UPDATE, "updates.utility.rationale", MISSING, "updates.utility.rationale"),
    ],
)
def test_a_wrong_shape_is_a_schema_error_that_names_the_field(
    request_: dict[str, Any], path: str, value: object, field: str
) -> None:
    assert faults(changed(request_, path, value)) == [("schema_error", field)]


@pytest.mark.rule("OPS-1")
@pytest.mark.parametrize("body", [b"", b"{", b"nul", b'{"op": "read"', b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_a_schema_error(body: bytes) -> None:
    with pytest.raises(LessonRefused) as refused:
        gates.read_request(body)
    assert [fault.code for fault in refused.value.faults] == ["schema_error"]


@pytest.mark.rule("OPS-1")
@pytest.mark.parametrize(
    ("request_", "path", "value", "field"),
    [
        (READ, "query", " \n", "query"),
        (READ, "repo_id", "", "repo_id"),
        (WRITE, "repo_id", " ", "repo_id"),
        (WRITE, "memory.text", " \t", "memory.text"),
        (WRITE, "memory.kind", "solution", "memory.links.problem_id"),
        (WRITE, "memory.kind", "failed_tactic", "memory.links.problem_id"),
        (WRITE, "memory.links.problem_id", UUID, "memory.links.problem_id"),
        (WRITE, "memory.links.change_targets", [UUID], "memory.links.change_targets"),
        (UPDATE, "updates.truth.evidence_refs", ["", " "], "updates.truth.evidence_refs"),
        (UPDATE, "updates.truth.rationale", " ", "updates.truth.rationale"),
        (UPDATE, "updates.utility.rationale", "", "updates.utility.rationale"),
    ],
)
def test_what_makes_no_sense_is_a_semantic_error(
    request_: dict[str, Any], path: str, value: object, field: str
) -> None:
    assert faults(changed(request_, path, value)) == [("semantic_error", field)]


@pytest.mark.rule("OPS-1")
def test_a_gate_names_all_that_it_finds_and_the_next_one_does_not_run() -> None:
    both = changed(changed(WRITE, "memory.text", " "), "memory.kind", "solution")
    assert len(faults(both)) == 2
    assert faults(changed(both, "memory.confidence", 2)) == [("schema_error", "memory.confidence")]


@pytest.mark.rule("OPS-2")
def test_unknown_members_are_accepted_and_named_and_defaults_are_filled_in() -> None:
    request, warnings = gates.passed(changed(changed(READ, "tilte", 1), "expand.depth", None))
    assert warnings == ["unknown field: tilte", "unknown field: expand.depth"]
    assert isinstance(request, ReadLessons)
    assert (request.limit, request.include_global, request.expand) == (20, True, NeighbourOptions())
    whole, _ = gates.passed(changed(READ, "limit", 7.0))
    assert isinstance(whole, ReadLessons)
    assert isinstance(whole.limit, int)


# ---------------------------------------------------------------- adjusting

SHARE = st.floats(0, 1)


@pytest.mark.rule("OPS-5")
@given(SHARE, SHARE, SHARE, st.booleans())
def test_an_adjustment_goes_towards_its_target_by_the_formula(
    before: float, target: float, confidence: float, has_evidence: bool
) -> None:
    refs = ["run 1"] if has_evidence else [" "]
    after = adjusted(before, Adjustment(target=target, confidence=confidence, rationale="r", evidence_refs=refs))
    step = (0.5 if has_evidence else 0.15) * confidence * (target - before)
    step = min(step, 0.25)
    step = max(step, -0.25)
    assert after == round(before + step, 6)
    assert 0 <= after <= 1
    assert min(before, target) - 1e-6 <= after <= max(before, target) + 1e-6, "it never goes past its target"


@pytest.mark.rule("OPS-5")
@pytest.mark.parametrize(
    ("before", "target", "confidence", "refs", "after"),
    [
        (0.5, 1, 0.8, ["e"], 0.7),
        (0.5, 1, 0.8, [], 0.56),
        (0.9, 0, 1, ["e"], 0.65),
        (0.3, 1, 0, ["e"], 0.3),
        (0.0, 1, 1, ["e"], 0.25),
    ],
)
def test_adjustments_worked_out_by_hand(
    before: float, target: float, confidence: float, refs: list[str], after: float
) -> None:
    wanted = Adjustment(target=target, confidence=confidence, rationale="r", evidence_refs=refs)
    assert adjusted(before, wanted) == after


# ---------------------------------------------------------------- reading

MODES: list[ReadMode] = ["targeted", "ambient"]
NAMES = st.sampled_from([MemoryId(name) for name in "abcdefgh"])
EDGES = st.lists(st.builds(LessonEdge, NAMES, st.sampled_from(["related", "problem", "changes"]), NAMES), max_size=14)
OPTIONS = st.builds(
    NeighbourOptions,
    semantic_hops=st.integers(0, 3),
    include_problem_links=st.booleans(),
    include_update_links=st.booleans(),
)


def distance(start: str, end: str, edges: list[LessonEdge], rels: set[str]) -> int | None:
    """Obvious: a search in breadth, link by link."""
    queue, seen = deque([(start, 0)]), {start}
    while queue:
        at, hops = queue.popleft()
        if at == end:
            return hops
        for newer, rel, older in edges:
            for here, there in ((newer, older), (older, newer)):
                if here == at and rel in rels and there not in seen:
                    seen.add(there)
                    queue.append((there, hops + 1))
    return None


@pytest.mark.rule("OPS-6")
@given(st.dictionaries(NAMES, st.floats(0.01, 1), max_size=4), EDGES, OPTIONS)
def test_neighbours_by_links_are_those_of_obvious_code(
    anchors: dict[MemoryId, float], edges: list[LessonEdge], options: NeighbourOptions
) -> None:
    rels = {"related"}
    if options.include_problem_links:
        rels.add("problem")
    if options.include_update_links:
        rels.add("changes")
    expected: dict[str, float] = {}
    for name in "abcdefgh":
        for anchor, relevance in anchors.items():
            hops = distance(anchor, name, edges, rels)
            if name not in anchors and hops is not None and hops <= options.semantic_hops:
                expected[name] = max(expected.get(name, 0), relevance / hops)
    found = reading.linked(anchors, edges, reading.followed(options), options.semantic_hops)
    assert {name: way.relevance for name, way in found.items()} == expected


@pytest.mark.rule("OPS-6")
def test_of_two_ways_the_more_relevant_counts_and_of_equal_ones_the_shorter() -> None:
    assert reading.better(ReachedLesson(0.5, 2), ReachedLesson(0.4, 1)) == ReachedLesson(0.5, 2)
    assert reading.better(ReachedLesson(0.5, 2), ReachedLesson(0.5, 1)) == ReachedLesson(0.5, 1)


@pytest.mark.rule("OPS-6")
def test_coverage_counts_words_of_which_the_text_has_every_stem() -> None:
    text = {"login", "test", "fail", "midnight"}
    assert reading.coverage([["login"], ["fail"], ["noon"]], text) == 2 / 3
    assert reading.coverage([["login", "noon"]], text) == 0
    assert reading.coverage([], text) == 1


@pytest.mark.rule("OPS-7")
def test_scores_worked_out_by_hand() -> None:
    assert reading.score(1.0, 1.0, 1.0) == 1.25
    assert reading.score(1.0, 0.0, 0.0) == 0.375
    assert reading.score(0.8, 0.5, 0.5) == 0.6
    assert reading.score(0.8, None, None) == 0.6, "what is not known counts as one half"


@pytest.mark.rule("OPS-8")
@given(st.sampled_from(MODES), st.integers(1, 100), st.lists(st.integers(0, 60), min_size=3, max_size=3), st.data())
def test_places_are_shared_and_passed_on(mode: ReadMode, limit: int, sizes: list[int], data: st.DataObject) -> None:
    groups = [
        [RankedLesson(MemoryId(f"{at}-{number}"), "direct", 0, score) for number, score in enumerate(scores)]
        for at, scores in enumerate(
            data.draw(st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=size, max_size=size)) for size in sizes
        )
    ]
    found = reading.chosen(groups, mode, limit)
    assert len(found) == min(limit, sum(sizes)), "no place stays empty while anybody wants it"
    assert found == sorted(found, key=lambda one: (-one.score, one.id))
    counts = [len([one for one in found if one.id.startswith(f"{at}-")]) for at in range(3)]
    shares = reading.places(mode, limit)
    assert sum(shares) == limit
    for at in range(3):
        assert counts[at] >= min(sizes[at], shares[at]), "nobody takes a place from a group that needs it"
        kept = sorted(groups[at], key=lambda one: (-one.score, one.id))[: counts[at]]
        assert set(kept) == {one for one in found if one.id.startswith(f"{at}-")}, "the best of each group"
    if sizes[0] < shares[0]:
        assert counts[1] >= min(sizes[1], shares[1] + shares[0] - sizes[0]), "direct places pass to explicit ones"


@pytest.mark.rule("OPS-8")
def test_shares_of_an_answer() -> None:
    assert reading.places("targeted", 8) == (4, 3, 1)
    assert reading.places("ambient", 12) == (4, 5, 3)
    assert [reading.places(mode, 1) for mode in MODES] == [(1, 0, 0), (1, 0, 0)]
