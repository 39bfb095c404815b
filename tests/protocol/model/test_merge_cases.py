"""The worked cases of merging, on a small space (MERGE-2..4)."""

from __future__ import annotations

import pytest

from merge_builders import X, forked, increment, replace, summary
from merge_space import ABSENT, Space
from stemmadb.protocol.errors import BranchDeleted
from stemmadb.protocol.model.log.commit_record import Strategy
from stemmadb.protocol.model.merge import MergePlan


@pytest.mark.rule("MERGE-2", "MERGE-4")
def test_a_fork_of_a_fork_merges_into_any_of_its_ancestors() -> None:
    space = forked({"a": 1, "b": 1})
    space.patch("draft", X, replace("/a", 2))
    space.fork("idea", "draft")
    space.patch("idea", X, replace("/b", 2))
    space.merge("idea", "main")
    assert space.get("main") == {"a": 2, "b": 2}
    assert space.get("draft") == {"a": 2, "b": 1}
    assert space.merge("draft", "main") == MergePlan("lww")


@pytest.mark.rule("MERGE-2", "MERGE-4")
@pytest.mark.parametrize("strategy", ["lww", "fields", "fail"])
def test_merging_back_and_forth_ten_times_sees_only_new_work(strategy: Strategy) -> None:
    space = forked({"turn": -1})
    for turn in range(10):
        source, target = ("draft", "main") if turn % 2 else ("main", "draft")
        space.patch(source, X, replace("/turn", turn))
        plan = space.merge(source, target, strategy)
        assert len(plan.writes) == 1
        assert plan.conflicts == ()
        assert space.get(target) == space.get(source) == {"turn": turn}
        assert space.merge(source, target, strategy) == MergePlan(strategy)
        assert space.merge(target, source, strategy).writes == ()


@pytest.mark.rule("MERGE-2")
def test_work_on_both_sides_and_merges_in_both_directions_lose_nothing() -> None:
    space = forked({"main": 0, "draft": 0})
    for turn in range(1, 11):
        space.patch("main", X, replace("/main", turn))
        space.patch("draft", X, replace("/draft", turn))
        space.merge("draft", "main", "fields")
        space.merge("main", "draft", "fields")
        assert space.get("main") == space.get("draft") == {"main": turn, "draft": turn}


def criss_cross(first: Strategy, second: Strategy) -> Space:
    """Both sides change x, and each merges the other's change before it knows of the other's merge."""
    space = forked({"v": 0})
    space.patch("main", X, replace("/v", "main"))
    both_changed = space.patch("draft", X, replace("/v", "draft"))
    space.merge("draft", "main", first, version=both_changed)
    space.merge("main", "draft", second, version=both_changed)
    return space


@pytest.mark.rule("MERGE-2")
def test_a_criss_cross_that_was_decided_differently_is_a_conflict_without_a_base() -> None:
    space = criss_cross("target", "target")
    assert space.get("main") == {"v": "main"}
    plan = space.merge("draft", "main")
    assert summary(plan) == [(X, "", "source")]
    assert plan.conflicts[0].base is None
    assert space.get("main") == {"v": "draft"}


@pytest.mark.rule("MERGE-2")
def test_a_criss_cross_that_was_decided_alike_is_at_peace() -> None:
    space = criss_cross("lww", "lww")
    assert space.merge("draft", "main").conflicts == ()
    assert space.get("main") == space.get("draft") == {"v": "draft"}


@pytest.mark.rule("MERGE-2")
def test_a_criss_cross_has_a_base_for_the_entities_its_ancestors_agree_on() -> None:
    space = forked({"v": 0})
    space.set("main", "urn:m", 1)
    at = space.set("draft", "urn:d", 1)
    space.merge("draft", "main", version=at)
    space.merge("main", "draft", version=at)
    space.patch("draft", X, replace("/v", 1))
    plan = space.merge("draft", "main", "fail")
    assert [write.id for write in plan.writes] == [X]


@pytest.mark.rule("MERGE-2", "MERGE-3")
def test_what_was_taken_back_comes_through_a_branch_that_has_no_fact_of_it() -> None:
    """`other` merged the draft when x was 0 again, so nothing was written there; `late` has seen x as 1."""
    space = forked(0, "draft", "other", "late")
    space.set("draft", X, 1)
    space.merge("draft", "late")
    space.set("draft", X, 0)
    assert space.merge("draft", "other").writes == ()
    space.merge("other", "late", "fail")
    assert space.get("late") == 0


