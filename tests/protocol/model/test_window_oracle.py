"""Order, limit and after: queries and watches against a naive window over random graphs (QUERY-8, WATCH-4)."""

from __future__ import annotations

from functools import cmp_to_key
from random import Random
from typing import Any

import pytest

from graphs import HERE, Entities, Stored, naive, random_changes, random_entities, random_root
from stemmadb.protocol.errors import LimitExceeded, StemmaError
from stemmadb.protocol.model.query.query import Query, Root, prepare
from stemmadb.protocol.model.query.traversal import traverse
from stemmadb.protocol.model.query.window import AfterRow, OrderBy, OrderedRows, Row, after_row
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.model.watch import WatchEvaluator

KEYS = ("/n", "/title", "/done", "/nothing", "/items")
COUNT = 14
SEEDS = 120


# ---------------------------------------------------------------- the naive window


def compare_values(one: Any, other: Any) -> int:
    """The order of QUERY-8, written out; each is a list with a value, or an empty one."""
    kinds = [type(None), bool, float, str, object]

    def kind(value: Any) -> int:
        if isinstance(value, bool):
            return 1
        if isinstance(value, int | float):
            return 2
        return next((n for n, t in enumerate(kinds) if t not in (bool, float, object) and isinstance(value, t)), 4)

    first, second = kind(one), kind(other)
    if first != second:
        return -1 if first < second else 1
    if first in (1, 2, 3) and one != other:
        return -1 if one < other else 1
    return 0


def compare_rows(query: Query, one: tuple[EntityId, list[list[Any]]], other: tuple[EntityId, list[list[Any]]]) -> int:
    for by, a, b in zip(query.order, one[1], other[1], strict=True):
        is_missing = not a or not b  # what is missing comes last, either way
        found = bool(b) - bool(a) if is_missing else compare_values(a[0], b[0]) * (-1 if by.descending else 1)
        if found:
            return found
    return (one[0] > other[0]) - (one[0] < other[0])


def at_path(value: Any, path: str) -> list[Any]:
    token = path[1:]
    return [value[token]] if isinstance(value, dict) and token in value else []


NaiveRow = tuple[EntityId, list[list[Any]]]


def naive_window(query: Query, entities: Entities) -> tuple[list[EntityId], Any]:
    """The rows in the window, and the answer: the query with exactly those roots, by id."""
    matching: dict[EntityId, list[Root]] = {}
    for root in query.roots:
        for id_ in entities:
            if id_.startswith(root.id[:-1]) if root.id.endswith("*") else id_ == root.id:
                single = Root(id_, root.path, root.schema)
                if naive(Query((single,)), entities, HERE).roots:
                    matching.setdefault(id_, []).append(single)
    rows = [(id_, [at_path(entities[id_].value, by.path) for by in query.order]) for id_ in matching]

    def compare(one: NaiveRow, other: NaiveRow) -> int:
        return compare_rows(query, one, other)

    rows.sort(key=cmp_to_key(compare))
    if query.after is not None:
        last = (EntityId(query.after.id), [list(one) for one in query.after.keys])
        rows = [row for row in rows if compare_rows(query, row, last) > 0]
    chosen = [id_ for id_, _ in rows[: query.limit]]
    roots = tuple(root for id_ in chosen for root in matching[id_])
    return chosen, naive(Query(roots), entities, HERE) if roots else None


# ---------------------------------------------------------------- the real ones


def feed(walk: Any, entities: Entities) -> Any:
    try:
        ask = next(walk)
        while True:
            named = {id_: entities[id_] for id_ in ask.ids if id_ in entities}
            listed = {id_: one for id_, one in entities.items() if ask.prefixes and id_.startswith(ask.prefixes)}
            ask = walk.send(named | listed)
    except StopIteration as end:
        return end.value


def random_window(random: Random, entities: Entities) -> Query:
    order = tuple(OrderBy(random.choice(KEYS), random.random() < 0.5) for _ in range(random.choice((0, 1, 1, 2))))
    roots = tuple(random_root(random, COUNT) for _ in range(random.choice((1, 1, 2))))
    roots += (Root(random.choice(("*", "urn:even:*")), "", random.choice((None, True, {"type": "object"}))),)
    after = None
    if entities and random.random() < 0.3:
        id_ = random.choice(sorted(entities))
        after = after_row(order, id_, entities[id_].value)
    limit = random.choice((1, 2, 3, 5, None))
    return Query(roots, order=order, limit=limit if order or after else limit or 2, after=after)


def numbered(random: Random, entities: Entities) -> Entities:
    """Numbers of both kinds, so that there is something to order."""
    for id_, one in entities.items():
        if isinstance(one.value, dict) and "n" not in one.value and random.random() < 0.8:
            number: Any = random.choice([0, 1, 1.5, 2, -3, None, "x", True, [1], {"a": 1}])
            entities[id_] = Stored({**one.value, "n": number}, one.size)
    return entities


