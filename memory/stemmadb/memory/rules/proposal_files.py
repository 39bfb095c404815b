"""A proposal as a Markdown file `<uuid>.md`, for people to read, edit and give back.

The head holds one JSON value a line; the body is the rationale. What is in the head of a file says nothing about the
review window.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from stemmadb.memory.rules import instants
from stemmadb.memory.rules.proposals import DecisionProposal
from stemmadb.memory.rules.refusals import InvalidRequest

FENCE: Final = "---"
FIELDS: Final = ("title", "target", "consequences", "evidence", "created_at")


def written(proposal: DecisionProposal) -> str:
    """The text of its file."""
    head: Mapping[str, Any] = {
        "title": proposal.title,
        "target": proposal.target,
        "status": proposal.status,
        "author_kind": proposal.author_kind,
        "consequences": proposal.consequences,
        "evidence": proposal.evidence,
        "created_at": instants.write(proposal.created_at),
    }
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in head.items()]
    return "\n".join([FENCE, *lines, FENCE, "", proposal.rationale, ""])


def read(text: str) -> dict[str, Any]:
    """Title, target, rationale, consequences, evidence and created_at, unchecked; `InvalidRequest` without a head."""
    first, _, rest = text.lstrip("\ufeff").replace("\r\n", "\n").partition("\n")
    head, fence, body = rest.partition(f"\n{FENCE}\n")
    if first.strip() != FENCE or not fence:
        raise InvalidRequest("The file has no head between two lines of ---.")
    found: dict[str, Any] = {"rationale": body.strip("\n")}
    for line in filter(str.strip, head.split("\n")):
        name, colon, value = line.partition(":")
        if not colon:
            raise InvalidRequest(f"{line!r} is no line of a head. Write NAME: VALUE.")
        if name.strip() in FIELDS:
            found[name.strip()] = _value(value.strip())
    return found


def _value(text: str) -> Any:
    """JSON, or the text as it is: people leave out quotes."""
    try:
        return json.loads(text)
    except ValueError:
        return text
