"""Queries with schemas, paths and links: the server's word, and our own evaluation once pending commits are shown.

While nothing pending is shown on the branch, the answer is what the server says the watch holds. As soon as something
is, the answer is the query over what is shown (WATCH-1). What a visit finds depends on the value of its entity alone,
and every visit that matches is of a member, so both are the same answer where both can be given. So the evaluator is
made when it is first needed and kept from then on: making it costs the whole answer, stepping it what changed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import NamedTuple, TypeVar

from stemmadb.client.nursery.entities import ABSENT, Nothing
from stemmadb.client.watching.answers import Observation, check_known, shown_of
from stemmadb.client.watching.overlay import WatchOverlay
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.query.query import Ask, Prepared, Supply
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.model.watch import WatchEvaluator, WatchStep

T = TypeVar("T")


class KnownEntity(NamedTuple):
    """An entity as the evaluator takes it. Its value is in memory already, so its bytes are the server's to bound."""

    value: Value
    size: int = 0


class TraversedAnswers:
    """Says what is in the answer, from whichever of the two sources counts now."""

    def __init__(self, prepared: Prepared, *, number: int, limits: Limits) -> None:
        self._prepared = prepared
        self._branch = prepared.branch
        self._number = number
        self._limits = limits
        self._watch: WatchEvaluator[KnownEntity] | None = None
        self._has_given_up = False
        """What is shown passed a bound: the server's word counts until nothing pending is shown."""

    def concerned(self, ids: Iterable[EntityId]) -> Iterable[EntityId]:
        return ids if self._watch is None else self._watch.concerns(ids)

    def look(self, overlay: WatchOverlay, marked: Iterable[EntityId]) -> Observation:
        if self._watch is not None:
            return self._step(self._watch, overlay, marked)
        if self._may_evaluate(overlay):
            return self._fill(overlay)
        members = overlay.members(self._number)
        values = {id_: overlay.value(self._branch, id_) if id_ in members else ABSENT for id_ in marked}
        return Observation(values, is_whole=False)

    def look_anew(self, overlay: WatchOverlay) -> Observation:
        self._watch = None
        return self._fill(overlay) if self._may_evaluate(overlay) else self._served(overlay)

    # ------------------------------------------------------------ the server's word

    def _served(self, overlay: WatchOverlay) -> Observation:
        return Observation(shown_of(overlay, self._branch, overlay.members(self._number)), is_whole=True)

    # ------------------------------------------------------------ our own evaluation

    def _may_evaluate(self, overlay: WatchOverlay) -> bool:
        is_layered = overlay.is_layered(self._branch)
        self._has_given_up = self._has_given_up and is_layered
        return is_layered and not self._has_given_up

    def _fill(self, overlay: WatchOverlay) -> Observation:
        watch: WatchEvaluator[KnownEntity] = WatchEvaluator(self._prepared, limits=self._limits)
        try:
            answer = self._feed(watch.fill(), overlay)
        except LimitExceeded:
            return self._give_up(overlay)
        self._watch = watch
        return Observation({id_: known.value for id_, known in answer.entities.items()}, is_whole=True)

    def _step(
        self, watch: WatchEvaluator[KnownEntity], overlay: WatchOverlay, marked: Iterable[EntityId]
    ) -> Observation:
        try:
            step: WatchStep[KnownEntity] = self._feed(watch.step(self._changes(overlay, marked)), overlay)
        except LimitExceeded:
            return self._give_up(overlay)
        values: dict[EntityId, Value | Nothing] = dict.fromkeys(step.left, ABSENT)
        values.update((id_, known.value) for id_, known in step.entered.items())
        values.update((id_, known.value) for id_, known in step.updated.items())
        return Observation(values, is_whole=False)

    def _give_up(self, overlay: WatchOverlay) -> Observation:
        self._watch = None
        self._has_given_up = overlay.is_layered(self._branch)
        return self._served(overlay)

    def _changes(self, overlay: WatchOverlay, marked: Iterable[EntityId]) -> dict[EntityId, KnownEntity | None]:
        values = ((id_, overlay.value(self._branch, id_)) for id_ in marked)
        return {id_: None if isinstance(value, Nothing) else KnownEntity(value) for id_, value in values}

    def _feed(self, walk: Generator[Ask, Supply[KnownEntity], T], overlay: WatchOverlay) -> T:
        """Runs a walk to its end, fed from what is shown."""
        try:
            ask = next(walk)
            while True:
                ask = walk.send(self._supply(overlay, ask))
        except StopIteration as end:
            result: T = end.value
            return result

    def _supply(self, overlay: WatchOverlay, ask: Ask) -> Supply[KnownEntity]:
        check_known(overlay, self._branch, self._number, ask.ids)
        shown = shown_of(overlay, self._branch, ask.ids)
        for prefix in ask.prefixes:
            shown |= shown_of(overlay, self._branch, overlay.under(self._branch, prefix))
        return {id_: KnownEntity(value) for id_, value in shown.items()}
