"""Deciding for those who act under delegations (ACL-1, ACL-4, COMMIT-2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from delegations import DORA, EMIL, OLGA, ROLES, delegate
from space import SPACE, MemorySpace, patch_, prefix_, read_, set_, structural
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.access import access_roles
from stemmadb.protocol.model.access.access_roles import OWNER, Rights
from stemmadb.protocol.model.access.delegation import DelegatedRights, name_of, verify
from stemmadb.protocol.model.commit.admission import Accepted, Outcome, Repeated
from stemmadb.protocol.model.commit.proposal import Proposal, prepare, set_step
from stemmadb.protocol.model.commit.request import Content, Read
from stemmadb.protocol.model.log.commit_record import (
    Arguments,
    BranchCreate,
    Compact,
    Merge,
    Revert,
    Revoke,
    TagCreate,
)
from stemmadb.protocol.model.log.state import EntityState
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, TimeMs, Version
from stemmadb.protocol.model.values.limits import Limits
from verdicts import code, refusal

MINE, OTHER = "urn:a:1", "urn:b:1"
TOKEN = delegate(OLGA, DORA)


class ListedSpace(MemorySpace):
    """Rights by its access list, as a real one; remembers which prefixes were looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at: list[str] = []

    def rights(self, principal: Did) -> Rights:
        return access_roles.by_list(self.value(SPACE), principal, SPACE) if self.version else OWNER

    def changed_under(self, branch: BranchName, prefix: str, after: Version) -> Iterable[EntityState]:
        self.looked_at.append(prefix)
        return super().changed_under(branch, prefix, after)


@pytest.fixture
def space() -> ListedSpace:
    space = ListedSpace()
    space.must(set_(SPACE, ROLES, blind=True), author=SPACE)
    space.must(set_(OTHER, 0, blind=True), author=OLGA.did)
    return space


def shown(*tokens: bytes) -> tuple[DelegatedRights, ...]:
    return verify(tokens, space=SPACE, audience=DORA.did)


def proposed(space: MemorySpace, *operations: Any, tokens: Any = (TOKEN,), **how: Any) -> Proposal:
    plain = space.propose(*operations, author=DORA.did, session="dora", **how)
    return msgspec.structs.replace(plain, delegated=shown(*tokens))


def commit(space: MemorySpace, *operations: Any, now: int = 5_000, **how: Any) -> Outcome:
    return space.decide([proposed(space, *operations, **how)], now=now)[0]


def structure(space: MemorySpace, details: Any, *steps: Any, branch: str | None = None) -> Outcome:
    plain = structural(details, f"dora {space.version}", author=DORA.did, branch=branch)
    return space.decide([msgspec.structs.replace(plain, delegated=shown(TOKEN), steps=steps)], now=5_000)[0]


@pytest.mark.rule("ACL-4")
def test_a_delegate_writes_what_its_token_covers_and_nothing_else(space: ListedSpace) -> None:
    assert code(commit(space, set_(MINE, 1, blind=True))) == "accepted"
    assert code(commit(space, set_(OTHER, 1, blind=True))) == "forbidden"
    assert code(commit(space, set_(MINE, 2, blind=True), set_(OTHER, 1, blind=True))) == "forbidden"
    assert space.value(OTHER) == 0
    assert space.history[-1][0].author == DORA.did


@pytest.mark.rule("ACL-4")
def test_reading_is_not_writing(space: ListedSpace) -> None:
    reading = delegate(OLGA, DORA, role="read")
    assert code(commit(space, set_(MINE, 1, blind=True), tokens=[reading])) == "forbidden"
    assert code(commit(space, set_(MINE, 1, blind=True), tokens=[reading, TOKEN])) == "forbidden"


@pytest.mark.rule("ACL-4")
def test_one_who_shows_a_delegation_acts_under_it_alone(space: ListedSpace) -> None:
    space.must(set_(SPACE, {**ROLES, DORA.did: "own"}, blind=True), author=OLGA.did)
    assert code(commit(space, set_(OTHER, 1, blind=True))) == "forbidden"
    assert code(commit(space, set_(SPACE, ROLES, blind=True))) == "forbidden"
    assert code(structure(space, Compact(floor=Version(0)))) == "forbidden"
    assert code(structure(space, Revoke(delegation=name_of(TOKEN)))) == "forbidden"
    assert code(space.commit(set_(OTHER, 1, blind=True), author=DORA.did)) == "accepted"


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize(("now", "verdict"), [(999, "forbidden"), (1_000, "accepted"), (9_000, "forbidden")])
def test_a_commit_is_judged_by_the_time_it_is_decided_at(space: ListedSpace, now: int, verdict: str) -> None:
    space.time = TimeMs(0)
    assert code(commit(space, set_(MINE, 1, blind=True), now=now)) == verdict


