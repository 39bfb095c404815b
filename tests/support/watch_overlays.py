"""An overlay by definition, for watchers: entities of a server, which watches hold them, own pending edits on top.

It computes everything afresh and marks exactly what looks different. An app holds what it is told and compares it
with the query afresh over what is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any, TypeAlias

import graphs
from graphs import HERE, Entities, Naive, Stored
from stemmadb.client.nursery.entities import ABSENT, UNKNOWN, Nothing
from stemmadb.client.watching import Change, Watcher
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value, equal
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits

Edit: TypeAlias = Callable[[Value | Nothing], Value | Nothing]
"""What a pending commit does to one entity."""


def put(value: Any) -> Edit:
    return lambda _: value


def delete(_: Value | Nothing) -> Value | Nothing:
    return ABSENT


def patch(**members: Any) -> Edit:
    """Sets members of an object; anything else it does not apply to, and it is skipped."""

    def edit(beneath: Value | Nothing) -> Value | Nothing:
        return {**beneath, **members} if isinstance(beneath, dict) else beneath

    return edit


def stored(values: Mapping[EntityId, Value]) -> Entities:
    return {id_: Stored(value) for id_, value in values.items()}


class Cupboard:
    """A `Shelf` of the branch main."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self.to = Version(1)
        self.confirmed: dict[EntityId, Value] = {EntityId(id_): value for id_, value in (values or {}).items()}
        """What the server has, known here or not."""
        self.pending: dict[int, dict[EntityId, Edit]] = {}
        self.lost: set[EntityId] = set()
        """Watched, but not known until it comes again (SYNC-4)."""
        self.watchers: dict[int, Watcher] = {}
        self._unsent: dict[int, set[EntityId]] = {}
        self._answers: dict[int, set[EntityId]] = {}
        """What the server answers now, for each watch that was asked about."""
        self._names = 0

    # ------------------------------------------------------------ the overlay

    def value(self, branch: BranchName, id_: EntityId) -> Value | Nothing:
        assert branch == MAIN
        value = self._beneath(id_)
        for edits in self.pending.values():
            if id_ in edits:
                value = edits[id_](value)
        return value

    def _beneath(self, id_: EntityId) -> Value | Nothing:
        if id_ in self.lost:
            return UNKNOWN
        if any(id_ in self.members(number) for number in self.watchers):
            return self.confirmed[id_]
        covered = any(watcher.is_filled and watcher.covers(id_) for watcher in self.watchers.values())
        return ABSENT if covered else UNKNOWN

    def members(self, watch: int) -> frozenset[EntityId]:
        return frozenset(self._answer(watch) - self._unsent[watch])

    def is_layered(self, branch: BranchName) -> bool:
        assert branch == MAIN
        return any(self.pending.values())

    def under(self, branch: BranchName, prefix: str) -> Iterable[EntityId]:
        assert branch == MAIN
        return [id_ for id_ in self.ids() if id_.startswith(prefix)]

    def ids(self) -> set[EntityId]:
        """Every id that anything may be shown of."""
        return self.confirmed.keys() | {id_ for edits in self.pending.values() for id_ in edits}

    def _answer(self, number: int) -> set[EntityId]:
        if number not in self._answers:
            answer = graphs.naive(self.watchers[number].query, stored(self.confirmed))
            self._answers[number] = {EntityId(id_) for id_ in answer.entities}
        return self._answers[number]

    # ------------------------------------------------------------ what happens to it

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Marks what looks different afterwards, for each watcher."""
        values, members = self._looks(), {number: self.members(number) for number in self.watchers}
        yield
        for id_ in self._looks().keys() - values.keys():
            values[id_] = UNKNOWN
        changed = [id_ for id_, value in values.items() if not same(value, self.value(MAIN, id_))]
        for number, watcher in self.watchers.items():
            watcher.mark([*changed, *(members.get(number, frozenset()) ^ self.members(number))])

    def _looks(self) -> dict[EntityId, Value | Nothing]:
        return {id_: self.value(MAIN, id_) for id_ in self.ids()}

    def watch(self, query: Query, limits: Limits = DEFAULTS) -> Watcher:
        """A watch that is filled page by page."""
        self._names += 1
        watcher = Watcher(self._names, query, space=HERE, limits=limits)
        self.watchers[watcher.number] = watcher
        self._unsent[watcher.number] = set()
        self._unsent[watcher.number] = self._answer(watcher.number)
        return watcher

    def page(self, number: int, ids: Iterable[str] | None = None) -> None:
        """Brings these of a watch, or all; when all are there it is filled."""
        with self.changing():
            self._unsent[number] = self._unsent[number] - set(map(EntityId, ids)) if ids is not None else set()
            if not self._unsent[number]:
                self.watchers[number].fill()

    def untold(self, number: int) -> set[EntityId]:
        return self._unsent[number]

    def unwatch(self, number: int) -> None:
        with self.changing():
            del self.watchers[number]

    def reset(self) -> None:
        """Everything confirmed is forgotten and comes again."""
        with self.changing():
            for number, watcher in self.watchers.items():
                self._unsent[number] = self._answer(number)
                watcher.unfill()

    def commit(self, changes: Mapping[str, Any], *, confirms: int | None = None) -> None:
        """Others write these values, ABSENT deletes; then own work is confirmed, all in one frame."""
        with self.changing():
            for id_, value in changes.items():
                self._store(EntityId(id_), value)
            for id_, edit in self.pending.pop(confirms, {}).items() if confirms is not None else ():
                self._store(id_, edit(self.confirmed.get(id_, ABSENT)))
            self.to = Version(self.to + 1)
            self._answers.clear()
            for number in self.watchers:
                self._unsent[number] = self._unsent[number] & self._answer(number)

    def _store(self, id_: EntityId, value: Value | Nothing) -> None:
        if isinstance(value, Nothing):
            self.confirmed.pop(id_, None)
        else:
            self.confirmed[id_] = value

    def write(self, edits: Mapping[str, Edit]) -> int:
        """A pending commit; gives its name."""
        with self.changing():
            self._names += 1
            self.pending[self._names] = {EntityId(id_): edit for id_, edit in edits.items()}
        return self._names

    def confirm(self, name: int) -> None:
        self.commit({}, confirms=name)

    def reject(self, name: int) -> None:
        with self.changing():
            del self.pending[name]

    def lose(self, *ids: str) -> None:
        with self.changing():
            self.lost = set(map(EntityId, ids))

    # ------------------------------------------------------------ the oracle

    def awaits(self, number: int) -> bool:
        """Whether a member of the watch is not known."""
        return any(self.value(MAIN, id_) is UNKNOWN for id_ in self.members(number))

    def shown(self) -> dict[EntityId, Value]:
        return {id_: value for id_, value in self._looks().items() if not isinstance(value, Nothing)}

    def afresh(self, query: Query) -> Naive:
        """The query over what is shown, by definition."""
        return graphs.naive(query, stored(self.shown()))

    def served(self, number: int) -> dict[EntityId, Value]:
        """What the server says the watch holds, as it is shown."""
        shown = self.shown()
        return {id_: shown[id_] for id_ in self.members(number) if id_ in shown}


def same(left: Value | Nothing, right: Value | Nothing) -> bool:
    if isinstance(left, Nothing) or isinstance(right, Nothing):
        return left is right
    return equal(left, right)


class App:
    """Holds what it is told, and checks that it is told only what is different."""

    def __init__(self, cupboard: Cupboard, watcher: Watcher) -> None:
        self.cupboard = cupboard
        self.watcher = watcher
        self.held: dict[str, Value] | None = None
        """None until the first change."""

    def take(self) -> Change | None:
        change = self.watcher.take(self.cupboard)
        assert not self.watcher.has_news()
        if change is None:
            return None
        assert change.version == self.cupboard.to
        assert change or self.held is None, "only the first change may be empty"
        self.held = {} if self.held is None else self.held
        assert not change.entered.keys() & self.held.keys()
        assert all(not equal(self.held[id_], value) for id_, value in change.updated.items())
        assert set(change.left) <= self.held.keys()
        self.held |= change.entered | change.updated
        for id_ in change.left:
            del self.held[id_]
        return change

    def expected(self) -> dict[EntityId, Value]:
        """The query afresh over what is shown."""
        shown = self.cupboard.shown()
        return {EntityId(id_): shown[EntityId(id_)] for id_ in self.cupboard.afresh(self.watcher.query).entities}

    def compare(self, expected: dict[EntityId, Value] | None = None) -> None:
        expected = self.expected() if expected is None else expected
        assert self.held is not None
        assert self.held.keys() == expected.keys()
        assert all(equal(value, expected[EntityId(id_)]) for id_, value in self.held.items())


def watching(values: Mapping[str, Any], *roots: Root, limits: Limits = DEFAULTS) -> tuple[Cupboard, App]:
    """A filled watch of these roots, whose app was told what is there."""
    cupboard = Cupboard(values)
    app = App(cupboard, cupboard.watch(Query(roots=roots), limits))
    cupboard.page(app.watcher.number)
    app.take()
    return cupboard, app


def told(change: Change | None) -> tuple[list[str], list[str], list[str]]:
    """The ids that entered, were updated and left."""
    assert change is not None
    return list(change.entered), list(change.updated), list(change.left)


# ---------------------------------------------------------------- random ones


def random_cupboard(random: Random, count: int) -> Cupboard:
    return Cupboard({id_: one.value for id_, one in graphs.random_entities(random, count).items()})


def random_query(random: Random, count: int) -> Query:
    """Of all kinds; one in three only names whole entities."""
    query = graphs.random_query(random, count)
    if random.random() < 0.33:
        return Query(roots=tuple(Root(id=root.id) for root in query.roots))
    return query


def random_edits(random: Random, count: int) -> dict[str, Edit]:
    edits: dict[str, Edit] = {}
    for _ in range(random.choice((1, 1, 2, 3))):
        value = graphs.random_value(random, count)
        members = {key: value[key] for key in sorted(value)[:2]} if isinstance(value, dict) else {"done": True}
        edits[graphs.random_id(random, count)] = random.choice(
            (put(value), patch(**members), patch(**members), delete)
        )
    return edits


def random_commit(random: Random, count: int, cupboard: Cupboard) -> dict[str, Any]:
    changes = graphs.random_changes(random, count, stored(cupboard.confirmed))
    return {id_: ABSENT if after is None else after.value for id_, after in changes.items()}
