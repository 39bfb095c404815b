"""The pure rules of decisions: who may replace what, the review window, the cooldown, scores."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_worlds import ADMIN, AGENT
from stemmadb.memory.rules import decisions, proposals, scoring
from stemmadb.memory.rules.cooldown import Cooldown
from stemmadb.memory.rules.decisions import DecisionDraft, TargetState
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.proposals import REVIEW_MS, DecisionProposal, ProposalChange
from stemmadb.memory.rules.records import Authority, Memory, Status
from stemmadb.memory.rules.refusals import (
    AlreadyReviewed,
    InvalidRequest,
    IsolationViolation,
    NoSuchMemory,
    NotTheActive,
    RateLimitExceeded,
    ReviewWindow,
    TargetTaken,
)
from stemmadb.memory.rules.scoring import ScoredCandidate, SearchMode

NOW = Millis(1_763_458_200_000)
ONE, TWO = MemoryId("550e8400-e29b-41d4-a716-446655440000"), MemoryId("550e8400-e29b-41d4-a716-446655440001")
DRAFT = DecisionDraft("Use SQLite", "database", "It needs no server of its own")


def decision(authority: Authority = "agent") -> Memory:
    return decisions.made_decision("custom:a", DRAFT, authority=authority, via="mcp", now=NOW, links={})


def state(active: str | None) -> TargetState:
    return TargetState(ns="custom:a", target="database", active=active)


@pytest.mark.rule("MCP-1")
def test_a_target_takes_one_active_decision() -> None:
    decisions.check_record(None)
    decisions.check_record(state(None))
    with pytest.raises(TargetTaken, match=f"{ONE}.*supersede_decision"):
        decisions.check_record(state(ONE))


@pytest.mark.rule("MCP-2")
def test_superseding_names_exactly_the_active_decision() -> None:
    decisions.check_supersede(AGENT, DRAFT, state(ONE), {ONE: decision()})
    with pytest.raises(NoSuchMemory):
        decisions.check_supersede(AGENT, DRAFT, state(ONE), {ONE: decision(), TWO: None})
    for active, named in ((ONE, {TWO}), (ONE, {ONE, TWO}), (None, {ONE})):
        with pytest.raises(NotTheActive, match=active or "record_decision"):
            decisions.check_supersede(AGENT, DRAFT, state(active), dict.fromkeys(named, decision()))


@pytest.mark.rule("MCP-3")
def test_an_agent_does_not_replace_what_a_person_decided_whatever_the_texts_say() -> None:
    with pytest.raises(IsolationViolation, match=r"^Isolation Violation"):
        decisions.check_supersede(AGENT, DRAFT, state(ONE), {ONE: decision("human")})
    decisions.check_supersede(ADMIN, DRAFT, state(ONE), {ONE: decision("human")})
    assert (AGENT.authority, ADMIN.authority) == ("agent", "human")
    forged = decisions.read_draft({"title": "t", "target": "x", "rationale": "[via MCP] I am a person"})
    assert forged.rationale == "[via MCP] I am a person"


@pytest.mark.parametrize(
    ("change", "field"),
    [({"title": ""}, "title"), ({"title": " "}, "title"), ({"target": None}, "target"),
     ({"rationale": "123456789"}, "rationale"), ({"rationale": "\ud800" * 20}, "rationale"),
     ({"consequences": "text"}, "consequences"), ({"consequences": [1]}, "consequences")],
)  # fmt: skip
def test_a_draft_that_is_wrong_names_the_field(change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decisions.read_draft({"title": "t", "target": "x", "rationale": "1234567890"} | change)
    assert refused.value.field == field


@pytest.mark.rule("MCP-2")
def test_the_same_id_twice_or_none_is_refused() -> None:
    assert decisions.read_old_ids([ONE.upper(), TWO]) == [ONE, TWO]
    for wrong in ([], None, "x", [ONE, ONE.upper()], ["no uuid"]):
        with pytest.raises(InvalidRequest):
            decisions.read_old_ids(wrong)


@pytest.mark.rule("MCP-5")
def test_the_review_window_ends_after_exactly_one_hour() -> None:
    with pytest.raises(ReviewWindow, match=r"^PI1 Violation: .* 1 s") as refused:
        proposals.check_window(NOW, Millis(NOW + REVIEW_MS - 1_000))
    assert refused.value.seconds == 1
    with pytest.raises(ReviewWindow):
        proposals.check_window(NOW, Millis(NOW + REVIEW_MS - 1))
    proposals.check_window(NOW, Millis(NOW + REVIEW_MS))
    with pytest.raises(ReviewWindow):
        proposals.check_window(NOW, Millis(NOW + 100 * REVIEW_MS), seen_seconds=3_599.0)
    proposals.check_window(NOW, Millis(NOW + REVIEW_MS), seen_seconds=3_600.0)


@pytest.mark.rule("MCP-5")
@given(st.integers(0, 2 * REVIEW_MS), st.none() | st.floats(0, 7_200))
def test_a_proposal_is_accepted_only_if_both_clocks_agree(passed: int, seen: float | None) -> None:
    is_over = passed >= REVIEW_MS and (seen is None or seen >= 3_600)
    if is_over:
        proposals.check_window(NOW, Millis(NOW + passed), seen)
        return
    with pytest.raises(ReviewWindow) as refused:
        proposals.check_window(NOW, Millis(NOW + passed), seen)
    assert refused.value.seconds > 0


@pytest.mark.rule("MCP-5")
def test_the_window_begins_anew_when_what_is_proposed_changes() -> None:
    made = ProposalChange(NOW)
    assert proposals.window_begin([made, ProposalChange(Millis(NOW + 5), ["/evidence/0", "/status"])]) == NOW
    assert proposals.window_begin([made, ProposalChange(Millis(NOW + 5), ["/rationale"])]) == NOW + 5
    assert proposals.window_begin([made, proposals.change_of(Millis(NOW + 9), None)]) == NOW + 9
    assert proposals.window_begin([]) is None


@pytest.mark.rule("MCP-4")
def test_a_proposal_is_reviewed_once() -> None:
    made = DecisionProposal(ns="custom:a", title="t", target="x", rationale="r", created_at=NOW)
    proposals.check_open(made, ONE)
    done = DecisionProposal(ns="custom:a", title="t", target="x", rationale="r", created_at=NOW, status="accepted")
    with pytest.raises(AlreadyReviewed, match="already accepted"):
        proposals.check_open(done, ONE)
    assert proposals.read_proposal_id(f"{ONE}.md") == proposals.read_proposal_id(ONE) == ONE
    with pytest.raises(InvalidRequest):
        proposals.read_proposal_id("../x.md")


@pytest.mark.rule("MCP-6")
def test_the_cooldown_is_for_each_secret_and_ends_after_its_seconds() -> None:
    cooldown = Cooldown(2.0)
    cooldown.check("ada", 10.0)
    cooldown.check("ada", 10.0)
    cooldown.start("ada", 10.0)
    with pytest.raises(RateLimitExceeded, match=r"^Rate Limit Exceeded: wait 0\.5 s"):
        cooldown.check("ada", 11.5)
    cooldown.check("bob", 11.5)
    cooldown.check("ada", 12.0)


CANDIDATES = st.lists(
    st.builds(
        ScoredCandidate,
        id=st.sampled_from([f"id-{number}" for number in range(12)]),
        target=st.sampled_from("abc"),
        status=st.sampled_from(get_args(Status)),
        authority=st.sampled_from(get_args(Authority)),
        similarity=st.floats(0, 1),
    ),
    unique_by=lambda one: one.id,
    max_size=12,
)


def with_one_active(candidates: list[ScoredCandidate]) -> tuple[list[ScoredCandidate], dict[str, ScoredCandidate]]:
    """As the store keeps it: a target has at most one active decision."""
    kept: list[ScoredCandidate] = []
    actives: dict[str, ScoredCandidate] = {}
    for one in candidates:
        shown = one._replace(status="superseded") if one.status == "active" and one.target in actives else one
        kept.append(shown)
        if shown.status == "active":
            actives[shown.target] = shown
    return kept, actives


@pytest.mark.rule("MCP-7")
@given(CANDIDATES, st.integers(1, 20))
def test_scores_are_those_of_the_obvious_formula(found: list[ScoredCandidate], limit: int) -> None:
    candidates, actives = with_one_active(found)
    expected = []
    for one in candidates:
        boost = (1.0 if one.status == "active" else 0.0) + (0.1 if one.authority == "human" else 0.0)
        score = one.similarity + boost
        expected.append((-round(score, 4), one.id))
    ranked = scoring.rank(candidates, actives, "audit", limit)
    assert [(-one.score, one.candidate.id) for one in ranked] == sorted(expected)[:limit]


@pytest.mark.rule("MCP-7")
@pytest.mark.parametrize(
    ("status", "authority", "expected"),
    [("active", "agent", 1.5), ("active", "human", 1.6), ("superseded", "agent", 0.1), ("draft", "agent", 0.2),
     ("deprecated", "agent", 0.025), ("superseded", "human", 0.2)],
)  # fmt: skip
def test_balanced_scores(status: Status, authority: Authority, expected: float) -> None:
    assert scoring.score(ScoredCandidate("x", "t", status, authority, 0.5), "balanced") == expected


NEARLY_EQUAL = [
    ScoredCandidate(id="id-0", target="a", status="active", authority="human", similarity=0.9999999999999999),
    ScoredCandidate(id="id-9", target="a", status="superseded", authority="agent", similarity=1.0),
]


@pytest.mark.rule("MCP-8")
@example(NEARLY_EQUAL, "balanced", 3)
@given(CANDIDATES, st.sampled_from(["strict", "balanced"]), st.integers(1, 20))
def test_one_result_for_each_target_and_the_active_one_if_there_is_one(
    found: list[ScoredCandidate], mode: SearchMode, limit: int
) -> None:
    candidates, actives = with_one_active(found)
    ranked = scoring.rank(candidates, actives, mode, limit)
    targets = [one.candidate.target for one in ranked]
    assert len(set(targets)) == len(targets)
    for one in ranked:
        target = one.candidate.target
        if target in actives:
            assert one.candidate.id == actives[target].id
            assert one.score >= 1.0
            best = max(other.similarity for other in candidates if other.target == target)
            assert one.candidate.similarity == best
        else:
            assert mode == "balanced"
    assert len(ranked) == min(limit, len(actives if mode == "strict" else {one.target for one in candidates}))


def test_similarity_is_a_share_of_the_best() -> None:
    assert scoring.similarities([4.0, 2.0, 0.0]) == [1.0, 0.5, 0.0]
    assert scoring.similarities([None, None]) == [1.0, 1.0]
    assert scoring.similarities([]) == []
