"""The order of decisions in a search: which state a decision has counts more than how well its words match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, get_args

from stemmadb.memory.rules.records import Authority, Status

SearchMode = Literal["strict", "balanced", "audit"]
MODES: Final[tuple[str, ...]] = get_args(SearchMode)
PENALTIES: Final[Mapping[str, float]] = {"superseded": 0.2, "deprecated": 0.05, "draft": 0.4}
ACTIVE_BOOST: Final = 1.0
HUMAN_BOOST: Final = 0.1
PLACES: Final = 4


class ScoredCandidate(NamedTuple):
    """A decision or proposal that matches. `similarity` is from 0 to 1."""

    id: str
    target: str
    status: Status
    authority: Authority
    similarity: float


class RankedCandidate(NamedTuple):
    """A candidate and its score."""

    candidate: ScoredCandidate
    score: float


def similarities(scores: Sequence[float | None]) -> list[float]:
    """Each score as a share of the best; 1 for all where nothing ranks them."""
    best = max((score for score in scores if score is not None), default=0.0)
    return [1.0 if score is None or best <= 0 else max(0.0, min(1.0, score / best)) for score in scores]


def rank(
    candidates: Iterable[ScoredCandidate],
    actives: Mapping[str, ScoredCandidate],
    mode: SearchMode,
    limit: int,
) -> list[RankedCandidate]:
    """The best first, ties by id. `actives` has the active decision of each target that a candidate names.

    Unless in audit, each target gives one result: its active decision, with the best similarity of its candidates.
    """
    chosen = list(candidates) if mode == "audit" else _one_for_each_target(candidates, actives, mode)
    ranked = [RankedCandidate(one, score(one, mode)) for one in chosen if mode != "strict" or one.status == "active"]
    return sorted(ranked, key=lambda one: (-one.score, one.candidate.id))[:limit]


def _one_for_each_target(
    candidates: Iterable[ScoredCandidate], actives: Mapping[str, ScoredCandidate], mode: SearchMode
) -> list[ScoredCandidate]:
    best: dict[str, ScoredCandidate] = {}
    for one in candidates:
        active = actives.get(one.target)
        shown = one if active is None else active._replace(similarity=max(one.similarity, active.similarity))
        before = best.get(one.target)
        if before is None or _is_better(shown, before, mode):
            best[one.target] = shown
    return list(best.values())


def _is_better(one: ScoredCandidate, other: ScoredCandidate, mode: SearchMode) -> bool:
    """By score, then by id; of one decision with two similarities whose scores round to one, the larger."""
    left, right = score(one, mode), score(other, mode)
    return (left, other.id, one.similarity) > (right, one.id, other.similarity)


def score(one: ScoredCandidate, mode: SearchMode) -> float:
    """Rounded, so that the same state gives the same bytes."""
    penalty = 1.0 if mode == "audit" else PENALTIES.get(one.status, 1.0)
    boost = (ACTIVE_BOOST if one.status == "active" else 0.0) + (HUMAN_BOOST if one.authority == "human" else 0.0)
    return round(one.similarity * penalty + boost, PLACES)
