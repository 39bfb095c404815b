"""Preparing a commit: what is refused before any state is looked at."""

from __future__ import annotations

from typing import Any

import pytest

from space import ALICE, MemorySpace, patch_, prefix_, read_, session_of, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.proposal import Proposal, prepare, prepare_or_refuse
from stemmadb.protocol.model.commit.request import Content, Operation, Read
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.log.facts import digest_of
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Local, Version
from stemmadb.protocol.model.values.limits import Limits

X = EntityId("urn:x")


def prepared(content: Content, limits: Limits | None = None) -> Proposal:
    identity = LocalIdentity(ALICE, session_of("s"), Local(1))
    return prepare(identity, digest_of(b"", b""), content, limits or Limits())


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (Operation(op="set", id=X), "malformed"),
        (Operation(op="patch", id=X), "malformed"),
        (Operation(op="delete", id=X, body=b"\xc0"), "malformed"),
        (Operation(op="set", id=EntityId("no uri"), body=b"\xc0"), "invalid_id"),
        (Operation(op="set", id=X, body=b"\xc1", blind=True), "invalid_value"),
        (Operation(op="set", id=X, body=b"", blind=True), "invalid_value"),
        (Operation(op="patch", id=X, body=encode({}), blind=True), "invalid_value"),
        (Operation(op="patch", id=X, body=encode([{"op": "jump", "path": ""}]), blind=True), "patch_failed"),
        (
            Operation(op="patch", id=X, body=encode([{"op": "add", "path": "x", "value": 1}]), blind=True),
            "patch_failed",
        ),
    ],
)
def test_an_operation_that_could_never_be_applied_is_refused(operation: Operation, code: str) -> None:
    with pytest.raises(errors.StemmaError) as caught:
        prepared(Content(operations=(operation,)))
    assert caught.value.code == code


@pytest.mark.rule("COMMIT-2")
@pytest.mark.parametrize(
    ("read", "code"),
    [
        (Read(version=Version(0)), "malformed"),
        (Read(version=Version(0), id=X, prefix="urn:"), "malformed"),
        (Read(version=Version(-1), id=X), "malformed"),
        (Read(version=Version(2**63), id=X), "malformed"),
        (Read(version=Version(0), id=X, locals=(Local(0),)), "malformed"),
        (Read(version=Version(0), id=X, locals=(Local(1), Local(2**63))), "malformed"),
        (Read(version=Version(0), prefix="urn:", path="/a"), "malformed"),
        (Read(version=Version(0), prefix="urn: "), "invalid_id"),
        (Read(version=Version(0), id=EntityId("no uri")), "invalid_id"),
        (Read(version=Version(0), id=EntityId("urn:" + "x" * 509)), "invalid_id"),
        (Read(version=Version(0), id=EntityId("")), "invalid_id"),
        (Read(version=Version(0), id=X, path="/a" * 66), "limit_exceeded"),
        (Read(version=Version(0), id=X, path="a"), "invalid_pointer"),
        (Read(version=Version(0), id=X, path="/~2"), "invalid_pointer"),
        (Read(version=Version(0), id=X, branch=BranchName("a b")), "invalid_name"),
    ],
)
def test_a_read_that_means_nothing_is_refused(read: Read, code: str) -> None:
    with pytest.raises(errors.StemmaError) as caught:
        prepared(Content(operations=(set_(X, 1, blind=True),), reads=(read,)))
    assert caught.value.code == code


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize(
    ("bound", "content"),
    [
        ("operations_max", Content(operations=(set_(X, 1, blind=True),) * 3)),
        ("reads_max", Content(operations=(set_(X, 1, blind=True),), reads=(read_(X, 0),) * 3)),
        ("locals_max", Content(operations=(set_(X, 1, blind=True),), reads=(read_(X, 0, through=[1, 2, 3]),))),
        ("note_bytes_max", Content(operations=(set_(X, 1, blind=True),), note=encode("ab"))),
        ("patch_operations_max", Content(operations=(patch_(X, *[{"op": "test", "path": "", "value": 1}] * 3),))),
    ],
)
def test_every_count_is_bounded_at_its_edge(bound: str, content: Content) -> None:
    with pytest.raises(errors.LimitExceeded) as caught:
        prepared(content, Limits(**{bound: 2}))
    assert caught.value.facts == {"bound": bound, "maximum": 2, "actual": 3}
    assert prepared(content, Limits(**{bound: 3})).branch == MAIN


@pytest.mark.rule("COMMIT-7")
def test_a_note_is_json_too() -> None:
    with pytest.raises(errors.InvalidValue):
        prepared(Content(operations=(set_(X, 1, blind=True),), note=b"\xc1"))


@pytest.mark.rule("COMMIT-1")
def test_a_commit_has_a_branch_and_at_least_one_operation() -> None:
    with pytest.raises(errors.Malformed, match="at least one operation"):
        prepared(Content(operations=()))
    with pytest.raises(errors.InvalidName):
        prepared(Content(operations=(set_(X, 1, blind=True),), branch=BranchName("")))


@pytest.mark.rule("MODEL-4")
def test_a_step_keeps_the_bytes_of_its_author() -> None:
    long_form = b"\xd9\x01a"
    (step,) = prepared(Content(operations=(Operation(op="set", id=X, body=long_form, blind=True),))).steps
    assert (step.body, step.payload, step.size) == (long_form, "a", 2)


@pytest.mark.rule("COMMIT-3")
@pytest.mark.parametrize(
    ("operations", "claims"),
    [
        ([{"op": "increment", "path": "/n", "by": 1}], ()),
        ([{"op": "increment", "path": "/n", "by": 1}, {"op": "replace", "path": "/n", "value": 1}], ("/n",)),
        ([{"op": "add", "path": "/l/-", "value": 1}], ("/l",)),
        ([{"op": "test", "path": "/a", "value": 1}], ()),
    ],
)
def test_a_patch_claims_what_it_writes_except_what_it_only_increments(operations: Any, claims: Any) -> None:
    content = Content(operations=(patch_(X, *operations),), reads=(read_(X, 0),))
    assert prepared(content).steps[0].claims == claims


