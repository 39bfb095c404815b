"""Queries with schemas, paths and links: the server's word, and our own evaluation once pending commits are shown.

While nothing pending is shown on the branch, the answer is what the server says the watch holds. As soon as something
is, the answer is the query over what is shown (WATCH-1). What a visit finds depends on the value of its entity alone,
and every visit that matches is of a member, so both are the same answer where both can be given. So the evaluator is
made when it is first needed and kept from then on: making it costs the whole answer, stepping it what changed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import NamedTuple, TypeVar

from stemmadb.client.nursery.held import ABSENT, Nothing
from stemmadb.client.watching.answers import Seen, check_known, shown_of
from stemmadb.client.watching.shelf import Shelf
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.model.query import Ask, Prepared, Supply
from stemmadb.protocol.model.values import Value
from stemmadb.protocol.model.watching import Step, Watch

T = TypeVar("T")


class Known(NamedTuple):
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
        self._watch: Watch[Known] | None = None
        self._has_given_up = False
        """What is shown passed a bound: the server's word counts until nothing pending is shown."""

    def concerned(self, ids: Iterable[EntityId]) -> Iterable[EntityId]:
        return ids if self._watch is None else self._watch.concerns(ids)

    def look(self, shelf: Shelf, marked: Iterable[EntityId]) -> Seen:
        if self._watch is not None:
            return self._step(self._watch, shelf, marked)
        if self._may_evaluate(shelf):
            return self._fill(shelf)
        members = shelf.members(self._number)
        values = {id_: shelf.value(self._branch, id_) if id_ in members else ABSENT for id_ in marked}
        return Seen(values, is_whole=False)

    def look_anew(self, shelf: Shelf) -> Seen:
        self._watch = None
        return self._fill(shelf) if self._may_evaluate(shelf) else self._served(shelf)

    # ------------------------------------------------------------ the server's word

    def _served(self, shelf: Shelf) -> Seen:
        return Seen(shown_of(shelf, self._branch, shelf.members(self._number)), is_whole=True)

    # ------------------------------------------------------------ our own evaluation

    def _may_evaluate(self, shelf: Shelf) -> bool:
        is_layered = shelf.is_layered(self._branch)
        self._has_given_up = self._has_given_up and is_layered
        return is_layered and not self._has_given_up

    def _fill(self, shelf: Shelf) -> Seen:
        watch: Watch[Known] = Watch(self._prepared, limits=self._limits)
        try:
            answer = self._feed(watch.fill(), shelf)
        except LimitExceeded:
            return self._give_up(shelf)
        self._watch = watch
        return Seen({id_: known.value for id_, known in answer.entities.items()}, is_whole=True)

    def _step(self, watch: Watch[Known], shelf: Shelf, marked: Iterable[EntityId]) -> Seen:
        try:
            step: Step[Known] = self._feed(watch.step(self._changes(shelf, marked)), shelf)
        except LimitExceeded:
            return self._give_up(shelf)
        values: dict[EntityId, Value | Nothing] = dict.fromkeys(step.left, ABSENT)
        values.update((id_, known.value) for id_, known in step.entered.items())
        values.update((id_, known.value) for id_, known in step.updated.items())
        return Seen(values, is_whole=False)

    def _give_up(self, shelf: Shelf) -> Seen:
        self._watch = None
        self._has_given_up = shelf.is_layered(self._branch)
        return self._served(shelf)

    def _changes(self, shelf: Shelf, marked: Iterable[EntityId]) -> dict[EntityId, Known | None]:
        values = ((id_, shelf.value(self._branch, id_)) for id_ in marked)
        return {id_: None if isinstance(value, Nothing) else Known(value) for id_, value in values}

    def _feed(self, walk: Generator[Ask, Supply[Known], T], shelf: Shelf) -> T:
        """Runs a walk to its end, fed from what is shown."""
        try:
            ask = next(walk)
            while True:
                ask = walk.send(self._supply(shelf, ask))
        except StopIteration as end:
            result: T = end.value
            return result

    def _supply(self, shelf: Shelf, ask: Ask) -> Supply[Known]:
        check_known(shelf, self._branch, self._number, ask.ids)
        shown = shown_of(shelf, self._branch, ask.ids)
        for prefix in ask.prefixes:
            shown |= shown_of(shelf, self._branch, shelf.under(self._branch, prefix))
        return {id_: Known(value) for id_, value in shown.items()}
