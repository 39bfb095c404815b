"""What a merge tells, keeps and writes: in proportion to the values, and no keys kept (MERGE-1, MERGE-3, ERASE-1)."""

from __future__ import annotations

import pytest

from merge_space import ABSENT, Space
from stemmadb.protocol.errors import Compacted, Erased, InvalidMerge
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.history import difference
from stemmadb.protocol.model.history.blame import blame
from stemmadb.protocol.model.history.difference import PATH_BYTES_MAX
from stemmadb.protocol.model.log.ancestry import BranchPoint
from stemmadb.protocol.model.log.commit_record import Contested, Merge
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.merge import Candidate, MergePlan, MergeSide, plan
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value

X = EntityId("urn:x")
KEY = "k" * 20_000


def long_keyed(value: int, count: int = 1_000) -> dict[str, Value]:
    """A small value whose paths are long: a long key above many short ones."""
    return {KEY: {str(index): value for index in range(count)}, "a": value}


def candidate(base: Value, source: Value, target: Value, id_: EntityId = X) -> Candidate:
    sides = [MergeSide(value, Version(version)) for value, version in ((base, 1), (source, 3), (target, 2))]
    return Candidate(id_, (sides[0],), sides[1], sides[2])


def record(made: MergePlan) -> Merge:
    return made.details(source=BranchPoint(BranchName("draft"), Version(3)), target_version=Version(2))


@pytest.mark.rule("ERASE-1", "MERGE-3")
def test_the_record_of_a_merge_holds_no_key_of_a_value() -> None:
    email = "alice@example.com"
    made = plan([candidate({}, {email: 1, "b": 1}, {email: 2, "b": 2})], strategy="fields")
    assert [conflict.path for conflict in made.conflicts] == [f"/{email}", "/b"]
    assert record(made).conflicts == (
        Contested(id=X, base=Version(1), source=Version(3), target=Version(2), winner="source"),
    )
    assert email.encode() not in encode(record(made))


@pytest.mark.rule("MERGE-3")
def test_the_record_has_one_conflict_for_each_entity_won_by_both_where_each_side_won() -> None:
    y = EntityId("urn:y")
    mixed = candidate({"n": 0, "s": 0}, {"n": "x", "s": 1, "t": 0}, {"n": "y", "s": 0, "t": 1})
    made = plan([mixed, candidate(0, 1, 2, y)], strategy="fields")
    assert [conflict.winner for conflict in record(made).conflicts] == ["source", "source"]
    space = Space()
    space.set("main", X, {"n": 0, "a": 0})
    space.fork("draft")
    for name, value in (("main", 1), ("draft", 2)):
        count: dict[str, Value] = {"op": "increment", "path": "/n", "by": 1}
        space.patch(name, X, count, {"op": "replace", "path": "/a", "value": value})
    made = space.merge("draft", "main", "fields")
    assert sorted(conflict.winner for conflict in made.conflicts) == ["both", "source"]
    assert [(kept.id, kept.path, kept.winner) for kept in record(made).conflicts] == [(X, "", "both")]


@pytest.mark.rule("MERGE-1")
def test_a_patch_with_paths_of_many_times_the_value_is_written_as_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:  # it is not even made, since it could take any time
        patched.setattr(patch, "diff", lambda *_: pytest.fail("the patch was made"))
        made = plan([candidate(long_keyed(0), long_keyed(1), long_keyed(0))])
    assert made.writes[0].operation.op == "set"
    assert len(made.writes[0].operation.body or b"") < 30_000
    few = plan([candidate(long_keyed(0), long_keyed(0) | {"a": 1}, long_keyed(0))])
    assert few.writes[0].operation.op == "patch"


@pytest.mark.rule("MERGE-1")
def test_a_patch_that_says_more_than_the_whole_value_is_written_as_a_set() -> None:
    many: dict[str, Value] = {f"k{index}": index for index in range(1_000)}
    fewer: dict[str, Value] = {}
    made = plan([candidate(many, fewer, many)])
    assert made.writes[0].operation.op == "set"


