"""Admission: exactly once, and operations in order (COMMIT-5, COMMIT-6, COMMIT-11)."""

from __future__ import annotations

from typing import Any

import pytest

from space import BOB, MemorySpace, delete_, patch_, read_, set_, structural
from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.admission import Accepted, Repeated
from stemmadb.protocol.model.log.commit_record import BranchCreate
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from stemmadb.protocol.model.values.limits import Limits
from verdicts import X, Y, code, refusal, replace


@pytest.fixture
def space() -> MemorySpace:
    return MemorySpace()


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
    assert (error.facts["index"], error.facts["id"]) == (1, X)
    assert (error.facts["patch_index"], error.facts["path"]) == (0, "/nope")
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
