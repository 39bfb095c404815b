"""Who may write, the access list, and answers that last (ACL-1, COMMIT-5)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from space import ALICE, BOB, MemorySpace, delete_, patch_, read_, session_of, set_, structural
from stemmadb.protocol import errors
from stemmadb.protocol.identity import did_of
from stemmadb.protocol.model.access.access_roles import FOUNDER, UNFOUNDED, Rights
from stemmadb.protocol.model.commit import permission
from stemmadb.protocol.model.commit.admission import Repeated
from stemmadb.protocol.model.commit.proposal import Proposal, Step, prepare_or_refuse
from stemmadb.protocol.model.commit.request import Content, digest_request
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import (
    BranchCreate,
    BranchDelete,
    Compact,
    Erase,
    LocalIdentity,
    Merge,
    Revert,
    Revoke,
    TagCreate,
)
from stemmadb.protocol.model.log.state import EntityState, Missing, NotGathered
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Hash, Local, Version
from stemmadb.protocol.model.values.limits import Limits
from verdicts import X, Y, code, refusal, replace


@pytest.fixture
def space() -> MemorySpace:
    return MemorySpace()


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
@pytest.mark.parametrize("principal", ["nobody", "", "did:key:z6Mk", f"{BOB}\n", "did:web:example.org", f"{BOB} "])
def test_a_principal_of_the_access_list_is_a_did(space: MemorySpace, principal: str) -> None:
    assert code(space.commit(set_(ACL, {ALICE: "own", principal: "own"}, blind=True))) == "invalid_value"
    assert code(space.commit(set_(ACL, {principal: "own"}, blind=True))) == "invalid_value"


@pytest.mark.rule("ACL-1")
def test_the_access_list_has_a_bounded_number_of_entries(space: MemorySpace) -> None:
    listed = {did_of(number.to_bytes(32, "little")): "read" for number in range(2, permission.ACCESS_ENTRIES_MAX + 1)}
    assert code(space.commit(set_(ACL, {ALICE: "own"} | listed, blind=True))) == "accepted"
    listed[BOB] = "read"
    assert code(space.commit(set_(ACL, {ALICE: "own"} | listed, blind=True))) == "limit_exceeded"


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
    assert code(space.structure(merge, author=BOB, branch=MAIN)) == "forbidden"


@pytest.mark.rule("ACL-3")
@pytest.mark.parametrize(
    ("operations", "verdict"),
    [
        ([set_(ACL, {ALICE: "own"})], "accepted"),
        ([set_(ACL, {ALICE: "own"}, blind=True)], "accepted"),
        ([set_(ACL, {ALICE: "own"}), set_(X, 1)], "malformed"),
        ([set_(ACL, {ALICE: "write"})], "invalid_value"),
        ([delete_(ACL)], "malformed"),
        ([set_(X, 1)], "forbidden"),
        ([set_(ACL + ":x", {ALICE: "own"})], "forbidden"),
    ],
)
def test_the_first_write_is_the_access_list_and_nothing_else(
    space: MemorySpace, operations: Any, verdict: str
) -> None:
    space.grants[space.space] = FOUNDER
    reads = [read_(operation.id, 0) for operation in operations]
    assert code(space.commit(*operations, reads=reads, author=space.space)) == verdict


@pytest.mark.rule("ACL-3")
@pytest.mark.parametrize(
    "details",
    [
        BranchCreate(name=BranchName("b"), parent=MAIN, fork=Version(0)),
        TagCreate(name="t", branch=MAIN, version=Version(0)),
        Merge(source=MAIN, source_version=Version(0), target_version=Version(0)),
        Revert(versions=()),
        Compact(floor=Version(0)),
        Revoke(delegation=Hash(bytes(32))),
    ],
)
def test_before_the_access_list_nothing_is_made_or_destroyed(space: MemorySpace, details: Any) -> None:
    space.grants[space.space] = FOUNDER
    branch = MAIN if isinstance(details, Merge | Revert) else None
    error = refusal(space.structure(details, author=space.space, branch=branch))
    assert (error.code, space.version) == ("forbidden", 0)
    assert "no access list yet" in error.message


@pytest.mark.rule("ACL-3")
def test_others_are_told_what_is_to_be_done_before_anything_else(space: MemorySpace) -> None:
    space.grants[BOB] = UNFOUNDED
    for operation in (set_(X, 1, blind=True), set_(ACL, {BOB: "own"}, blind=True)):
        error = refusal(space.commit(operation, author=BOB))
        assert (error.code, error.facts) == ("forbidden", {"action": "write", "needs": "own"})
        assert "set the entity named by the space's DID" in error.message
    space.grants[BOB] = Rights("none")
    assert "no access list" not in refusal(space.commit(set_(X, 1, blind=True), author=BOB)).message


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