@pytest.mark.rule("MERGE-3")
def test_conflicts_are_told_as_deep_as_their_paths_are_within_the_bound() -> None:
    made = plan([candidate(long_keyed(0), long_keyed(2), long_keyed(1))], strategy="fields")
    assert [conflict.path for conflict in made.conflicts] == [f"/{KEY}", "/a"]
    few = plan([candidate(long_keyed(0, 5), long_keyed(2, 5), long_keyed(1, 5))], strategy="fields")
    assert len(few.conflicts) == 6


@pytest.mark.rule("MERGE-3")
def test_conflicts_of_many_entities_are_told_by_entity_beyond_the_bound() -> None:
    ids = [EntityId(f"urn:{index}") for index in range(60)]
    entities = [candidate({KEY: 0}, {KEY: 2}, {KEY: 1}, id_) for id_ in ids]
    made = plan(entities, strategy="fields")
    assert [conflict.id for conflict in made.conflicts] == ids
    paths = [conflict.path for conflict in made.conflicts]
    assert sum(map(len, paths)) <= PATH_BYTES_MAX
    assert (paths[0], paths[-1]) == (f"/{KEY}", "")


@pytest.mark.rule("HISTORY-1")
def test_a_difference_and_a_blame_go_as_deep_as_their_paths_are_within_the_bound() -> None:
    old, new = long_keyed(0), long_keyed(1)
    assert [change.path for change in difference.entity(old, new)] == [f"/{KEY}", "/a"]
    assert len(difference.entity(long_keyed(0, 5), long_keyed(1, 5))) == 6
    space = Space()
    space.set("main", X, old)
    space.patch("main", X, {"op": "replace", "path": f"/{KEY}/7", "value": 1})
    assert blame(space.facts[X]) == {f"/{KEY}": 2, "/a": 1}


@pytest.mark.rule("MERGE-3")
def test_a_resolution_to_absent_where_nothing_is_was_made_by_the_merge() -> None:
    space = Space()
    space.set("main", X, {"v": 0})
    space.fork("one")
    space.fork("two")
    space.delete("main", X)
    space.patch("one", X, {"op": "replace", "path": "/v", "value": "one"})
    later = space.patch("two", X, {"op": "replace", "path": "/v", "value": "two"})
    assert space.merge("one", "main", resolutions={X: ABSENT}).writes == ()
    assert space.version > later
    assert space.trace().at(BranchPoint(MAIN, space.version)).stamp.version == space.version
    assert [conflict.winner for conflict in space.merge("two", "main").conflicts] == ["target"]
    assert space.get("main") is ABSENT
    space.set("main", X, {"v": 1})
    assert space.trace().at(BranchPoint(MAIN, space.version)).stamp.version == space.version


def gone(source: Missing, target: Value | Missing) -> Candidate:
    return Candidate(X, (MergeSide(1, Version(1)),), MergeSide(source, Version(3)), MergeSide(target, Version(2)))


@pytest.mark.rule("MERGE-3")
def test_what_is_gone_at_the_source_can_be_resolved_or_left() -> None:
    for missing in (Missing.ERASED, Missing.COMPACTED):
        made = plan([gone(missing, 2)], resolutions={X: 5})
        assert made.writes[0].content == 5
        assert [conflict.winner for conflict in made.conflicts] == ["resolution"]
        left = plan([gone(missing, 2)], strategy="target")
        assert (left.writes, [conflict.winner for conflict in left.conflicts]) == ((), ["target"])
    with pytest.raises(InvalidMerge):
        plan([candidate(1, 2, 1)], resolutions={X: 5})


@pytest.mark.rule("MERGE-3")
def test_what_is_gone_is_refused_by_what_became_of_it() -> None:
    with pytest.raises(Erased):
        plan([gone(Missing.ERASED, 2)], strategy="fields")
    with pytest.raises(Compacted) as compacted:
        plan([gone(Missing.COMPACTED, 2)], oldest=Version(7))
    assert compacted.value.facts == {"version": 3, "oldest": 7}
    both = Candidate(X, (MergeSide(1, Version(1)),), MergeSide(2, Version(3)), MergeSide(Missing.ERASED, Version(2)))
    with pytest.raises(Erased):
        plan([both], strategy="target")
