"""Admission: declared reads, what must be declared, and reads through own pending commits (COMMIT-2..4)."""

from __future__ import annotations

from typing import Any

import pytest

from space import ALICE, BOB, MemorySpace, delete_, patch_, prefix_, read_, session_of, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.admission import Accepted, RefusedCommit
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log.commit_record import BranchCreate
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from stemmadb.protocol.model.values.limits import Limits
from verdicts import X, Y, code, refusal, replace


@pytest.fixture
def space() -> MemorySpace:
    return MemorySpace()


# ---------------------------------------------------------------- COMMIT-2: declared reads


@pytest.mark.rule("MODEL-1")
def test_every_accepted_write_takes_the_next_version_and_all_its_facts_share_it(space: MemorySpace) -> None:
    assert space.version == 0
    first = space.commit(set_(X, 1, blind=True), set_(Y, 2, blind=True))
    assert isinstance(first, Accepted)
    assert [(fact.version, fact.index) for fact in first.facts] == [(1, 0), (1, 1)]
    space.structure(BranchCreate(name=BranchName("b"), parent=MAIN, fork=Version(1)))
    assert space.must(set_(X, 3, blind=True)) == 3


@pytest.mark.rule("COMMIT-2")
@pytest.mark.parametrize("later", [set_(X, {}, blind=True), delete_(X, blind=True)])
@pytest.mark.parametrize("path", ["", "/a", "/b/c"])
def test_a_later_set_or_delete_overlaps_every_path_of_the_entity(space: MemorySpace, later: Any, path: str) -> None:
    seen = space.must(set_(X, {"a": 1, "b": {"c": 2}}, blind=True))
    space.must(later)
    outcome = space.commit(set_(Y, 1, blind=True), reads=[read_(X, seen, path)])
    assert code(outcome) == "conflict"


@pytest.mark.rule("COMMIT-2")
@pytest.mark.parametrize(
    ("written", "read", "verdict"),
    [
        ("/a", "/a", "conflict"),
        ("/a", "", "conflict"),
        ("/b/c", "/b", "conflict"),
        ("/b", "/b/c", "conflict"),
        ("/a", "/b", "accepted"),
        ("/a", "/ab", "accepted"),
        ("/b/c", "/b/cd", "accepted"),
    ],
)
def test_a_later_patch_overlaps_where_one_path_is_a_prefix_of_the_other(
    space: MemorySpace, written: str, read: str, verdict: str
) -> None:
    seen = space.must(set_(X, {"a": 1, "ab": 1, "b": {"c": 2, "cd": 3}}, blind=True))
    space.must(patch_(X, replace(written, 9), blind=True))
    assert code(space.commit(set_(Y, 1, blind=True), reads=[read_(X, seen, read)])) == verdict


@pytest.mark.rule("COMMIT-2")
def test_a_read_at_the_newest_fact_holds(space: MemorySpace) -> None:
    seen = space.must(set_(X, 1, blind=True))
    space.must(set_(Y, 1, blind=True))
    assert code(space.commit(set_(X, 2), reads=[read_(X, seen)])) == "accepted"


@pytest.mark.rule("COMMIT-2")
def test_any_later_fact_under_a_prefix_overlaps_a_prefix_read(space: MemorySpace) -> None:
    seen = space.must(set_("urn:todo:1", 1, blind=True))
    assert code(space.commit(set_(Y, 1, blind=True), reads=[prefix_("urn:todo:", seen)])) == "accepted"
    space.must(set_("urn:todo:2", 1, blind=True))
    outcome = space.commit(set_(Y, 2, blind=True), reads=[prefix_("urn:todo:", seen)])
    (stale,) = refusal(outcome).facts["stale"]
    assert (stale.id, stale.prefix, stale.winner) == ("urn:todo:2", "urn:todo:", 3)
    for number in range(5):
        space.must(set_(f"urn:todo:more:{number}", 1, blind=True))
    reads = [prefix_("urn:todo:", seen), prefix_("urn:todo:more:", seen)]
    assert len(refusal(space.commit(set_(Y, 2, blind=True), reads=reads)).facts["stale"]) == 2  # one for each read
    assert code(space.commit(set_(Y, 3, blind=True), reads=[prefix_("urn:note:", seen)])) == "accepted"


