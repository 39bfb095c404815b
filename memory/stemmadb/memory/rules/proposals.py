"""Proposals: decisions that wait for a person. Nobody accepts one before its review window of one hour is over (PI1).

The window begins with the commit that wrote what is proposed, by the time of the log. Dates that a caller gives never
count. If this memory server saw the proposal come, its monotonic clock must have passed the hour as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any, Final, Literal, NamedTuple

import msgspec

from stemmadb.memory.rules.decisions import DecisionDraft
from stemmadb.memory.rules.ids import MemoryId, read_memory_id
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.records import Authority
from stemmadb.memory.rules.refusals import AlreadyReviewed, NotEnoughEvidence, ReviewWindow

REVIEW_MS: Final = 3_600_000
FILE_ENDING: Final = ".md"
_SAID: Final = ("/title", "/target", "/rationale", "/consequences")
"""A change of one of these begins the window anew."""


class DecisionProposal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of `urn:proposal:<nsh>:<uuid>`."""

    v: Literal[1] = 1
    ns: str
    title: str
    target: str
    rationale: str
    consequences: list[str] = msgspec.field(default_factory=list)
    status: Literal["draft", "accepted", "rejected"] = "draft"
    author_kind: Authority = "agent"
    evidence: list[str] = msgspec.field(default_factory=list)
    converted_to: str | None = None
    """The decision that it became."""
    created_at: Millis

    @property
    def draft(self) -> DecisionDraft:
        return DecisionDraft(self.title, self.target, self.rationale, self.consequences)


class ProposalChange(NamedTuple):
    """A commit that wrote the proposal: when, and the paths that it changed; None where it set all of it."""

    time: Millis
    paths: Iterable[str] | None = None


def window_begin(changes: Iterable[ProposalChange]) -> Millis | None:
    """When what is proposed was written last; None if nothing is known of it."""
    times = [one.time for one in changes if one.paths is None or any(path.startswith(_SAID) for path in one.paths)]
    return max(times, default=None)


def check_window(begin: Millis, now: Millis, seen_seconds: float | None = None) -> None:
    """`ReviewWindow` with the seconds left. `seen_seconds`: how long this memory server has known the proposal."""
    left = begin + REVIEW_MS - now
    if seen_seconds is not None:
        left = max(left, ceil((REVIEW_MS / 1_000 - seen_seconds) * 1_000))
    if left > 0:
        raise ReviewWindow(ceil(left / 1_000))


def check_evidence(proposal: DecisionProposal, wanted: int) -> None:
    """`NotEnoughEvidence` if it has fewer different pieces that are not blank."""
    has = len({one.strip() for one in proposal.evidence if one.strip()})
    if has < wanted:
        raise NotEnoughEvidence(has, wanted)


def check_open(proposal: DecisionProposal, uuid: str) -> None:
    """`AlreadyReviewed` if somebody accepted or rejected it."""
    if proposal.status != "draft":
        raise AlreadyReviewed(uuid, proposal.status, proposal.converted_to)


def read_proposal_id(text: object) -> MemoryId:
    """`<uuid>.md`, the name of its file, or the bare uuid."""
    return read_memory_id(text.removesuffix(FILE_ENDING) if isinstance(text, str) else text, "proposal_id")


def proposal_of(value: object) -> DecisionProposal | None:
    """The proposal that a stored value is; None for what somebody else wrote under such an id."""
    if not isinstance(value, Mapping):
        return None
    try:
        return msgspec.convert(value, DecisionProposal)
    except msgspec.ValidationError:
        return None


def change_of(time: Millis, patch: Any) -> ProposalChange:
    """The change that an entry of the history is."""
    if not isinstance(patch, list | tuple):
        return ProposalChange(time)
    return ProposalChange(time, [str(one.get("path", "")) for one in patch])