@pytest.mark.rule("COMMIT-2")
def test_reads_of_every_form_pass_through_unchanged() -> None:
    reads = (read_(X, 3, "/a", branch="draft", through=[1, (session_of("o"), 2)]), prefix_("", 0))
    space = MemorySpace()
    assert space.propose(set_(X, 1, blind=True), reads=reads).reads == reads


@pytest.mark.rule("COMMIT-3")
def test_a_prefix_read_of_another_branch_covers_nothing() -> None:
    read = Read(version=Version(0), prefix="urn:", branch=BranchName("draft"))
    with pytest.raises(errors.Undeclared):
        prepared(Content(operations=(set_(X, 1),), reads=(read,)))


@pytest.mark.rule("COMMIT-2")
@pytest.mark.parametrize("branch", [None, MAIN, BranchName("draft")])
@pytest.mark.parametrize(
    ("read", "code"),
    [
        ({"prefix": "no <uri"}, "invalid_id"),
        ({"prefix": "urn:", "path": "/a"}, "malformed"),
        ({"id": "no uri"}, "invalid_id"),
        ({"id": ""}, "invalid_id"),
        ({"id": X, "path": "a"}, "invalid_pointer"),
        ({"id": X, "path": "/a" * 66}, "limit_exceeded"),
    ],
)
def test_a_bad_read_is_refused_whatever_branch_it_names(read: Any, code: str, branch: BranchName | None) -> None:
    reads = (Read(version=Version(0), branch=branch, **read),)
    with pytest.raises(errors.StemmaError) as caught:
        prepared(Content(operations=(set_(X, 1, blind=True),), reads=reads))
    assert caught.value.code == code


@pytest.mark.rule("COMMIT-2")
def test_an_id_that_was_read_on_another_branch_declares_nothing_here() -> None:
    reads = (Read(version=Version(0), id=X, branch=BranchName("draft")), read_(X, 0, "/a"))
    assert prepared(Content(operations=(patch_(X, {"op": "remove", "path": "/a/b"}),), reads=reads)).reads == reads
    with pytest.raises(errors.Undeclared) as caught:
        prepared(Content(operations=(patch_(X, {"op": "remove", "path": "/b"}),), reads=reads))
    assert caught.value.facts == {"index": 0, "id": X, "path": "/b", "patch_index": 0}


@pytest.mark.rule("PATCH-1")
def test_a_path_may_be_one_deeper_than_a_value_and_no_more() -> None:
    for path, limits in (("/a" * 5, Limits(depth_max=4)), ("////", Limits(depth_max=3)), ("/" * 65, Limits())):
        step = patch_(X, {"op": "replace", "path": path, "value": 1})
        assert prepared(Content(operations=(step,), reads=(read_(X, 0, path),)), limits).steps[0].writes == (path,)
        for content in (
            Content(operations=(patch_(X, {"op": "replace", "path": path + "/", "value": 1}, blind=True),)),
            Content(operations=(set_(X, 1, blind=True),), reads=(read_(X, 0, path + "/"),)),
        ):
            with pytest.raises(errors.LimitExceeded) as caught:
                prepared(content, limits)
            maximum = limits.depth_max + 1
            assert caught.value.facts == {"bound": "depth_max", "maximum": maximum, "actual": maximum + 1}


@pytest.mark.rule("COMMIT-3")
def test_a_prefix_covers_its_ids_and_a_whole_write_covers_what_follows() -> None:
    change = patch_(X, {"op": "replace", "path": "/a", "value": 1})
    assert prepared(Content(operations=(change,), reads=(prefix_("urn:", 0),))).steps
    assert prepared(Content(operations=(set_(X, {"a": 0}, blind=True), change))).steps
    with pytest.raises(errors.Undeclared):
        prepared(Content(operations=(change, set_(X, {"a": 0}, blind=True))))


@pytest.mark.rule("COMMIT-3")
def test_coverage_of_many_paths_by_many_reads_is_looked_up_and_not_searched() -> None:
    paths = [f"/k{number}/x" for number in range(1_000)]
    reads = tuple(read_(X, 0, f"/k{number}") for number in range(9_000))
    step = patch_(X, *[{"op": "replace", "path": path, "value": 1} for path in paths])
    assert len(prepared(Content(operations=(step,) * 20, reads=reads)).steps) == 20


@pytest.mark.rule("MODEL-2", "PATCH-1")
def test_the_bounds_of_the_server_hold_for_ids_and_for_paths() -> None:
    with pytest.raises(errors.InvalidId):
        prepared(Content(operations=(set_(X, 1, blind=True),)), Limits(id_bytes_max=4))
    deep = patch_(X, {"op": "add", "path": "/a" * 66, "value": 1}, blind=True)
    with pytest.raises(errors.LimitExceeded) as caught:
        prepared(Content(operations=(deep,)))
    assert caught.value.facts["bound"] == "depth_max"


@pytest.mark.rule("COMMIT-5")
def test_what_could_never_be_accepted_becomes_a_proposal_that_says_why() -> None:
    identity = LocalIdentity(ALICE, session_of("s"), Local(1))
    refused = prepare_or_refuse(identity, digest_of(b"", b""), Content(operations=()))
    assert isinstance(refused.refusal, errors.Malformed)
    fine = prepare_or_refuse(identity, digest_of(b"", b""), Content(operations=(set_(X, 1, blind=True),)))
    assert fine.refusal is None
