"""Outcomes of admission in words, for tests."""

from __future__ import annotations

from typing import Any

from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.admission import Accepted, RefusedCommit, Repeated

X, Y = "urn:x", "urn:y"


def refusal(outcome: object) -> errors.StemmaError:
    assert isinstance(outcome, RefusedCommit), outcome
    return outcome.error


def code(outcome: object) -> str:
    if isinstance(outcome, Accepted):
        return "accepted"
    return "repeated" if isinstance(outcome, Repeated) else refusal(outcome).code


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}