@pytest.mark.rule("ACL-4", "COMMIT-7")
def test_a_clock_that_goes_back_brings_no_delegation_back(space: ListedSpace) -> None:
    space.decide([space.propose(set_(OTHER, 1, blind=True), author=OLGA.did)], now=9_000)
    assert code(commit(space, set_(MINE, 1, blind=True), now=5_000)) == "forbidden"


@pytest.mark.rule("ACL-4")
def test_the_time_of_the_record_lies_within_that_of_the_delegation(space: ListedSpace) -> None:
    batch = [
        space.propose(set_(OTHER, 1, blind=True), author=OLGA.did),
        proposed(space, set_(MINE, 1, blind=True)),
    ]
    assert [code(one) for one in space.decide(batch, now=8_999)] == ["accepted", "accepted"]
    assert space.history[-1][0].time == 8_999


@pytest.mark.rule("ACL-4", "COMMIT-5")
def test_a_revoked_delegate_may_write_nothing_more_and_still_learns_its_verdict(space: ListedSpace) -> None:
    before = proposed(space, set_(MINE, 1, blind=True))
    (accepted,) = space.decide([before], now=5_000)
    assert isinstance(accepted, Accepted)
    space.structure(Revoke(delegation=name_of(TOKEN)), author=OLGA.did)
    assert code(commit(space, set_(MINE, 2, blind=True))) == "forbidden"
    assert space.decide([before], now=5_000) == [Repeated(accepted.commit.version)]


@pytest.mark.rule("ACL-1", "ACL-4")
def test_what_follows_a_revocation_in_a_batch_is_decided_after_it(space: ListedSpace) -> None:
    batch = [
        proposed(space, set_(MINE, 1, blind=True)),
        structural(Revoke(delegation=name_of(TOKEN)), "r", author=OLGA.did),
        proposed(space, set_(MINE, 2, blind=True)),
    ]
    assert [code(one) for one in space.decide(batch, now=5_000)] == ["accepted", "accepted"]
    assert [code(one) for one in space.decide(batch[2:], now=5_000)] == ["forbidden"]


@pytest.mark.rule("ACL-4")
def test_a_revocation_ends_every_chain_that_goes_through_it(space: ListedSpace) -> None:
    wide = delegate(OLGA, EMIL, prefixes=("urn:",))
    narrow = delegate(EMIL, DORA, parent=wide)
    assert code(commit(space, set_(MINE, 1, blind=True), tokens=[wide, narrow])) == "accepted"
    space.structure(Revoke(delegation=name_of(wide)), author=OLGA.did)
    assert code(commit(space, set_(MINE, 1, blind=True), tokens=[wide, narrow])) == "forbidden"
    assert code(commit(space, set_(MINE, 1, blind=True))) == "accepted"


@pytest.mark.rule("ACL-4")
def test_what_an_owner_delegated_ends_with_its_ownership_and_comes_back_with_it(space: ListedSpace) -> None:
    for roles, verdict in [({SPACE: "own", OLGA.did: "write"}, "forbidden"), (ROLES, "accepted")]:
        owner = OLGA.did if space.value(SPACE)[OLGA.did] == "own" else SPACE
        space.must(set_(SPACE, roles, blind=True), author=owner)
        assert code(commit(space, set_(MINE, 1, blind=True))) == verdict


@pytest.mark.rule("ACL-1")
@pytest.mark.parametrize(
    "details",
    [
        BranchCreate(name=BranchName("b"), parent=MAIN, fork=Version(1)),
        TagCreate(name="t", branch=MAIN, version=Version(1)),
    ],
)
def test_rights_for_some_ids_make_no_branch_and_no_tag(space: ListedSpace, details: Any) -> None:
    assert code(structure(space, details)) == "forbidden"


@pytest.mark.rule("ACL-1", "ACL-4")
def test_every_id_is_enough_for_branches_and_tags_and_not_for_what_an_owner_does(space: ListedSpace) -> None:
    delegated = shown(delegate(OLGA, DORA, prefixes=("",)))
    verdicts: list[tuple[Arguments, str]] = [
        (BranchCreate(name=BranchName("b"), parent=MAIN, fork=Version(1)), "accepted"),
        (Compact(floor=Version(0)), "forbidden"),
        (Revoke(delegation=name_of(TOKEN)), "forbidden"),
    ]
    for details, verdict in verdicts:
        plain = structural(details, f"op {details}"[:16], author=DORA.did)
        assert code(space.decide([msgspec.structs.replace(plain, delegated=delegated)], now=5_000)[0]) == verdict
    widest = [delegate(OLGA, DORA, prefixes=("",))]
    assert code(commit(space, set_(SPACE, ROLES, blind=True), tokens=widest)) == "forbidden"


