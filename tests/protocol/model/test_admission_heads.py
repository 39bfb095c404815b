"""Admission: what a decision asks of the view, and that heads it only looked at are not taken for written ones."""

from __future__ import annotations

import pytest

from space import BOB, MemorySpace, patch_, prefix_, read_, set_, structural
from stemmadb.protocol import errors
from stemmadb.protocol.model.access.access_roles import Rights
from stemmadb.protocol.model.commit import stale_reads
from stemmadb.protocol.model.commit.proposal import Proposal, Step
from stemmadb.protocol.model.log.commit_record import Compact
from stemmadb.protocol.model.log.state import EntityState
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from verdicts import X, Y, code, refusal, replace


class AskedSpace(MemorySpace):
    """Notes which entities a decision asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def entity(self, branch: BranchName, id_: EntityId) -> EntityState:
        self.asked.append(id_)
        return super().entity(branch, id_)


def checkpoint(id_: str, value: object) -> Proposal:
    plain = structural(Compact(floor=Version(1)), "compact")
    body = encode(value)
    step = Step("checkpoint", MAIN, EntityId(id_), body, value, len(body), (), ())
    return Proposal(identity=plain.identity, request=plain.request, branch=None, details=plain.details, steps=(step,))


@pytest.mark.rule("COMMIT-6")
def test_a_batch_asks_for_each_entity_once_and_sees_its_own_writes() -> None:
    space = AskedSpace()
    batch = [
        space.propose(set_(X, 1), set_(Y, 1), reads=[read_(X, 0), read_(X, 0, "/a"), read_(Y, 0)]),
        space.propose(set_(X, 2), reads=[read_(X, 0)]),
        space.propose(set_(X, 3, blind=True), reads=[read_(Y, 1)]),
    ]
    assert [code(one) for one in space.decide(batch)] == ["accepted", "conflict", "accepted"]
    assert space.asked == [X, Y]


@pytest.mark.rule("COMMIT-2")
def test_an_entity_the_principal_may_not_read_is_not_asked_for() -> None:
    space = AskedSpace()
    space.grants[BOB] = Rights("write", ("urn:open:",))
    reads = [read_("urn:secret:1", 0), read_("urn:open:2", 0)]
    assert code(space.commit(set_("urn:open:1", 1, blind=True), reads=reads, author=BOB)) == "accepted"
    assert space.asked == ["urn:open:2", "urn:open:1"]


@pytest.mark.rule("COMMIT-2")
def test_rights_for_some_ids_bear_stale_reads_like_rights_for_all() -> None:
    space = MemorySpace()
    space.must(set_("urn:open:1", 1, blind=True))
    space.grants[BOB] = Rights("write", ("urn:open:",))
    assert code(space.commit(set_("urn:open:1", 2), reads=[read_("urn:open:1", 0)], author=BOB)) == "conflict"
    assert code(space.commit(set_("urn:open:1", 2), reads=[read_("urn:open:1", 1)], author=BOB)) == "accepted"


@pytest.mark.rule("COMMIT-2")
@pytest.mark.parametrize(
    ("first", "named"),
    [("looked at", "urn:t:1"), ("written", "urn:t:2"), ("checkpointed", "urn:t:2")],
)
def test_a_stale_prefix_names_what_the_batch_wrote_first_and_not_what_it_looked_at(first: str, named: str) -> None:
    space = MemorySpace()
    space.must(set_("urn:t:1", 1, blind=True), set_("urn:t:2", 1, blind=True))
    before = {
        "looked at": space.propose(set_(X, 1, blind=True), reads=[read_("urn:t:2", 1)]),
        "written": space.propose(set_("urn:t:2", 2, blind=True), local=2),
        "checkpointed": checkpoint("urn:t:2", 1),
    }[first]
    done, refused = space.decide([before, space.propose(set_(Y, 1, blind=True), reads=[prefix_("urn:t:", 0)])])
    assert code(done) == "accepted"
    error = refusal(refused)
    assert isinstance(error, errors.Conflict)
    assert [one.id for one in error.facts["stale"]] == [named]


@pytest.mark.rule("COMMIT-2")
def test_a_future_read_is_refused_though_nothing_has_changed_since() -> None:
    space = MemorySpace()
    space.must(set_(X, 1, blind=True))
    assert code(space.commit(set_(X, 2), reads=[read_(X, 1), read_(Y, 2)])) == "future_version"


@pytest.mark.rule("COMMIT-2")
def test_the_reads_of_one_proposal_share_what_may_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    space = MemorySpace()
    space.must(set_(X, {"a": 1}, blind=True), set_(Y, {"a": 1}, blind=True))
    space.must(patch_(X, replace("/a", 2), blind=True), patch_(Y, replace("/a", 2), blind=True))
    monkeypatch.setattr(stale_reads, "COMPARISONS_MAX", 1)
    for reads, verdict in (([X], "accepted"), ([Y], "accepted"), ([X, Y], "conflict")):
        outcome = space.commit(set_("urn:z", 1, blind=True), reads=[read_(id_, 1, "/b") for id_ in reads])
        assert code(outcome) == verdict