@pytest.mark.rule("COMMIT-2")
def test_a_scan_past_the_bound_counts_as_overlap() -> None:
    space = MemorySpace(Limits(scan_facts_max=3))
    seen = space.must(set_(X, {"a": 1, "b": 1}, blind=True))
    for number in range(3):
        space.must(patch_(X, replace("/a", number), blind=True))
    assert code(space.commit(set_(Y, 1, blind=True), reads=[read_(X, seen, "/b")])) == "accepted"
    space.must(patch_(X, replace("/a", 9), blind=True))
    assert code(space.commit(set_(Y, 1, blind=True), reads=[read_(X, seen, "/b")])) == "conflict"


@pytest.mark.rule("COMMIT-2")
def test_changes_that_were_forgotten_count_as_overlap_and_the_winner_is_the_head() -> None:
    space = MemorySpace(Limits(scan_facts_max=2))
    seen = space.must(set_(X, {"a": 1, "b": 1}, blind=True))
    for number in range(8):
        space.must(patch_(X, replace("/a", number), blind=True))
    outcome = space.commit(set_(Y, 1, blind=True), reads=[read_(X, seen, "/b")])
    (stale,) = refusal(outcome).facts["stale"]
    assert (stale.head, stale.winner, stale.author) == (space.version, space.version, None)
    assert space.entity(MAIN, EntityId(X)).seen_after > 0


@pytest.mark.rule("COMMIT-2")
def test_a_read_of_the_future_is_refused_with_the_head(space: MemorySpace) -> None:
    space.must(set_(X, 1, blind=True))
    error = refusal(space.commit(set_(X, 2), reads=[read_(X, 7)]))
    assert isinstance(error, errors.FutureVersion)
    assert error.facts == {"version": 7, "head": 1}


@pytest.mark.rule("SYNC-5")
def test_a_conflict_names_each_stale_read_with_the_winning_commit_and_its_author(space: MemorySpace) -> None:
    seen = space.must(set_(X, {"a": 1}, blind=True), set_(Y, {"a": 1}, blind=True))
    space.must(patch_(X, replace("/a", 2), blind=True), author=BOB, session="bob")
    space.must(set_(Y, 5, blind=True), author=BOB, session="bob")
    space.must(patch_(X, {"op": "add", "path": "/z", "value": 2}, blind=True), author=ALICE)
    outcome = space.commit(
        patch_(X, replace("/a", 3)), set_(Y, 6), reads=[read_(X, seen, "/a"), read_(Y, seen), read_(X, seen, "/q")]
    )
    one, other = refusal(outcome).facts["stale"]
    assert (one.id, one.path, one.read, one.head, one.winner, one.author) == (X, "/a", 1, 4, 2, BOB)
    assert (other.id, other.path, other.read, other.head, other.winner, other.author) == (Y, "", 1, 3, 3, BOB)
    assert isinstance(outcome, RefusedCommit)
    assert outcome.at == 4


# ---------------------------------------------------------------- COMMIT-3: what must be declared


@pytest.mark.rule("COMMIT-3")
@pytest.mark.parametrize(
    "operation", [set_(X, 1), delete_(X), patch_(X, replace("/a/b", 1)), patch_(X, {"op": "remove", "path": "/a/0"})]
)
def test_a_write_without_a_declared_read_is_refused_unless_it_is_blind(space: MemorySpace, operation: Any) -> None:
    with pytest.raises(errors.Undeclared) as caught:
        space.propose(operation)
    assert (caught.value.facts["index"], caught.value.facts["id"]) == (0, X)


@pytest.mark.rule("COMMIT-3")
@pytest.mark.parametrize(
    ("read", "written", "covered"),
    [
        ("", "/a/b", True),
        ("/a", "/a/b", True),
        ("/a/b", "/a/b", True),
        ("/a/b/c", "/a/b", False),
        ("/b", "/a", False),
    ],
)
def test_a_patch_is_covered_by_a_read_of_its_path_or_above(
    space: MemorySpace, read: str, written: str, covered: bool
) -> None:
    def propose() -> Proposal:
        return space.propose(patch_(X, replace(written, 1)), reads=[read_(X, 0, read)])

    if covered:
        propose()
    else:
        with pytest.raises(errors.Undeclared):
            propose()


