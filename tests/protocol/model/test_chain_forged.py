"""Histories whose every hash is right and that still cannot be: verify finds them too (FACT-3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from chains import make_space, verified
from space import MemorySpace, set_
from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete, Commit, sealed
from stemmadb.protocol.model.log.facts import FactKind
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Hash, Version


def resealed(space: MemorySpace, at: int, **changes: Any) -> Commit:
    """The record changed by someone who can compute hashes, as a dishonest server could."""
    return sealed(space.space, msgspec.structs.replace(space.history[at][0], **changes))


@pytest.mark.rule("FACT-3")
@pytest.mark.parametrize(
    ("at", "changes", "why"),
    [
        (6, {"time": 1}, "time is before"),
        (6, {"previous": Hash(b"\x00" * 32)}, "does not follow"),
        (6, {"branch": None}, "on which branch"),
        (6, {"fact_branches": (BranchName("twig"),)}, "on which branch"),
        (1, {"arguments": b"\xc1"}, "cannot be read"),
        (1, {"arguments": encode(BranchCreate(name=MAIN, parent=MAIN, fork=Version(0)))}, "cannot be made"),
        (
            1,
            {"arguments": encode(BranchCreate(name=BranchName("b"), parent=BranchName("b"), fork=Version(0)))},
            "cannot be made",
        ),
        (
            1,
            {"arguments": encode(BranchCreate(name=BranchName("b"), parent=MAIN, fork=Version(2)))},
            "cannot be made",
        ),
        (
            1,
            {"arguments": encode(BranchCreate(name=BranchName("b"), parent=MAIN, fork=Version(-1)))},
            "cannot be made",
        ),
        (1, {"arguments": encode(BranchDelete(name=BranchName("nope")))}, "cannot be deleted"),
        (1, {"arguments": encode(BranchDelete(name=MAIN))}, "cannot be deleted"),
        (1, {"arguments": b"\x82\xa4kind\xadbranch.delete\xa4name\xa1\xff"}, "cannot be read"),
        (1, {"arguments": b"\x82\xa4kind\xadbranch.delete\xa1x" + b"\x91" * 200_000 + b"\x01"}, "cannot be read"),
    ],
)
def test_a_record_that_gives_its_hash_and_still_cannot_be_is_found(at: int, changes: Any, why: str) -> None:
    space = make_space()
    history = [*space.history[:at], (resealed(space, at, **changes), space.history[at][1])]
    with pytest.raises(BrokenChain, match=why):
        verified(space, history)


@pytest.mark.rule("FACT-2")
def test_a_fact_on_a_branch_that_was_never_made_is_found() -> None:
    space = make_space()
    fact = msgspec.structs.replace(space.history[6][1][0], branch=BranchName("ghost"))
    history = [*space.history[:6], (resealed(space, 6, branch=BranchName("ghost")), (fact,))]
    with pytest.raises(BrokenChain, match="its parent is not"):
        verified(space, history)


@pytest.mark.rule("FACT-3", "COMMIT-5", "COMMIT-11")
def test_one_identity_accepted_twice_is_found() -> None:
    space = make_space()
    again = resealed(space, 4, identity=space.history[3][0].identity)
    with pytest.raises(BrokenChain, match="its local does not rise"):
        verified(space, [*space.history[:4], (again, space.history[4][1])])
    operation = resealed(space, 5, identity=space.history[1][0].identity)
    with pytest.raises(BrokenChain, match="operation id was used"):
        verified(space, [*space.history[:5], (operation, space.history[5][1])])


@pytest.mark.rule("FACT-2", "FACT-3")
@pytest.mark.parametrize("parent", [facts.empty(EntityId("urn:x")), Hash(b"\x01" * 32)])
def test_a_fact_that_continues_another_than_the_last_is_found_though_every_hash_is_right(parent: Hash) -> None:
    space = MemorySpace()
    space.must(set_("urn:x", 1, blind=True))
    space.must(set_("urn:x", 2, blind=True))
    record, (fact,) = space.history[1]
    forged = msgspec.structs.replace(
        fact, parent=parent, hash=facts.hash_fact(fact.kind, fact.id, parent, fact.digest)
    )
    resealed_record = sealed(space.space, msgspec.structs.replace(record, facts=(forged.hash,)))
    with pytest.raises(BrokenChain, match="its parent is not"):
        verified(space, [space.history[0], (resealed_record, (forged,))])


@pytest.mark.rule("FACT-1", "FACT-3")
@pytest.mark.parametrize("kind", ["patch", "delete", "checkpoint"])
def test_a_fact_that_needs_a_value_where_there_is_none_is_found(kind: FactKind) -> None:
    space = MemorySpace()
    space.must(set_("urn:x", 1, blind=True))
    record, (fact,) = space.history[0]
    digest = facts.NO_BODY if kind == "delete" else fact.digest
    first = msgspec.structs.replace(
        fact, kind=kind, digest=digest, hash=facts.hash_fact(kind, fact.id, fact.parent, digest)
    )
    if kind == "delete":
        first = msgspec.structs.replace(first, body=None, salt=None)
    forged = sealed(space.space, msgspec.structs.replace(record, facts=(first.hash,)))
    with pytest.raises(BrokenChain, match=f"a {kind} needs a value"):
        verified(space, [(forged, (first,))])


@pytest.mark.rule("BRANCH-1", "FACT-3")
def test_a_fact_on_a_deleted_branch_is_found() -> None:
    space = make_space()
    space.structure(BranchDelete(name=BranchName("draft")))
    deleted = space.history.pop()
    assert verified(space, [*space.history, deleted]) == 8
    earlier = sealed(
        space.space,
        msgspec.structs.replace(deleted[0], version=Version(5), previous=space.history[3][0].hash),
    )
    late = resealed(space, 4, version=Version(6), previous=earlier.hash)
    facts_late = tuple(msgspec.structs.replace(fact, version=Version(6)) for fact in space.history[4][1])
    with pytest.raises(BrokenChain, match="its parent is not"):
        verified(space, [*space.history[:4], (earlier, ()), (late, facts_late)])
