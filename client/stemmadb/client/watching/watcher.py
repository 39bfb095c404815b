"""One watch on the client: what was published to the app, and the next change (NURSERY-4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stemmadb.client.nursery.entities import Nothing
from stemmadb.client.watching.answers import MemberUnknown, Observation, WatchAnswers, check_known
from stemmadb.client.watching.change import Change, copied
from stemmadb.client.watching.overlay import WatchOverlay
from stemmadb.client.watching.plain import PlainAnswers, QueryCoverage, selects_by_id
from stemmadb.client.watching.traversed import TraversedAnswers
from stemmadb.protocol.errors import InvalidQuery, StemmaError
from stemmadb.protocol.model.query.query import Prepared, Query, prepare
from stemmadb.protocol.model.values.ids import Did, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value, equal
from stemmadb.protocol.model.values.limits import Limits

MARKS_MAX: Final = 10_000
"""Ids that are remembered as changed while the app is slow; past that, everything is looked at anew."""


class Watcher:
    """Turns what is shown into the visible changes of one query, each told once.

    There is no queue. It remembers what it published and which ids may look different since; `take` compares. However
    slow an app is, one change takes it from what was published last to what is shown now.
    """

    def __init__(self, number: int, query: Query, *, space: Did, limits: Limits) -> None:
        """`InvalidQuery`, or the error of the part that is wrong, if the query cannot be watched."""
        prepared = prepare(query, limits=limits, space=space)
        if not prepared.at_head():
            raise InvalidQuery(why="only a query at the head can be watched, not one at a version or a time")
        self.number = number
        self.query = query
        self.branch = prepared.branch
        self.window = prepared.window
        self.coverage = QueryCoverage(prepared)
        """What it names without a schema: if it is filled and does not hold one of these, that one is not there."""
        self._answers = self._answers_to(prepared, limits)
        self._published: dict[EntityId, Value] = {}
        """What the app was told last, by reference: what is shown is never changed in place."""
        self._marked: dict[EntityId, None] = {}
        self._is_anew = True
        """Anything may look different: what is marked is not remembered."""
        self._is_held_back = False
        """A member is not known: nothing is told until something changes about that (SYNC-4)."""
        self._is_filled = False
        self._has_begun = False
        self._error: StemmaError | None = None

    def _answers_to(self, prepared: Prepared, limits: Limits) -> WatchAnswers:
        if prepared.window is None and all(map(selects_by_id, prepared.starts)):
            return PlainAnswers(self.coverage, prepared.branch)
        return TraversedAnswers(prepared, number=self.number, limits=limits)

    # ------------------------------------------------------------ what the nursery says

    @property
    def is_filled(self) -> bool:
        """Whether the server has sent all of it: it is shown from here on (SYNC-7)."""
        return self._is_filled and self._error is None

    @property
    def error(self) -> StemmaError | None:
        """Why the watch is over, if it is."""
        return self._error

    def mark(self, ids: Iterable[EntityId]) -> None:
        """These may look different now: shown otherwise, known or forgotten, or in or out of the members.

        To be called for every such change on the branch, whichever watch or pending commit it came through.
        """
        self._is_held_back = False
        if self._is_anew:
            return
        self._marked.update(dict.fromkeys(self._answers.concerned(ids)))
        if len(self._marked) > MARKS_MAX:
            self._look_anew()

    def fill(self) -> None:
        """The server has sent all of it (SYNC-7)."""
        self._is_filled = True

    def unfill(self) -> None:
        """The server sends all of it again. What was told is kept: once filled, only the difference is told."""
        self._is_filled = self._is_held_back = False
        self._look_anew()

    def end(self, error: StemmaError) -> None:
        """The watch is over: its entities are no longer kept up to date, so nothing more is published."""
        self._error = error
        self._look_anew()
        self._published = {}

    def covers(self, id_: EntityId) -> bool:
        """Whether an entity that the filled watch does not hold is known not to be there."""
        return self.coverage.has(id_)

    def _look_anew(self) -> None:
        self._is_anew = True
        self._marked = {}

    # ------------------------------------------------------------ what the app is told

    def has_news(self) -> bool:
        """Whether `take` might give a change."""
        return self.is_filled and not self._is_held_back and (self._is_anew or bool(self._marked))

    def take(self, overlay: WatchOverlay) -> Change | None:
        """The change from what was published last to what is shown now; None if both look the same.

        The first one brings what is there, also if that is nothing.
        """
        if not self.has_news():
            return None
        try:
            seen = self._look(overlay)
        except MemberUnknown:
            self._look_anew()
            self._is_held_back = True
            return None
        change = self._publish(seen, overlay.to)
        is_first, self._has_begun = not self._has_begun, True
        return change if change or is_first else None

    def _look(self, overlay: WatchOverlay) -> Observation:
        doubtful = overlay.members(self.number) if self._is_anew else self._marked
        check_known(overlay, self.branch, self.number, doubtful)
        seen = self._answers.look_anew(overlay) if self._is_anew else self._answers.look(overlay, self._marked)
        self._is_anew = False
        self._marked = {}
        return seen

    def _publish(self, seen: Observation, version: Version) -> Change:
        """The difference between what was published and what is shown now, which becomes what was published."""
        entered: dict[EntityId, Value] = {}
        updated: dict[EntityId, Value] = {}
        left = [id_ for id_ in self._published if id_ not in seen.values] if seen.is_whole else []
        for id_, value in seen.values.items():
            if isinstance(value, Nothing):
                if id_ in self._published:
                    left.append(id_)
                continue
            if id_ not in self._published:
                entered[id_] = value
            elif not equal(self._published[id_], value):
                updated[id_] = value
            self._published[id_] = value  # also if it is equal, so that the one before can go
        for id_ in left:
            del self._published[id_]
        return Change(version, copied(entered), copied(updated), tuple(sorted(left)))
