"""Where the answer of a watch comes from: the seam between a watcher and the two kinds of queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from stemmadb.client.nursery.entities import UNKNOWN, Nothing
from stemmadb.client.watching.overlay import WatchOverlay
from stemmadb.protocol.model.values.ids import BranchName, EntityId
from stemmadb.protocol.model.values.json_values import Value


class MemberUnknown(Exception):
    """A member of the watch is not known: it comes again, and until then any answer would be a guess (SYNC-4)."""


class Observation(NamedTuple):
    """What a look came upon."""

    values: Mapping[EntityId, Value | Nothing]
    """By id, the value of what is in the answer, and nothing for what is not."""
    is_whole: bool
    """Whether what is not among the values is not in the answer; else it is as it was at the last look."""


class WatchAnswers(Protocol):
    """The answer of one query over what is shown."""

    def concerned(self, ids: Iterable[EntityId]) -> Iterable[EntityId]:
        """Those of the ids that may matter, if they look different since the last look."""
        ...

    def look(self, overlay: WatchOverlay, marked: Iterable[EntityId]) -> Observation:
        """The answer now, where only the marked ids look different since the last look.

        After `MemberUnknown` only `look_anew` may follow.
        """
        ...

    def look_anew(self, overlay: WatchOverlay) -> Observation:
        """The whole answer now."""
        ...


def shown_of(overlay: WatchOverlay, branch: BranchName, ids: Iterable[EntityId]) -> dict[EntityId, Value]:
    """The values of those that are there; what is not known is not there."""
    shown = ((id_, overlay.value(branch, id_)) for id_ in ids)
    return {id_: value for id_, value in shown if not isinstance(value, Nothing)}


def check_known(overlay: WatchOverlay, branch: BranchName, watch: int, ids: Iterable[EntityId]) -> None:
    """`MemberUnknown` if a member of the watch is among the ids that are not known."""
    members = overlay.members(watch)
    for id_ in ids:
        if id_ in members and overlay.value(branch, id_) is UNKNOWN:
            raise MemberUnknown