@pytest.mark.rule("MERGE-2", "MERGE-3")
def test_what_a_merge_gave_up_is_given_up_on_the_other_side_too() -> None:
    space = forked({"v": 0})
    space.patch("draft", X, replace("/v", 1))
    space.patch("main", X, replace("/v", 2))
    assert space.merge("draft", "main", "target").writes == ()
    assert space.merge("main", "draft", "fail").conflicts == ()
    assert space.get("draft") == {"v": 2}


@pytest.mark.rule("MERGE-3", "MERGE-4")
@pytest.mark.parametrize("strategy", ["lww", "fields", "source", "target"])
def test_delete_against_edit_is_a_conflict_that_the_later_one_wins(strategy: Strategy) -> None:
    for first, second, survives in [("delete", "edit", True), ("edit", "delete", False)]:
        space = forked({"v": 0})
        for kind in (first, second):
            if kind == "delete":
                space.delete("draft", X)
            else:
                space.patch("main", X, replace("/v", 1))
        plan = space.merge("draft", "main", strategy)
        edit_wins = {"source": False, "target": True}.get(strategy, survives)
        assert summary(plan) == [(X, "", "target" if edit_wins else "source")]
        assert space.get("main") == ({"v": 1} if edit_wins else ABSENT)


@pytest.mark.rule("MERGE-4")
@pytest.mark.parametrize("strategy", ["lww", "fields", "source", "target", "fail"])
def test_a_one_sided_delete_never_reappears(strategy: Strategy) -> None:
    space = forked({"v": 0}, "draft", "idea")
    space.delete("draft", X)
    space.merge("draft", "main", strategy)
    assert space.get("main") == ABSENT
    for source, target in [("idea", "main"), ("main", "idea"), ("draft", "idea"), ("idea", "draft")]:
        assert space.merge(source, target, strategy).conflicts == ()
        assert space.get(target) == ABSENT


@pytest.mark.rule("MERGE-3")
def test_an_entity_created_again_on_one_side_is_taken() -> None:
    space = forked({"v": 0})
    space.delete("draft", X)
    space.set("draft", X, {"w": 1})
    assert space.merge("draft", "main", "fail").writes[0].content == {"w": 1}
    space.delete("main", X)
    space.merge("main", "draft")
    assert space.get("draft") == ABSENT
    space.set("draft", X, {"again": True})
    space.merge("draft", "main", "fail")
    assert space.get("main") == {"again": True}


@pytest.mark.rule("MERGE-3")
def test_an_entity_created_on_both_sides_is_a_conflict_and_fields_join_it() -> None:
    space = Space()
    space.fork("draft")
    space.set("main", X, {"a": 1, "same": 0})
    space.set("draft", X, {"b": 2, "same": 0})
    predicted = space.merge("draft", "main", "fields", dry_run=True)
    assert predicted.writes[0].content == {"a": 1, "same": 0, "b": 2}
    assert summary(predicted) == [(X, "", "both")]
    assert summary(space.merge("draft", "main")) == [(X, "", "source")]


@pytest.mark.rule("BRANCH-1", "MERGE-2")
def test_a_deleted_branch_can_be_merged_from_and_not_into() -> None:
    space = forked({"v": 0})
    space.patch("draft", X, replace("/v", 1))
    space.delete_branch("draft")
    space.merge("draft", "main")
    assert space.get("main") == {"v": 1}
    with pytest.raises(BranchDeleted):
        space.merge("main", "draft")


@pytest.mark.rule("MERGE-3")
def test_lww_goes_by_the_version_a_change_was_made_at_and_not_by_its_merge() -> None:
    """`main` forks two drafts; `early` is merged late, and `late` still wins over it."""
    space = forked({"v": 0}, "early", "late")
    space.patch("early", X, replace("/v", "early"))
    space.patch("late", X, replace("/v", "late"))
    space.patch("main", "urn:x", {"op": "test", "path": "/v", "value": 0})
    space.merge("early", "main")
    assert space.get("main") == {"v": "early"}
    assert summary(space.merge("late", "main")) == [(X, "", "source")]
    assert space.get("main") == {"v": "late"}


@pytest.mark.rule("MERGE-3")
def test_lww_after_a_merge_of_a_merge_still_knows_when_it_was_made() -> None:
    space = forked({"v": 0}, "early", "between", "late")
    space.patch("early", X, replace("/v", "early"))
    space.patch("late", X, replace("/v", "late"))
    space.merge("early", "between")
    space.merge("between", "main")
    space.merge("late", "main")
    assert space.get("main") == {"v": "late"}


