"""Admission: branches, tags, time, notes, and where a batch ends (BRANCH-1, COMMIT-7, COMMIT-10)."""

from __future__ import annotations

import pytest

from space import ALICE, BOB, MemorySpace, prefix_, read_, set_, structural
from stemmadb.protocol import errors
from stemmadb.protocol.model.access.access_roles import Rights
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.proposal import Proposal, Step
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete, Compact, Merge, TagCreate, TagDelete
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from verdicts import X, Y, code, refusal


@pytest.fixture
def space() -> MemorySpace:
    return MemorySpace()


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
    from stemmadb.protocol.model.commit import admission
    from stemmadb.protocol.model.values.ids import TimeMs

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