@pytest.mark.rule("COMMIT-3")
def test_a_read_on_another_branch_covers_nothing(space: MemorySpace) -> None:
    with pytest.raises(errors.Undeclared):
        space.propose(set_(X, 1), reads=[read_(X, 0, branch="draft")])


@pytest.mark.rule("COMMIT-3")
def test_a_prefix_read_covers_what_is_created_under_it(space: MemorySpace) -> None:
    assert code(space.commit(set_("urn:todo:9", 1), reads=[prefix_("urn:todo:", 0)])) == "accepted"


@pytest.mark.rule("COMMIT-3")
def test_what_a_commit_has_written_whole_it_may_go_on_writing(space: MemorySpace) -> None:
    space.must(set_(X, {"a": 1}, blind=True), patch_(X, replace("/a", 2)), delete_(X), set_(X, 4))
    assert space.value(X) == 4
    with pytest.raises(errors.Undeclared) as caught:
        space.propose(patch_(X, replace("", {}), blind=True), set_(X, 1))
    assert caught.value.facts["index"] == 1


@pytest.mark.rule("COMMIT-3")
def test_increments_declare_nothing_and_never_collide(space: MemorySpace) -> None:
    space.must(set_(X, {"n": 1, "m": 0}, blind=True))
    increment = {"op": "increment", "path": "/n", "by": 1}
    space.must(patch_(X, increment))
    space.must(patch_(X, increment), author=BOB, session="bob")
    assert space.value(X) == {"n": 3, "m": 0}
    with pytest.raises(errors.Undeclared) as caught:
        space.propose(patch_(X, increment, replace("/m", 1)))
    assert caught.value.facts["path"] == "/m"


@pytest.mark.rule("COMMIT-3")
def test_two_writers_of_different_fields_do_not_collide(space: MemorySpace) -> None:
    seen = space.must(set_(X, {"a": 1, "b": 1}, blind=True))
    space.must(patch_(X, replace("/a", 2)), reads=[read_(X, seen, "/a")])
    space.must(patch_(X, replace("/b", 3)), reads=[read_(X, seen, "/b")], author=BOB, session="bob")
    assert space.value(X) == {"a": 2, "b": 3}


@pytest.mark.rule("COMMIT-3")
def test_the_absence_of_an_entity_can_be_declared_so_that_one_of_two_creators_wins(space: MemorySpace) -> None:
    space.must(set_(X, 1), reads=[read_(X, 0)])
    assert code(space.commit(set_(X, 2), reads=[read_(X, 0)], author=BOB, session="bob")) == "conflict"


# ---------------------------------------------------------------- COMMIT-4: reads through own pending commits


@pytest.mark.rule("COMMIT-4")
def test_a_read_through_own_accepted_commits_holds_over_their_facts(space: MemorySpace) -> None:
    basis = space.must(set_(X, 0, blind=True))
    space.must(set_(X, 1), reads=[read_(X, basis)], local=2)
    space.must(set_(X, 2), reads=[read_(X, basis, through=[2])], local=3)
    assert code(space.commit(set_(X, 3), reads=[read_(X, basis, through=[2, 3])], local=4)) == "accepted"


@pytest.mark.rule("COMMIT-4")
def test_another_fact_between_the_basis_and_the_named_commits_is_a_conflict(space: MemorySpace) -> None:
    basis = space.must(set_(X, 0, blind=True))
    space.must(set_(X, 9, blind=True), author=BOB, session="bob")
    space.must(set_(X, 1, blind=True), local=2)
    assert code(space.commit(set_(X, 3), reads=[read_(X, basis, through=[2])], local=3)) == "conflict"


