"""How an update moves truth or utility: a part of the way to its target, and never far at once."""

from __future__ import annotations

from typing import Final

from stemmadb.memory.rules.lessons.requests import Adjustment

STEP_MAX: Final = 0.25
RATE: Final = 0.5
RATE_WITHOUT_EVIDENCE: Final = 0.15
"""For utility, which may come without evidence; truth never does."""
PLACES: Final = 6
UNKNOWN: Final = 0.5
"""Truth and utility of a memory that another interface wrote without them, and the utility of a new lesson."""


def adjusted(before: float, wanted: Adjustment) -> float:
    """The new value, from 0 to 1; the same as before for confidence 0.

    >>> adjusted(0.5, Adjustment(target=1.0, confidence=0.8, rationale="tests pass", evidence_refs=["run 17"]))
    0.7
    """
    has_evidence = any(ref.strip() for ref in wanted.evidence_refs)
    rate = RATE if has_evidence else RATE_WITHOUT_EVIDENCE
    step = rate * wanted.confidence * (wanted.target - before)
    return round(before + max(-STEP_MAX, min(STEP_MAX, step)), PLACES)