@pytest.mark.rule("QUERY-8")
@pytest.mark.parametrize("block", range(4))
def test_a_query_with_a_window_is_the_naive_one(block: int) -> None:
    for seed in range(block * SEEDS, (block + 1) * SEEDS):
        random = Random(seed)
        entities = numbered(random, random_entities(random, COUNT))
        query = random_window(random, entities)
        answer = feed(traverse(prepare(query, space=HERE)), entities)
        chosen, expected = naive_window(query, entities)
        assert list(dict.fromkeys(visit.id for visit in answer.roots)) == chosen, seed
        assert set(answer.entities) == (set(expected.entities) if expected else set()), seed
        assert answer.unresolved == (expected.unresolved if expected else frozenset()), seed


@pytest.mark.rule("QUERY-8")
def test_pages_by_after_are_the_whole_answer_in_order() -> None:
    for seed in range(60):
        random = Random(seed)
        entities = numbered(random, random_entities(random, COUNT))
        order = (OrderBy("/n", seed % 2 == 0), OrderBy("/title"))
        whole, _ = naive_window(Query((Root("*"),), order=order), entities)
        pages: list[EntityId] = []
        after: AfterRow | None = None
        while True:
            query = Query((Root("*"),), order=order, limit=3, after=after)
            found = [one.id for one in feed(traverse(prepare(query)), entities).roots]
            pages += found
            if len(found) < 3:
                break
            after = after_row(order, found[-1], entities[found[-1]].value)
        assert pages == whole


@pytest.mark.rule("WATCH-4", "WATCH-1")
@pytest.mark.parametrize("block", range(4))
def test_a_watched_window_equals_the_query_afresh_after_every_step(block: int) -> None:
    moved = 0
    for seed in range(block * SEEDS, (block + 1) * SEEDS):
        random = Random(seed)
        entities = numbered(random, random_entities(random, COUNT))
        query = random_window(random, entities)
        watch: WatchEvaluator[Stored] = WatchEvaluator(prepare(query, space=HERE))
        held = dict(feed(watch.fill(), entities).entities)
        for _ in range(12):
            changes = numbered(random, {k: v for k, v in random_changes(random, COUNT, entities).items() if v})
            gone: dict[EntityId, Any] = {k: None for k in entities if random.random() < 0.05 and k not in changes}
            entities = {k: v for k, v in (entities | changes).items() if k not in gone}
            step = feed(watch.step(changes | gone), entities)
            assert not step.entered.keys() & held.keys()
            assert step.left <= held.keys()
            assert step.updated.keys() <= held.keys()
            held = {k: v for k, v in (held | step.entered | step.updated).items() if k not in step.left}
            moved += bool(step.entered or step.left)
            _, expected = naive_window(query, entities)
            assert set(held) == (set(expected.entities) if expected else set()), seed
            assert all(held[id_].value == entities[id_].value for id_ in held), seed
            assert watch.unresolved() == (expected.unresolved if expected else frozenset()), seed
            assert watch.entities() == set(held)
    assert moved > SEEDS


@pytest.mark.rule("QUERY-8")
@pytest.mark.parametrize(
    "wrong",
    [
        {"order": tuple(OrderBy("/a") for _ in range(5))},
        {"limit": 0},
        {"limit": 1_001},
        {"limit": True},
        {"order": (OrderBy("a"),)},
        {"order": (OrderBy("/a"),), "after": AfterRow((), "urn:a")},
        {"order": (OrderBy("/a"),), "after": AfterRow(((1, 2),), "urn:a")},
        {"after": AfterRow((), "")},
    ],
)
def test_a_window_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(StemmaError) as refused:
        prepare(Query((Root("*"),), **wrong))
    assert refused.value.code in ("invalid_query", "invalid_pointer", "invalid_id")


@pytest.mark.rule("QUERY-8")
def test_the_scan_that_orders_is_bounded() -> None:
    entities = {EntityId(f"urn:e:{n}"): Stored({"n": n}) for n in range(5)}
    query = prepare(Query((Root("*"),), limit=1))
    with pytest.raises(LimitExceeded) as refused:
        feed(traverse(query, limits=Limits(ordered_entities_max=4)), entities)
    assert refused.value.facts["bound"] == "ordered_entities_max"
    assert len(feed(traverse(query, limits=Limits(query_entities_max=1)), entities).entities) == 1


@pytest.mark.rule("WATCH-4")
def test_rows_stay_in_order_through_many_changes() -> None:
    random, rows, model = Random(3), OrderedRows(), dict[EntityId, Row]()
    rows.fill([])
    for _ in range(20_000):
        id_ = EntityId(f"urn:{random.randrange(4_000)}")
        row = None if random.random() < 0.3 else Row(((False, (3, random.randrange(500))),), id_)
        rows.put(id_, row)
        model.pop(id_, None)
        if row is not None:
            model[id_] = row
    assert list(rows.first(None)) == [row.id for row in sorted(model.values())]
    assert list(rows.first(20)) == [row.id for row in sorted(model.values())][:20]
