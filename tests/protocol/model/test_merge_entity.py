"""One entity, three states: what the plan writes and records (MERGE-2, MERGE-3)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stemmadb.protocol.errors import Erased
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.history import stamps
from stemmadb.protocol.model.history.difference import Content, same
from stemmadb.protocol.model.log.commit_record import Contested, Strategy
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.merge import Candidate, MergePlan, MergeSide, plan
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.json_values import Value

X = EntityId("urn:x")
ABSENT, ERASED = Missing.ABSENT, Missing.ERASED
leaf = (
    st.none()
    | st.booleans()
    | st.integers(0, 2)
    | st.sampled_from(["", "x"])
    | st.lists(st.integers(0, 1), max_size=2)
)
documents = st.recursive(leaf, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=6)
contents = documents | st.just(ABSENT)
strategies = st.sampled_from(["lww", "source", "target", "fields"])


def side(content: Content, version: int) -> MergeSide:
    return MergeSide(content, Version(version))


def candidate(
    base: Content, source: Content, target: Content, versions: tuple[int, int, int] = (1, 3, 2)
) -> Candidate:
    sides = [side(content, version) for content, version in zip((base, source, target), versions, strict=True)]
    return Candidate(X, (sides[0],), sides[1], sides[2])


def merged(entity: Candidate, strategy: Strategy = "lww") -> Content:
    made = plan([entity], strategy=strategy)
    return made.writes[0].content if made.writes else entity.target.content


def applied(made: MergePlan, target: Content) -> Content:
    """What the operation does to the target, which is what the commit will do."""
    if not made.writes:
        return target
    operation = made.writes[0].operation
    if operation.op == "delete":
        return ABSENT
    assert operation.body is not None
    if operation.op == "set":
        return body.read_value(operation.body)[0]
    assert not isinstance(target, Missing)
    return patch.apply(target, body.read_patch(operation.body))


@pytest.mark.rule("MERGE-4")
@settings(derandomize=True, deadline=None, max_examples=150)
@given(contents, contents, contents, strategies)
def test_the_operation_leads_to_the_content_that_was_planned(
    base: Content, source: Content, target: Content, strategy: Strategy
) -> None:
    entity = candidate(base, source, target)
    made = plan([entity], strategy=strategy)
    assert same(applied(made, target), merged(entity, strategy))
    assert all(not same(write.content, target) for write in made.writes)


@pytest.mark.rule("MERGE-3", "MERGE-4")
@settings(derandomize=True, deadline=None, max_examples=150)
@given(contents, contents, strategies)
def test_one_changed_side_is_taken_and_the_same_change_is_not_written(
    base: Content, side_: Content, strategy: Strategy
) -> None:
    assert same(merged(candidate(base, side_, base), strategy), side_)
    assert same(merged(candidate(base, base, side_), strategy), side_)
    assert plan([candidate(base, base, side_)], strategy=strategy) == MergePlan(strategy)
    both = plan([candidate(base, side_, side_, (1, 2, 2))], strategy="target")
    assert both.writes == ()


@pytest.mark.rule("MERGE-3", "MERGE-4")
@settings(derandomize=True, deadline=None, max_examples=250)
@given(contents, contents, contents, st.sampled_from(["lww", "fields"]))
def test_both_directions_decide_alike(base: Content, one: Content, other: Content, strategy: Strategy) -> None:
    forth = candidate(base, one, other, (1, 3, 2))
    back = candidate(base, other, one, (1, 2, 3))
    assert same(merged(forth, strategy), merged(back, strategy))


@pytest.mark.rule("MERGE-3")
@settings(derandomize=True, deadline=None, max_examples=150)
@given(contents, contents, st.sampled_from(["lww", "fields"]))
def test_changes_of_equal_origin_are_decided_alike_in_both_directions(
    one: Content, other: Content, strategy: Strategy
) -> None:
    forth, back = candidate("base", one, other, (1, 2, 2)), candidate("base", other, one, (1, 2, 2))
    assert same(merged(forth, strategy), merged(back, strategy))


@pytest.mark.rule("MERGE-3")
@settings(derandomize=True, deadline=None, max_examples=150)
@given(contents, contents, contents)
def test_fields_keep_every_change_that_nobody_contests(base: Content, source: Content, target: Content) -> None:
    """Leaf by leaf: what only one side changed is in the result, unless the place was contested."""
    entity = candidate(base, source, target)
    made = plan([entity], strategy="fields")
    if made.conflicts and made.conflicts[0].winner == "both" and isinstance(base, dict):
        result = merged(entity, "fields")
        assert isinstance(source, dict)
        assert isinstance(target, dict)
        assert isinstance(result, dict)
        for key in {*base, *source, *target}:
            was, mine, theirs = (doc.get(key, ABSENT) for doc in (base, source, target))
            if same(was, theirs):
                assert same(result.get(key, ABSENT), mine)
            elif same(was, mine):
                assert same(result.get(key, ABSENT), theirs)


@pytest.mark.rule("MERGE-3")
def test_every_conflict_is_recorded_with_its_versions() -> None:
    made = plan([candidate({"a": 0}, {"a": 1}, {"a": 2})])
    assert made.conflicts == (
        Contested(id=X, path="", base=Version(1), source=Version(3), target=Version(2), winner="source"),
    )
    made = plan([candidate({"a": 0, "b": 0}, {"a": 1, "b": 1}, {"a": 2, "b": 1})], strategy="fields")
    assert [(conflict.path, conflict.winner) for conflict in made.conflicts] == [("/a", "source")]


@pytest.mark.rule("MERGE-3")
def test_paths_of_conflicts_are_pointers() -> None:
    made = plan([candidate({"a/b": {"~": 0}}, {"a/b": {"~": 1}}, {"a/b": {"~": 2}})], strategy="fields")
    assert made.conflicts[0].path == "/a~1b/~0"


@pytest.mark.rule("MERGE-2")
def test_several_bases_that_disagree_are_no_base() -> None:
    entity = Candidate(X, (side(0, 1), side(5, 2)), side(0, 1), side(5, 2))
    made = plan([entity], strategy="source")
    assert made.conflicts[0].base is None
    assert made.writes[0].content == 0


@pytest.mark.rule("MERGE-2")
def test_several_bases_that_disagree_do_not_matter_where_the_sides_agree() -> None:
    entity = Candidate(X, (side(0, 1), side(5, 2)), side(7, 3), side(7, 4))
    made = plan([entity], strategy="fail")
    assert (made.writes, made.conflicts) == ((), ())


@pytest.mark.rule("MERGE-2")
def test_several_bases_that_agree_are_one() -> None:
    entity = Candidate(X, (side(0, 1), side(0, 2)), side(7, 3), side(0, 1))
    assert plan([entity], strategy="fail").writes[0].content == 7


@pytest.mark.rule("MERGE-2")
def test_without_a_base_fields_are_compared_with_each_other() -> None:
    bases = side({"a": 0, "b": 0}, 1), side({"a": 1, "b": 0}, 2)
    entity = Candidate(X, bases, side({"a": 2, "b": 0, "s": 1}, 4), side({"a": 3, "b": 0}, 5))
    made = plan([entity], strategy="fields")
    assert [(conflict.path, conflict.winner) for conflict in made.conflicts] == [("/a", "target"), ("/s", "target")]
    assert made.writes == ()


@pytest.mark.rule("MERGE-2")
def test_an_erased_base_is_known_by_its_last_fact() -> None:
    untouched = Candidate(X, (side(ERASED, 3),), side(ERASED, 3), side(1, 4))
    assert plan([untouched]) == MergePlan("lww")
    set_anew = Candidate(X, (side(ERASED, 3),), side(1, 5), side(2, 4))
    assert [conflict.winner for conflict in plan([set_anew], strategy="fields").conflicts] == ["source"]


@pytest.mark.rule("MERGE-3")
def test_an_erased_side_cannot_be_merged() -> None:
    with pytest.raises(Erased) as erased:
        plan([Candidate(X, (side(1, 1),), side(ERASED, 3), side(1, 1))])
    assert erased.value.facts == {"id": X}


@pytest.mark.rule("MERGE-3")
def test_a_bool_is_not_a_number_and_one_is_one_point_zero() -> None:
    assert merged(candidate({"a": 1}, {"a": True}, {"a": 1.0})) == {"a": True}
    assert plan([candidate({"a": 1}, {"a": 1.0}, {"a": 2})]) == MergePlan("lww")
    counted = candidate({"a": True}, {"a": 2}, {"a": 2})
    assert plan([counted]).conflicts == ()


@pytest.mark.rule("MERGE-3")
def test_increments_may_be_of_floats_and_hide_at_any_depth() -> None:

    def counted(version: int) -> MergeSide:
        by_half: list[dict[str, Value]] = [{"op": "increment", "path": "/o/n", "by": 0.5}]
        value, stamp = stamps.patched({"o": {"n": 0}, "z": 0}, stamps.whole(Version(1)), by_half, Version(version))
        return MergeSide(value, Version(version), lambda: stamp)

    entity = Candidate(X, (side({"o": {"n": 0}, "z": 0}, 1),), counted(2), counted(3))
    made = plan([entity], strategy="fields")
    assert made.writes[0].content == {"o": {"n": 1.0}, "z": 0}
    assert made.writes[0].operation.op == "patch"


@pytest.mark.rule("MERGE-1")
def test_a_small_change_of_a_large_document_is_written_as_a_patch() -> None:
    large: dict[str, Value] = {f"key-{index}": "text" for index in range(100)}
    made = plan([candidate(large, {**large, "key-7": "new"}, large)])
    assert made.writes[0].operation.op == "patch"
    assert len(made.writes[0].operation.body or b"") < 60
    assert plan([candidate(0, 1, 0)]).writes[0].operation.op == "set"


@pytest.mark.rule("MERGE-3")
def test_under_lww_a_deleted_side_counts_from_its_delete() -> None:
    base: Content = {"a": 1}
    edited: Content = {"a": 2}
    assert merged(candidate(base, ABSENT, edited, (1, 3, 2))) is ABSENT
    assert merged(candidate(base, ABSENT, edited, (1, 2, 3))) == edited
    assert merged(candidate(base, edited, ABSENT, (1, 3, 2))) == edited
    assert merged(candidate(base, edited, ABSENT, (1, 2, 3))) is ABSENT


@pytest.mark.rule("MERGE-3")
def test_lww_compares_the_latest_of_what_each_side_changed() -> None:
    """The source's whole value was set at 2, but what it changed since the base came later than the target's."""

    def stamped(base: int, **leaves: int) -> MergeSide:
        stamp = stamps.whole(Version(base))
        for key, version in leaves.items():
            stamp = stamps.put(stamp, (key,), stamps.whole(Version(version)))
        return MergeSide({"a": leaves.get("a", 0), "b": leaves.get("b", 0)}, Version(99), lambda: stamp)

    base = MergeSide({"a": 0, "b": 0}, Version(1))
    assert merged(Candidate(X, (base,), stamped(1, a=7), stamped(1, b=5))) == {"a": 7, "b": 0}
    assert merged(Candidate(X, (base,), stamped(9, a=4), stamped(1, b=5))) == {"a": 0, "b": 5}
    assert merged(Candidate(X, (base,), stamped(1, a=3, b=7), stamped(1, a=5, b=7))) == {"a": 5, "b": 7}
