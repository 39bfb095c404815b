"""The tools of the MCP interface: names, descriptions, and JSON Schemas of their arguments and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from stemmadb.memory.rules.decisions import RECORD_RATIONALE_MIN, SUPERSEDE_RATIONALE_MIN
from stemmadb.memory.rules.records import KINDS
from stemmadb.memory.rules.scoring import MODES

Schema = dict[str, Any]


class ToolContract(NamedTuple):
    """What a client learns of a tool."""

    description: str
    arguments: Schema
    answer: Schema
    writes: bool


def _text(description: str, **bounds: int) -> Schema:
    return {"type": "string", **bounds, "description": description}


def _object(required: list[str], properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required}


_BASE: Final[Schema] = {
    "status": {"type": "string", "enum": ["success", "error"]},
    "message": {"type": ["string", "null"]},
    "warnings": {"type": "array", "items": {"type": "string"}},
}
_ID: Final[Schema] = {"type": ["string", "null"]}
_CONSEQUENCES: Final[Schema] = {"type": "array", "items": {"type": "string"}, "default": []}
_RESULTS: Final[Schema] = {"results": {"type": "array", "items": {"type": "object"}}}


def _said(rationale_min: int) -> Schema:
    return {
        "title": _text("Short title of the decision", minLength=1),
        "target": _text("The object or area this decision applies to", minLength=1),
        "rationale": _text("Detailed explanation", minLength=rationale_min),
    }


def _answer(**more: Schema) -> Schema:
    return _object(["status"], _BASE | more)


_FOUND: Final = _answer(
    results={
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "score": {"type": "number"},
                "status": {"type": "string"},
                "preview": {"type": "string"},
                "kind": {"type": "string"},
                "authority": {"type": "string"},
            },
        },
    }
)

CONTRACTS: Final[Mapping[str, ToolContract]] = {
    "record_decision": ToolContract(
        "Records a decision about a target that has no active decision yet. If the target is taken, the answer names "
        "the active decision; replace it with supersede_decision.",
        _object(["title", "target", "rationale"], _said(RECORD_RATIONALE_MIN) | {"consequences": _CONSEQUENCES}),
        _answer(decision_id=_ID),
        writes=True,
    ),
    "supersede_decision": ToolContract(
        "Replaces the active decision of a target by a new one. old_decision_ids names exactly the active decision.",
        _object(
            ["title", "target", "rationale", "old_decision_ids"],
            _said(SUPERSEDE_RATIONALE_MIN)
            | {
                "old_decision_ids": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "consequences": _CONSEQUENCES,
            },
        ),
        _answer(decision_id=_ID),
        writes=True,
    ),
    "search_decisions": ToolContract(
        "Finds decisions and proposals by words. strict gives active decisions only, balanced one result for each "
        "target, audit everything that matches.",
        _object(
            ["query"],
            {
                "query": _text("Words to look for", minLength=1),
                "limit": {"type": "integer", "minimum": 1, "maximum": 20, "default": 5},
                "mode": {"type": "string", "enum": list(MODES), "default": "balanced"},
            },
        ),
        _FOUND,
        writes=False,
    ),
    "accept_proposal": ToolContract(
        "Makes a proposal the active decision of its target, one hour after it was proposed. Needs the role admin.",
        _object(["proposal_id"], {"proposal_id": _text("The filename of the proposal")}),
        _answer(decision_id=_ID),
        writes=True,
    ),
    "propose_decision": ToolContract(
        "Proposes a decision for a person to review. The target may have an active decision.",
        _object(
            ["title", "target", "rationale"],
            _said(RECORD_RATIONALE_MIN)
            | {
                "consequences": _CONSEQUENCES,
                "evidence": {"type": "array", "items": {"type": "string"}, "default": []},
            },
        ),
        _answer(proposal_id=_ID),
        writes=True,
    ),
    "recall": ToolContract(
        "Finds memories of every kind by words, now or as of a past version, time or tag.",
        _object(
            ["query"],
            {
                "query": _text("Words to look for", minLength=1),
                "at": _text("A version, a time such as 2026-11-16T09:00:00Z, or a tag"),
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
                "kinds": {"type": "array", "items": {"type": "string", "enum": list(KINDS)}, "default": []},
            },
        ),
        _answer(**_RESULTS, version={"type": "integer"}, now={"type": "string"}),
        writes=False,
    ),
    "history": ToolContract(
        "Shows every change of a memory or proposal: when, by whom, in which session, and what.",
        _object(["id"], {"id": _text("The id of a decision, a proposal or another memory")}),
        _answer(changes={"type": "array", "items": {"type": "object"}}),
        writes=False,
    ),
}