@pytest.mark.rule("ACL-1", "ACL-2")
@pytest.mark.parametrize(
    "details",
    [Merge(source=MAIN, source_version=Version(1), target_version=Version(1)), Revert(versions=(Version(1),))],
)
def test_a_merge_or_an_undo_outside_is_refused_without_naming_what_it_would_write(
    space: ListedSpace, details: Any
) -> None:
    def step(id_: str) -> Any:
        return set_step(MAIN, EntityId(id_), b"\x01", blind=True)

    error = refusal(structure(space, details, step(MINE), step(OTHER), branch=MAIN))
    assert error.code == "forbidden"
    assert "urn:" not in error.message
    inside = code(structure(space, details, step(MINE), branch=MAIN))
    assert inside == ("accepted" if isinstance(details, Revert) else "forbidden"), "a merge concerns every id"


# ---------------------------------------------------------------- declared reads


@pytest.mark.rule("COMMIT-2", "ACL-1")
def test_a_declared_read_outside_claims_nothing(space: ListedSpace) -> None:
    space.must(set_(OTHER, 9, blind=True), author=OLGA.did)
    assert code(commit(space, set_(MINE, 1, blind=True), reads=[read_(OTHER, 1)])) == "accepted"
    plain = space.propose(set_(MINE, 2, blind=True), reads=[read_(OTHER, 1)], author=OLGA.did)
    assert code(space.decide([plain])[0]) == "conflict"


@pytest.mark.rule("COMMIT-2", "ACL-1")
def test_a_declared_read_inside_is_checked_as_ever(space: ListedSpace) -> None:
    version = space.must(set_(MINE, {"n": 1}, blind=True), author=OLGA.did)
    stale = [read_(MINE, version - 1)]
    error = refusal(commit(space, patch_(MINE, {"op": "replace", "path": "/n", "value": 2}), reads=stale))
    assert [one.id for one in error.facts["stale"]] == [MINE]


@pytest.mark.rule("COMMIT-2", "ACL-1")
@pytest.mark.parametrize(
    ("prefix", "verdict", "looked_at"),
    [
        ("", "conflict", ["urn:a:"]),
        ("urn:", "conflict", ["urn:a:"]),
        ("urn:a:", "conflict", ["urn:a:"]),
        ("urn:a:1", "conflict", ["urn:a:1"]),
        ("urn:a:2", "accepted", ["urn:a:2"]),
        ("urn:b:", "accepted", []),
    ],
)
def test_a_read_of_a_prefix_is_narrowed_before_anything_is_looked_at(
    space: ListedSpace, prefix: str, verdict: str, looked_at: list[str]
) -> None:
    version = space.version
    space.must(set_(MINE, 1, blind=True), author=OLGA.did)
    space.must(set_(OTHER, 2, blind=True), author=OLGA.did)
    outcome = commit(space, set_("urn:a:9", 1, blind=True), reads=[prefix_(prefix, version)])
    assert code(outcome) == verdict
    assert space.looked_at == looked_at


@pytest.mark.rule("COMMIT-2")
def test_a_read_of_a_prefix_is_looked_at_once_by_one_who_may_read_everything(space: ListedSpace) -> None:
    assert code(space.commit(set_(MINE, 1, blind=True), reads=[prefix_("urn:", 2)], author=OLGA.did)) == "accepted"
    assert space.looked_at == ["urn:"]


@pytest.mark.rule("COMMIT-2", "MODEL-3")
def test_reads_of_prefixes_count_once_for_each_prefix_that_is_delegated(space: ListedSpace) -> None:
    delegated = shown(delegate(OLGA, DORA, prefixes=("urn:a:", "urn:b:")), delegate(OLGA, DORA, prefixes=("urn:c:",)))
    plain = space.propose(set_(MINE, 1, blind=True), author=DORA.did)

    def prepared(prefixes: int, ids: int = 5) -> Proposal:
        reads: list[Read] = [prefix_("urn:", 1) for _ in range(prefixes)]
        content = Content(operations=(set_(MINE, 1, blind=True),), reads=(*reads, *[read_(MINE, 1)] * ids))
        return prepare(plain.identity, plain.request, content, Limits(reads_max=12), delegated)

    assert prepared(4).delegated == delegated
    with pytest.raises(LimitExceeded) as caught:
        prepared(5)
    assert caught.value.facts == {"bound": "reads_max", "maximum": 12, "actual": 15}