@pytest.mark.rule("COMMIT-4")
def test_a_commit_that_builds_on_a_rejected_one_is_rejected_with_it(space: MemorySpace) -> None:
    basis = space.must(set_(X, 0, blind=True))
    space.must(set_(X, 9, blind=True), author=BOB, session="bob")
    stacked = [
        space.propose(set_(X, 1), reads=[read_(X, basis)], local=2),
        space.propose(set_(Y, 1), reads=[read_(Y, 0), read_(X, basis, through=[2])], local=3),
        space.propose(set_("urn:z", 1), reads=[read_("urn:z", 0), read_(Y, basis, through=[3])], local=4),
        space.propose(set_("urn:free", 1, blind=True), local=5),
    ]
    assert [code(one) for one in space.decide(stacked)] == ["conflict", "dependency", "dependency", "accepted"]
    assert space.value(Y) is None


@pytest.mark.rule("COMMIT-4")
def test_a_pending_commit_of_an_older_session_is_named_with_its_session(space: MemorySpace) -> None:
    basis = space.must(set_(X, 0, blind=True))
    space.must(set_(X, 1), reads=[read_(X, basis)], session="old", local=7)
    through = [(session_of("old"), 7)]
    assert code(space.commit(set_(X, 2), reads=[read_(X, basis, through=through)], session="new")) == "accepted"
    missing = [(session_of("old"), 8)]
    error = refusal(space.commit(set_(X, 2), reads=[read_(X, basis, through=missing)], session="new"))
    assert isinstance(error, errors.Dependency)
    assert error.facts["local"] == 8


@pytest.mark.rule("COMMIT-4")
def test_a_prefix_can_be_read_through_own_commits_too(space: MemorySpace) -> None:
    space.must(set_("urn:t:1", 1, blind=True), local=1)
    assert (
        code(space.commit(set_(X, 1, blind=True), reads=[prefix_("urn:t:", 0, through=[1])], local=2)) == "accepted"
    )
    space.must(set_("urn:t:1", 2, blind=True), author=BOB, session="bob")
    space.must(set_("urn:t:1", 3, blind=True), local=3)
    assert (
        code(space.commit(set_(X, 2, blind=True), reads=[prefix_("urn:t:", 0, through=[1, 3])], local=4))
        == "conflict"
    )


@pytest.mark.rule("COMMIT-4", "COMMIT-6")
def test_a_prefix_read_sees_an_entity_as_the_batch_has_left_it_and_once(space: MemorySpace) -> None:
    space.must(set_("urn:t:1", 1, blind=True), local=1)
    batch = [
        space.propose(set_("urn:t:1", 2, blind=True), local=2),
        space.propose(set_(X, 1, blind=True), reads=[prefix_("urn:t:", 0, through=[1, 2])], local=3),
        space.propose(set_(X, 2, blind=True), reads=[prefix_("urn:t:", 0, through=[1])], local=4),
    ]
    assert [code(one) for one in space.decide(batch)] == ["accepted", "accepted", "conflict"]


@pytest.mark.rule("COMMIT-3", "WIRE-4")
def test_undeclared_and_patch_failed_name_the_operation_the_entity_and_the_place_in_the_patch(
    space: MemorySpace,
) -> None:
    space.must(set_(X, {"a": 1, "n": 1}, blind=True))
    operations = [{"op": "increment", "path": "/n", "by": 1}, {"op": "replace", "path": "/a", "value": 2}]
    with pytest.raises(errors.Undeclared) as undeclared:
        space.commit(set_(Y, 1, blind=True), patch_(X, *operations))
    failing = [{"op": "increment", "path": "/n", "by": 1}, {"op": "replace", "path": "/b", "value": 2}]
    failed = refusal(space.commit(set_(Y, 1, blind=True), patch_(X, *failing, blind=True)))
    never: list[dict[str, Any]] = [{"op": "increment", "path": "/n", "by": 1}, {"op": "replace", "path": "/b"}]
    with pytest.raises(errors.PatchFailed) as invalid:
        space.commit(set_(Y, 1, blind=True), patch_(X, *never, blind=True))
    for error, path in ((undeclared.value, "/a"), (failed, "/b"), (invalid.value, "/b")):
        named = [error.facts[key] for key in ("index", "id", "patch_index", "path")]
        assert named == [1, X, 1, path]
    assert isinstance(failed, errors.PatchFailed)