@pytest.mark.rule("MERGE-3")
def test_a_resolution_is_made_at_the_merge_and_wins_over_what_was_made_before() -> None:
    space = forked({"v": 0}, "one", "two")
    space.patch("main", X, replace("/v", 1))
    space.patch("one", X, replace("/v", 2))
    space.patch("two", X, replace("/v", 3))
    plan = space.merge("one", "main", resolutions={X: {"v": 1}})
    assert summary(plan) == [(X, "", "resolution")]
    assert [write.operation.op for write in plan.writes] == ["set"]
    assert summary(space.merge("two", "main")) == [(X, "", "target")]
    assert space.get("main") == {"v": 1}


@pytest.mark.rule("MERGE-3", "MERGE-4")
def test_a_resolution_can_delete_and_stays_deleted() -> None:
    space = forked({"v": 0})
    space.patch("main", X, replace("/v", 1))
    space.patch("draft", X, replace("/v", 2))
    assert space.merge("draft", "main", "fail", {X: ABSENT}).resolved == (X,)
    assert space.get("main") == ABSENT
    space.merge("main", "draft")
    assert space.get("draft") == ABSENT


@pytest.mark.rule("MERGE-3")
def test_a_resolution_to_delete_what_the_target_has_deleted_writes_nothing() -> None:
    space = forked({"v": 0})
    space.delete("main", X)
    space.patch("draft", X, replace("/v", 2))
    plan = space.merge("draft", "main", resolutions={X: ABSENT})
    assert (plan.writes, plan.resolved) == ((), (X,))


@pytest.mark.rule("MERGE-4")
def test_edits_of_different_entities_all_survive() -> None:
    space = forked(0)
    space.set("main", "urn:m", 1)
    space.set("draft", "urn:d", 2)
    space.merge("draft", "main", "fail")
    assert [space.get("main", id_) for id_ in (X, "urn:m", "urn:d")] == [0, 1, 2]


@pytest.mark.rule("MERGE-4")
def test_under_fields_edits_of_different_fields_survive_at_any_depth() -> None:
    space = forked({"o": {"a": 1, "b": 1, "c": 1}, "l": [1]})
    space.patch("main", X, replace("/o/a", 2), {"op": "remove", "path": "/o/c"})
    space.patch("draft", X, replace("/o/b", 2), {"op": "add", "path": "/l/-", "value": 2})
    plan = space.merge("draft", "main", "fields")
    assert space.get("main") == {"o": {"a": 2, "b": 2}, "l": [1, 2]}
    assert summary(plan) == [(X, "", "both")]


@pytest.mark.rule("MERGE-3")
def test_under_fields_a_removed_object_against_an_edit_inside_it_is_one_conflict() -> None:
    space = forked({"o": {"a": 1, "b": 1}, "k": 0})
    space.patch("main", X, replace("/o/a", 2))
    space.patch("draft", X, {"op": "remove", "path": "/o"})
    assert summary(space.merge("draft", "main", "fields")) == [(X, "/o", "source")]
    assert space.get("main") == {"k": 0}


@pytest.mark.rule("MERGE-1")
def test_the_acl_is_passed_by() -> None:
    space = forked(0)
    space.set("draft", X, 1)
    assert space.merge("draft", "main", ignore=[X]) == MergePlan("lww")
    assert space.get("main") == 0


@pytest.mark.rule("MERGE-1")
def test_a_merge_declares_what_the_source_changed_at_the_targets_versions() -> None:
    space = forked(0)
    space.set("main", "urn:kept", 1)
    at = space.set("main", "urn:both", 1)
    space.set("draft", "urn:both", 2)
    space.set("draft", "urn:new", 2)
    plan = space.merge("draft", "main", "target")
    assert [(read.id, read.version) for read in plan.reads] == [("urn:both", at), ("urn:new", 0)]
    assert [write.id for write in plan.writes] == ["urn:new"]


@pytest.mark.rule("MERGE-3")
def test_histories_are_read_only_where_a_conflict_depends_on_them() -> None:
    space = forked({"v": 0, "n": 0})
    space.patch("draft", X, increment("/n"))
    space.set("main", "urn:m", 1)
    space.merge("draft", "main", "fields")
    assert space.traces_made == 0
