"""Admission, rule by rule, through the same calls a writer makes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from space import ALICE, BOB, MemorySpace, delete_, patch_, prefix_, read_, session_of, set_, structural
from stemmadb.protocol import errors
from stemmadb.protocol.model import chain
from stemmadb.protocol.model.access import Rights
from stemmadb.protocol.model.admission import Accepted, Refused, Repeated
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.commit import (
    BranchCreate,
    BranchDelete,
    Compact,
    Erase,
    LocalIdentity,
    Merge,
    Revert,
    Revoke,
    TagCreate,
    TagDelete,
)
from stemmadb.protocol.model.ids import MAIN, BranchName, EntityId, Hash, Local, Version
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.model.proposal import Proposal, Step, prepare_or_refuse
from stemmadb.protocol.model.request import Content, digest_request
from stemmadb.protocol.model.state import EntityState, Missing, NotGathered

X, Y = "urn:x", "urn:y"


@pytest.fixture
def space() -> MemorySpace:
    return MemorySpace()


def refusal(outcome: object) -> errors.StemmaError:
    assert isinstance(outcome, Refused), outcome
    return outcome.error


def code(outcome: object) -> str:
    if isinstance(outcome, Accepted):
        return "accepted"
    return "repeated" if isinstance(outcome, Repeated) else refusal(outcome).code


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


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
    assert isinstance(outcome, Refused)
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


# ---------------------------------------------------------------- COMMIT-5 and 11: exactly once


@pytest.mark.rule("COMMIT-5")
def test_an_accepted_commit_sent_again_gets_the_same_answer_and_writes_nothing(space: MemorySpace) -> None:
    proposal = space.propose(set_(X, 1), reads=[read_(X, 0)])
    first, again = space.decide([proposal, proposal])
    assert isinstance(first, Accepted)
    assert again == Repeated(first.commit.version)
    space.must(set_(X, 2, blind=True))
    assert space.decide([proposal]) == [Repeated(first.commit.version)]
    assert space.version == 2


@pytest.mark.rule("COMMIT-5")
@pytest.mark.parametrize("nonce", [b"n" * 16, b"m" * 16])
def test_another_content_or_nonce_under_an_accepted_identity_is_a_clash(space: MemorySpace, nonce: bytes) -> None:
    space.must(set_(X, 1, blind=True), local=1)
    value = 1 if nonce != b"n" * 16 else 2
    assert code(space.commit(set_(X, value, blind=True), local=1, nonce=nonce)) == "identity_clash"


@pytest.mark.rule("COMMIT-5")
def test_locals_may_leave_gaps_but_not_come_late(space: MemorySpace) -> None:
    space.must(set_(X, 1, blind=True), local=5)
    late, next_ = space.decide(
        [space.propose(set_(X, 2, blind=True), local=4), space.propose(set_(X, 3, blind=True), local=9)]
    )
    assert (code(late), code(next_)) == ("overtaken", "accepted")
    assert refusal(late).facts == {"local": 4, "highest": 5}


@pytest.mark.rule("COMMIT-5")
def test_only_acceptance_is_remembered(space: MemorySpace) -> None:
    seen = space.must(set_(X, 1, blind=True), local=1)
    space.must(set_(X, 2, blind=True), author=BOB, session="bob")
    assert code(space.commit(set_(X, 3), reads=[read_(X, seen)], local=2)) == "conflict"
    assert code(space.commit(set_(X, 3, blind=True), local=2)) == "accepted"


@pytest.mark.rule("COMMIT-5")
def test_sessions_and_principals_do_not_share_locals(space: MemorySpace) -> None:
    space.must(set_(X, 1, blind=True), local=5)
    assert code(space.commit(set_(X, 2, blind=True), local=1, session="other")) == "accepted"
    assert code(space.commit(set_(X, 2, blind=True), local=1, author=BOB)) == "accepted"


@pytest.mark.rule("COMMIT-11")
def test_an_operation_id_is_remembered_and_not_ordered_among_locals(space: MemorySpace) -> None:
    space.must(set_(X, 1, blind=True), local=9)
    create = structural(BranchCreate(name=BranchName("b"), parent=MAIN, fork=Version(1)), "op")
    clash = structural(BranchCreate(name=BranchName("c"), parent=MAIN, fork=Version(1)), "op")
    first, again, other = space.decide([create, create, clash])
    assert isinstance(first, Accepted)
    assert (again, code(other)) == (Repeated(Version(2)), "identity_clash")
    assert first.commit.branch is None
    assert code(space.commit(set_(X, 2, blind=True), local=10)) == "accepted"


# ---------------------------------------------------------------- COMMIT-6: operations in order


@pytest.mark.rule("COMMIT-6", "FACT-2")
def test_operations_of_one_commit_see_each_other_and_chain(space: MemorySpace) -> None:
    outcome = space.commit(
        set_(X, {"n": 1}, blind=True),
        patch_(X, {"op": "increment", "path": "/n", "by": 2}),
        delete_(X),
        set_(X, "again"),
    )
    assert isinstance(outcome, Accepted)
    hashes = [fact.hash for fact in outcome.facts]
    assert [fact.parent for fact in outcome.facts[1:]] == hashes[:-1]
    assert outcome.commit.facts == tuple(hashes)
    assert space.value(X) == "again"


@pytest.mark.rule("COMMIT-1", "PATCH-1")
def test_a_commit_with_one_bad_operation_writes_nothing(space: MemorySpace) -> None:
    space.must(set_(X, {"a": 1}, blind=True))
    before = space.entity(MAIN, EntityId(X))
    outcome = space.commit(set_(Y, 1, blind=True), patch_(X, replace("/nope", 1), blind=True))
    error = refusal(outcome)
    assert isinstance(error, errors.PatchFailed)
    assert error.facts["index"] == 0
    assert (space.version, space.value(Y), space.entity(MAIN, EntityId(X))) == (1, None, before)


@pytest.mark.rule("FACT-1")
@pytest.mark.parametrize("operation", [patch_(X, replace("", 1), blind=True), delete_(X, blind=True)])
def test_a_patch_or_delete_of_what_is_not_there_is_not_found(space: MemorySpace, operation: Any) -> None:
    assert code(space.commit(operation)) == "not_found"
    space.must(set_(X, 1, blind=True))
    space.must(delete_(X, blind=True))
    assert code(space.commit(operation)) == "not_found"
    assert space.must(set_(X, 2, blind=True)) == 3


@pytest.mark.rule("MODEL-3")
def test_a_patch_may_not_make_a_value_larger_than_the_bound() -> None:
    space = MemorySpace(Limits(value_bytes_max=100))
    space.must(set_(X, {"a": "x" * 60}, blind=True))
    error = refusal(space.commit(patch_(X, {"op": "add", "path": "/b", "value": "y" * 60}, blind=True)))
    assert isinstance(error, errors.LimitExceeded)
    assert error.facts["bound"] == "value_bytes_max"


# ---------------------------------------------------------------- branches, time, notes, rights


@pytest.mark.rule("COMMIT-7")
def test_time_never_goes_back(space: MemorySpace) -> None:
    times = []
    for now in (50, 20, 70):
        (outcome,) = space.decide([space.propose(set_(X, now, blind=True))], now=now)
        assert isinstance(outcome, Accepted)
        times.append(outcome.commit.time)
    assert times == [50, 50, 70]


@pytest.mark.rule("COMMIT-7")
def test_a_commit_records_who_when_and_the_note_it_was_given(space: MemorySpace) -> None:
    note = encode(["fix the title", {"ticket": 7}])
    outcome = space.commit(set_(X, 1, blind=True), note=note, author=BOB, session="bob", local=3)
    assert isinstance(outcome, Accepted)
    record = outcome.commit
    assert (record.author, record.kind, record.note, record.time) == (BOB, "commit", note, 1000)
    assert record.note_salt is not None


@pytest.mark.rule("BRANCH-2")
def test_nothing_written_on_one_branch_is_seen_on_another(space: MemorySpace) -> None:
    seen = space.must(set_(X, 1, blind=True))
    space.structure(BranchCreate(name=BranchName("draft"), parent=MAIN, fork=seen))
    space.must(set_(X, 2), reads=[read_(X, seen)], branch="draft")
    assert (space.value(X), space.value(X, "draft")) == (1, 2)
    assert code(space.commit(set_(X, 3), reads=[read_(X, seen)], branch=MAIN)) == "accepted"
    stale = [read_(X, seen, branch="draft")]
    assert code(space.commit(set_(Y, 3, blind=True), reads=stale, branch=MAIN)) == "conflict"


@pytest.mark.rule("BRANCH-1")
def test_a_deleted_branch_can_be_read_and_not_written_or_made_again(space: MemorySpace) -> None:
    name = BranchName("draft")
    space.must(set_(X, 1, blind=True))
    create = BranchCreate(name=name, parent=MAIN, fork=Version(1))
    assert code(space.structure(create)) == "accepted"
    assert code(space.structure(create)) == "branch_exists"
    assert code(space.structure(BranchDelete(name=name))) == "accepted"
    assert code(space.commit(set_(X, 2, blind=True), branch="draft")) == "branch_deleted"
    assert code(space.structure(create)) == "branch_exists"
    assert code(space.structure(BranchDelete(name=name))) == "branch_deleted"
    assert code(space.structure(BranchDelete(name=MAIN))) == "branch_protected"
    assert code(space.commit(set_(Y, 2, blind=True), reads=[read_(X, 1, branch="draft")])) == "accepted"


@pytest.mark.rule("BRANCH-1")
def test_an_unknown_branch_is_named(space: MemorySpace) -> None:
    for outcome in (
        space.commit(set_(X, 1, blind=True), branch="nope"),
        space.commit(set_(X, 1, blind=True), reads=[read_(X, 0, branch="nope")]),
        space.structure(TagCreate(name="t", branch=BranchName("nope"), version=Version(0))),
    ):
        error = refusal(outcome)
        assert isinstance(error, errors.UnknownBranch)
        assert error.facts["branch"] == "nope"


@pytest.mark.rule("COMMIT-10")
def test_what_the_view_lacks_ends_the_batch_there_and_the_rest_is_decided_later(space: MemorySpace) -> None:
    space.must(set_(X, 1, blind=True))
    batch = [
        structural(BranchCreate(name=BranchName("b"), parent=MAIN, fork=Version(1)), "op"),
        space.propose(set_(X, 2, blind=True), branch="b"),
        space.propose(set_(Y, 2, blind=True)),
    ]
    assert [code(one) for one in space.decide(batch)] == ["accepted"]
    assert [code(one) for one in space.decide(batch[1:])] == ["accepted", "accepted"]
    prefix_batch = [
        structural(BranchCreate(name=BranchName("c"), parent=MAIN, fork=Version(1)), "op2"),
        space.propose(set_(Y, 3, blind=True), reads=[prefix_("urn:", 4)], branch="c"),
    ]
    assert len(space.decide(prefix_batch)) == 1


@pytest.mark.rule("COMMIT-10")
def test_a_decision_has_no_effect_until_it_is_kept(space: MemorySpace) -> None:
    from stemmadb.protocol.model import admission
    from stemmadb.protocol.model.ids import TimeMs

    proposal = space.propose(set_(X, 1, blind=True))
    for _ in range(2):
        (outcome,) = admission.decide([proposal], space, now=TimeMs(1), salts=iter([b"s" * 16]))
        assert code(outcome) == "accepted"
    assert (space.version, space.value(X), space.known) == (0, None, {})


@pytest.mark.rule("BRANCH-1")
def test_tags_name_a_version_once_until_they_are_deleted(space: MemorySpace) -> None:
    space.must(set_(X, 1, blind=True))
    tag = TagCreate(name="v1", branch=MAIN, version=Version(1))
    assert code(space.structure(tag)) == "accepted"
    assert code(space.structure(tag)) == "tag_exists"
    delete = structural(TagDelete(name="v1"), "d1")
    twice = structural(TagDelete(name="v1"), "d2")
    again = structural(tag, "again")
    assert [code(one) for one in space.decide([delete, twice, again])] == ["accepted", "unknown_tag", "accepted"]
    assert code(space.structure(TagCreate(name="v9", branch=MAIN, version=Version(99)))) == "future_version"


@pytest.mark.rule("MERGE-1")
def test_a_merge_is_refused_if_another_merge_into_the_target_came_first(space: MemorySpace) -> None:
    space.must(set_(X, 1, blind=True))
    space.structure(BranchCreate(name=BranchName("b"), parent=MAIN, fork=Version(1)))
    details = Merge(source=BranchName("b"), source_version=Version(2), target_version=Version(1))

    def merge(name: str) -> Proposal:
        plain = structural(details, name, branch=MAIN)
        return Proposal(
            identity=plain.identity, request=plain.request, branch=MAIN, details=details, merged=Version(0)
        )

    first, second = space.decide([merge("m1"), merge("m2")])
    assert (code(first), code(second)) == ("accepted", "conflict")
    assert refusal(second).facts["merged"] == 3


@pytest.mark.rule("COMMIT-2")
def test_declared_reads_of_what_a_principal_may_not_read_claim_nothing(space: MemorySpace) -> None:
    seen = space.must(set_("urn:secret:1", 1, blind=True), set_("urn:open:1", 1, blind=True))
    space.must(set_("urn:secret:1", 2, blind=True))
    space.grants[BOB] = Rights("write", ("urn:open:",))
    reads = [read_("urn:secret:1", seen), prefix_("urn:", seen)]
    outcome = space.commit(set_("urn:open:1", 2, blind=True), reads=reads, author=BOB)
    assert code(outcome) == "accepted"


@pytest.mark.rule("COMMIT-1")
@pytest.mark.parametrize(
    ("rights", "id_", "verdict"),
    [
        (Rights("none"), X, "forbidden"),
        (Rights("read"), X, "forbidden"),
        (Rights("write", ("urn:open:",)), X, "forbidden"),
        (Rights("write", ("urn:open:",)), "urn:open:1", "accepted"),
    ],
)
def test_a_commit_is_authorised_inside_the_decision(
    space: MemorySpace, rights: Rights, id_: str, verdict: str
) -> None:
    space.grants[BOB] = rights
    assert code(space.commit(set_(id_, 1, blind=True), author=BOB)) == verdict


@pytest.mark.rule("COMMIT-10")
def test_a_commit_that_writes_the_access_list_ends_the_batch_so_that_the_next_is_judged_by_it(
    space: MemorySpace,
) -> None:
    batch = [space.propose(set_(space.space, {ALICE: "own"}, blind=True)), space.propose(set_(X, 1, blind=True))]
    assert [code(one) for one in space.decide(batch)] == ["accepted"]
    space.grants[ALICE] = Rights("read")
    assert [code(one) for one in space.decide(batch[1:])] == ["forbidden"]


@pytest.mark.rule("COMMIT-11")
def test_only_an_owner_may_compact(space: MemorySpace) -> None:
    space.grants[BOB] = Rights("write")
    compact = Compact(floor=Version(0))
    assert code(space.structure(compact, author=BOB)) == "forbidden"
    assert code(space.structure(compact, author=ALICE)) == "accepted"


@pytest.mark.rule("FACT-1", "COMMIT-11")
def test_a_checkpoint_goes_into_the_chain_changes_nothing_and_overlaps_nothing(space: MemorySpace) -> None:
    seen = space.must(set_(X, {"n": 1}, blind=True))
    before = space.entity(MAIN, EntityId(X))
    plain = structural(Compact(floor=Version(1)), "compact")
    body = encode({"n": 1})
    step = Step("checkpoint", MAIN, EntityId(X), body, {"n": 1}, len(body), (), ())
    compact = Proposal(
        identity=plain.identity, request=plain.request, branch=None, details=plain.details, steps=(step,)
    )
    (outcome,) = space.decide([compact])
    assert isinstance(outcome, Accepted)
    assert (outcome.commit.branch, outcome.commit.fact_branches) == (None, (MAIN,))
    after = space.entity(MAIN, EntityId(X))
    assert outcome.facts[0].parent == before.hash
    assert (after.value, after.version, after.hash) == (before.value, seen, outcome.facts[0].hash)
    assert code(space.commit(set_(X, 2), reads=[read_(X, seen)])) == "accepted"
    assert list(chain.verify(space.space, space.history))[-1].facts == 3


# ---------------------------------------------------------------- who may, and the access list


ACL = MemorySpace().space


@pytest.mark.rule("ACL-1")
@pytest.mark.parametrize(
    ("operations", "branch", "verdict"),
    [
        ([set_(ACL, {ALICE: "own", BOB: "read"})], "main", "accepted"),
        ([set_(ACL, {ALICE: "own"}), set_(X, 1)], "main", "malformed"),
        ([set_(X, 1), set_(ACL, {ALICE: "own"})], "main", "malformed"),
        ([patch_(ACL, {"op": "add", "path": "/x", "value": "own"})], "main", "malformed"),
        ([delete_(ACL)], "main", "malformed"),
        ([set_(ACL, {ALICE: "own"})], "draft", "malformed"),
        ([set_(ACL, {ALICE: "write"})], "main", "invalid_value"),
        ([set_(ACL, {})], "main", "invalid_value"),
        ([set_(ACL, {ALICE: "own", BOB: "none"})], "main", "invalid_value"),
        ([set_(ACL, {ALICE: "own", BOB: 7})], "main", "invalid_value"),
        ([set_(ACL, {ALICE: "own", BOB: ["own"]})], "main", "invalid_value"),
        ([set_(ACL, ["own"])], "main", "invalid_value"),
    ],
)
def test_the_access_list_is_set_whole_alone_on_main_with_an_owner_left(
    space: MemorySpace, operations: Any, branch: str, verdict: str
) -> None:
    space.must(set_(ACL, {ALICE: "own"}, blind=True))
    space.structure(BranchCreate(name=BranchName("draft"), parent=MAIN, fork=Version(1)))
    reads = [read_(ACL, 2), read_(X, 2)]
    assert code(space.commit(*operations, reads=reads, branch=branch)) == verdict


@pytest.mark.rule("ACL-1")
def test_only_an_owner_changes_the_access_list_and_nobody_erases_it(space: MemorySpace) -> None:
    space.must(set_(ACL, {ALICE: "own", BOB: "write"}, blind=True))
    space.grants[BOB] = Rights("write")
    assert code(space.commit(set_(ACL, {BOB: "own"}, blind=True), author=BOB)) == "forbidden"
    assert code(space.structure(Erase(id=EntityId(ACL), versions=(Version(1),)))) == "forbidden"


@pytest.mark.rule("ACL-1", "COMMIT-10")
def test_a_revocation_ends_the_batch_so_that_the_next_is_judged_without_it(space: MemorySpace) -> None:
    batch = [structural(Revoke(delegation=Hash(bytes(32))), "r"), space.propose(set_(X, 1, blind=True), author=BOB)]
    assert [code(one) for one in space.decide(batch)] == ["accepted"]


@pytest.mark.rule("ACL-1")
@pytest.mark.parametrize(
    "details",
    [Erase(id=EntityId(X), versions=()), Compact(floor=Version(0)), Revoke(delegation=Hash(bytes(32)))],
)
def test_erasing_compacting_and_revoking_need_an_owner(space: MemorySpace, details: Any) -> None:
    space.grants[BOB] = Rights("write")
    assert code(space.structure(details, author=BOB)) == "forbidden"
    assert code(space.structure(details, author=ALICE)) == "accepted"


@pytest.mark.rule("ACL-1")
def test_rights_for_some_ids_are_no_rights_for_the_structure(space: MemorySpace) -> None:
    space.grants[BOB] = Rights("own", ("urn:open:",))
    create = BranchCreate(name=BranchName("b"), parent=MAIN, fork=Version(0))
    assert code(space.structure(create, author=BOB)) == "forbidden"
    merge = Merge(source=MAIN, source_version=Version(0), target_version=Version(0))
    assert code(space.structure(merge, author=BOB, branch=MAIN)) == "accepted"


@pytest.mark.rule("COMMIT-5")
def test_a_principal_that_lost_its_rights_still_learns_its_verdict(space: MemorySpace) -> None:
    proposal = space.propose(set_(X, 1, blind=True), author=BOB)
    space.decide([proposal])
    space.grants[BOB] = Rights("none")
    assert space.decide([proposal]) == [Repeated(Version(1))]


@pytest.mark.rule("COMMIT-5")
def test_an_accepted_commit_keeps_its_answer_after_a_bound_was_lowered(space: MemorySpace) -> None:
    content = Content(operations=(set_(X, 1, blind=True), set_(Y, 1, blind=True)))
    request = digest_request(bytes(16), encode(content))
    identity = LocalIdentity(ALICE, session_of("s"), Local(1))
    space.decide([prepare_or_refuse(identity, request, content)])
    lowered = Limits(operations_max=1)
    assert space.decide([prepare_or_refuse(identity, request, content, lowered)]) == [Repeated(Version(1))]
    other = LocalIdentity(ALICE, session_of("s"), Local(2))
    assert code(space.decide([prepare_or_refuse(other, request, content, lowered)])[0]) == "limit_exceeded"


@pytest.mark.rule("COMMIT-10")
def test_what_is_missing_for_the_first_of_a_batch_is_named(space: MemorySpace) -> None:
    class Bare(MemorySpace):
        def entity(self, branch: BranchName, id_: EntityId) -> EntityState:
            raise NotGathered(branch, id_)

    bare = Bare()
    with pytest.raises(NotGathered) as caught:
        bare.decide([bare.propose(set_(X, 1, blind=True))])
    assert caught.value.args == (MAIN, X)


@pytest.mark.rule("BRANCH-1")
@pytest.mark.parametrize(
    ("details", "verdict"),
    [
        (BranchCreate(name=BranchName("b"), parent=MAIN, fork=Version(-5)), "malformed"),
        (BranchCreate(name=BranchName("b"), parent=MAIN, fork=Version(9)), "future_version"),
        (Compact(floor=Version(99)), "future_version"),
        (Revert(versions=(Version(1), Version(77))), "future_version"),
        (Erase(id=EntityId(X), versions=(Version(77),)), "future_version"),
        (TagCreate(name="a b", branch=MAIN, version=Version(1)), "invalid_name"),
    ],
)
def test_a_structural_write_names_versions_and_names_that_can_be(
    space: MemorySpace, details: Any, verdict: str
) -> None:
    space.must(set_(X, 1, blind=True))
    assert code(space.structure(details)) == verdict


@pytest.mark.rule("BRANCH-1", "MODEL-2")
def test_a_branch_made_in_a_batch_counts_for_the_depth_of_the_next() -> None:
    space = MemorySpace(Limits(branch_depth_max=2))
    batch = [
        structural(BranchCreate(name=BranchName("a"), parent=MAIN, fork=Version(0)), "a"),
        structural(BranchCreate(name=BranchName("b"), parent=BranchName("a"), fork=Version(0)), "b"),
    ]
    assert [code(one) for one in space.decide(batch)] == ["accepted", "limit_exceeded"]


@pytest.mark.rule("BRANCH-1")
def test_a_space_wide_write_cannot_write_a_deleted_branch(space: MemorySpace) -> None:
    name = BranchName("b")
    space.must(set_(X, 1, blind=True))
    space.structure(BranchCreate(name=name, parent=MAIN, fork=Version(1)))
    space.structure(BranchDelete(name=name))
    plain = structural(Erase(id=EntityId(X), versions=(Version(1),)), "erase")
    step = Step("delete", name, EntityId(X), None, None, 0, None, ())
    erase = Proposal(
        identity=plain.identity, request=plain.request, branch=None, details=plain.details, steps=(step,)
    )
    assert code(space.decide([erase])[0]) == "branch_deleted"


@pytest.mark.rule("ERASE-1")
def test_a_patch_of_an_erased_head_says_that_it_was_erased(space: MemorySpace) -> None:
    version = space.must(set_(X, {"a": 1}, blind=True))
    state = space.entity(MAIN, EntityId(X))
    space.states[MAIN, EntityId(X)] = [msgspec.structs.replace(state, value=Missing.ERASED)]
    assert version == 1
    assert code(space.commit(patch_(X, replace("/a", 1), blind=True))) == "erased"
    assert code(space.commit(set_(X, 1, blind=True))) == "accepted"


@pytest.mark.rule("MODEL-3")
def test_a_patch_may_not_nest_a_value_deeper_than_the_bound() -> None:
    space = MemorySpace(Limits(depth_max=3))
    space.must(set_(X, {"a": {}}, blind=True))
    add = {"op": "add", "path": "/a/b", "value": [[]]}
    error = refusal(space.commit(patch_(X, add, blind=True)))
    assert isinstance(error, errors.LimitExceeded)
    assert error.facts["bound"] == "depth_max"


@pytest.mark.rule("PATCH-1")
def test_the_patches_of_one_commit_share_their_bound_of_work() -> None:
    space = MemorySpace(Limits(value_bytes_max=1_000_000))
    space.must(set_(X, {f"k{number}": 0 for number in range(50_000)}, blind=True))
    patches = [patch_(X, replace("/k1", number), blind=True) for number in range(150)]
    assert code(space.commit(*patches[:50])) == "accepted"
    error = refusal(space.commit(*patches))
    assert isinstance(error, errors.LimitExceeded)
    assert error.facts["bound"] == "patch_work_bytes_max"


@pytest.mark.rule("MERGE-1")
def test_a_merge_computed_on_a_later_merge_than_the_last_is_not_stale(space: MemorySpace) -> None:
    details = Merge(source=MAIN, source_version=Version(0), target_version=Version(0))
    plain = structural(details, "m", branch=MAIN)
    merge = Proposal(identity=plain.identity, request=plain.request, branch=MAIN, details=details, merged=Version(5))
    assert code(space.decide([merge])[0]) == "accepted"


@pytest.mark.rule("FACT-2")
def test_a_branch_forked_before_a_checkpoint_continues_the_fact_before_it(space: MemorySpace) -> None:
    space.must(set_(X, {"n": 1}, blind=True))
    plain = structural(Compact(floor=Version(1)), "compact")
    body = encode({"n": 1})
    step = Step("checkpoint", MAIN, EntityId(X), body, {"n": 1}, len(body), (), ())
    space.decide(
        [Proposal(identity=plain.identity, request=plain.request, branch=None, details=plain.details, steps=(step,))]
    )
    space.structure(BranchCreate(name=BranchName("b"), parent=MAIN, fork=Version(1)))
    space.must(set_(X, 2, blind=True), branch="b")
    assert list(chain.verify(space.space, space.history))[-1].version == 4
