"""Random graphs of entities, and queries answered by a page of obvious code: the oracle of traversal and watches."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeVar

from stemmadb.protocol.errors import InvalidPointer
from stemmadb.protocol.model import schema
from stemmadb.protocol.model.query.query import Ask, Query, Root, TraversalResult, Unresolved, VisitResult, prepare
from stemmadb.protocol.model.query.traversal import traverse
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import Did, EntityId
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits

HERE = Did("did:key:zHere")
ELSEWHERE = Did("did:key:zElsewhere")
VISITS_PER_ENTITY = 10
R = TypeVar("R")


@dataclass(frozen=True)
class Stored:
    """An entity as a store gives it, with an extra (`version`) that must come through untouched."""

    value: Value
    size: int = 10
    version: int = 1


Entities = dict[EntityId, Stored]


def stored(values: Mapping[str, Any]) -> Entities:
    return {EntityId(id_): Stored(value) for id_, value in values.items()}


def link(id_: str, **members: Any) -> dict[str, Any]:
    return {"/": {"link@1": {"id": id_, **members}}}


def feed(
    running: Generator[Ask, Mapping[EntityId, Stored], R], entities: Entities, asked: list[Ask] | None = None
) -> tuple[R, list[Ask]]:
    """Answers every `Ask` from the entities; gives the result and what was asked."""
    asked = [] if asked is None else asked
    try:
        ask = next(running)
        while True:
            asked.append(ask)
            ask = running.send(
                {i: e for i, e in entities.items() if i in ask.ids or any(i.startswith(p) for p in ask.prefixes)}
            )
    except StopIteration as end:
        return end.value, asked


def run(entities: Entities, *roots: Root, limits: Limits = DEFAULTS) -> tuple[TraversalResult[Stored], list[Ask]]:
    """The answer of the query with these roots, and what it asked for."""
    return feed(traverse(prepare(Query(roots=roots), space=HERE), limits=limits), entities)


def ask(values: Mapping[str, Any], *roots: Root, limits: Limits = DEFAULTS) -> TraversalResult[Stored]:
    return run(stored(values), *roots, limits=limits)[0]


def chain(length: int) -> dict[str, Any]:
    """Entities urn:c:0 to urn:c:<length>, each with a link to the next."""
    values: dict[str, Any] = {f"urn:c:{n}": {"next": link(f"urn:c:{n + 1}")} for n in range(length)}
    return {**values, f"urn:c:{length}": {}}


# ---------------------------------------------------------------- the oracle


class Seen(NamedTuple):
    id: str
    path: str
    conjuncts: Any


@dataclass
class Naive:
    """The answer by definition: distances of all visits, and which of them matched, with their links."""

    distance: dict[Seen, int]
    roots: list[Seen]
    links: dict[Seen, list[tuple[tuple[str, ...], Seen]]]
    unresolved: set[Unresolved]
    bytes: int = 0

    @property
    def entities(self) -> set[str]:
        return {seen.id for seen in self.links}


def naive(query: Query, entities: Entities, space: Did | None = HERE) -> Naive:
    """Visits everything by recursion, again whenever it is reached by a shorter way."""
    answer = Naive({}, [], {}, set())
    for root in query.roots:
        conjuncts = None if root.schema is None else frozenset([schema.compile(root.schema)])
        conjuncts = conjuncts if conjuncts is None else schema.narrow(schema.EVERYTHING, conjuncts)
        if root.id.endswith("*"):
            candidates = sorted(i for i in entities if i.startswith(root.id[:-1]))
            candidates = [i for i in candidates if _links(Seen(i, root.path, conjuncts), entities) is not None]
        else:
            candidates = [EntityId(root.id)]
        for id_ in candidates:
            seen = Seen(id_, root.path, conjuncts)
            _visit(seen, 0, answer, entities, space)
            if seen in answer.links and seen not in answer.roots:
                answer.roots.append(seen)
    answer.bytes = sum(entities[EntityId(i)].size for i in answer.entities)
    return answer


def _visit(seen: Seen, distance: int, answer: Naive, entities: Entities, space: Did | None) -> None:
    if answer.distance.get(seen, 1_000_000) <= distance:
        return
    answer.distance[seen] = distance
    if _value(seen, entities) == []:
        answer.unresolved.add(Unresolved(seen.id, seen.path))
    if seen in answer.links:  # met before, by a longer way
        for _, target in answer.links[seen]:
            _visit(target, distance + 1, answer, entities, space)
        return
    reached = _links(seen, entities)
    if reached is None:
        return
    answer.links[seen] = []
    for place, found, conjuncts in reached:
        if isinstance(found, schema.BrokenLink):
            answer.unresolved.add(Unresolved(seen.id, seen.path + pointer.write(place)))
        elif found.space not in (None, space):
            answer.unresolved.add(Unresolved(found.id, found.path))
        else:
            target = Seen(found.id, found.path, conjuncts)
            answer.links[seen].append((place, target))
            _visit(target, distance + 1, answer, entities, space)


def _links(seen: Seen, entities: Entities) -> list[tuple[tuple[str, ...], Any, Any]] | None:
    """The links of a visit that matches; None if it does not."""
    for value in _value(seen, entities):
        if seen.conjuncts is None:
            return []
        if schema.selects(seen.conjuncts, value):
            return [(one.path, one.link, one.conjuncts) for one in schema.reach(seen.conjuncts, value)]
    return None


def _value(seen: Seen, entities: Entities) -> list[Any]:
    """The value at the path, in a list that is empty where there is none."""
    if seen.id not in entities:
        return []
    value: Any = entities[EntityId(seen.id)].value
    try:
        for token in pointer.parse(seen.path):
            if isinstance(value, list):
                value = {str(index): item for index, item in enumerate(value)}
            value = value[token]
    except (InvalidPointer, LookupError, TypeError):
        return []
    return [value]


def exceeded(answer: Naive, limits: Limits) -> set[str]:
    """The names of the bounds that the answer passes."""
    found = {
        "query_depth_max": max(answer.distance.values(), default=0) > limits.query_depth_max,
        "query_entities_max": len(answer.entities) > limits.query_entities_max,
        "query_bytes_max": answer.bytes > limits.query_bytes_max,
        "query_visits_max": len(answer.distance) > VISITS_PER_ENTITY * limits.query_entities_max,
    }
    return {name for name, is_past in found.items() if is_past}


def naive_assembled(answer: Naive, entities: Entities) -> list[Value]:
    """Nested by the rule of QUERY-7, by recursion, sharing nothing."""
    return [_nested(root, root, answer, entities) for root in answer.roots]


def _nested(seen: Seen, entry: Seen, answer: Naive, entities: Entities) -> Any:
    (value,) = _value(seen, entities)
    away = _distances(entry, answer)
    replaced: set[tuple[str, ...]] = set()
    for place, target in answer.links[seen]:
        if target not in answer.links or place in replaced:
            continue
        replaced.add(place)
        if seen not in _distances(target, answer):
            value = _with(value, place, _nested(target, target, answer, entities))
        elif away[target] == away[seen] + 1:
            value = _with(value, place, _nested(target, entry, answer, entities))
    return value


def _distances(start: Seen, answer: Naive) -> dict[Seen, int]:
    distances = {start: 0}
    for seen in (order := [start]):
        for _, target in answer.links[seen]:
            if target in answer.links and target not in distances:
                distances[target] = distances[seen] + 1
                order.append(target)
    return distances


def _with(value: Any, place: tuple[str, ...], part: Any) -> Any:
    if not place:
        return part
    if isinstance(value, list):
        return [_with(v, place[1:], part) if str(i) == place[0] else v for i, v in enumerate(value)]
    return {k: _with(v, place[1:], part) if k == place[0] else v for k, v in value.items()}


# ---------------------------------------------------------------- random graphs, queries and commits

OPEN: dict[str, Any] = {"properties": {"done": {"const": False}}, "required": ["done"], "additionalProperties": True}
OPEN_ALONE: dict[str, Any] = {"properties": {"done": {"const": False}}, "required": ["done"]}
REFERENCES: dict[str, Any] = {
    "properties": {"ref": {"type": "string", "x-entity-reference": True}},
    "additionalProperties": True,
}
SCHEMAS: tuple[bool | dict[str, Any], ...] = (
    True,
    {},
    False,
    OPEN,
    OPEN_ALONE,
    REFERENCES,
    {"type": "object"},
    {"properties": {"items": False}, "additionalProperties": True},
    {"properties": {"next": OPEN, "ref": {"x-entity-reference": True}}, "additionalProperties": False},
    {"properties": {"next": {"properties": {"next": OPEN}}, "items": {"items": {"type": "object"}}}},
    {"properties": {"next": {"additionalProperties": {"$ref": "#"}}, "other": OPEN}, "minProperties": 2},
    {"anyOf": [{"required": ["next"]}, {"properties": {"items": {"items": OPEN}}, "required": ["items"]}]},
    {"oneOf": [OPEN, {"required": ["next"]}], "type": ["object", "array"]},
    {"allOf": [{"properties": {"next": OPEN}}, {"properties": {"next": {"required": ["title"]}}}]},
    {"not": {"required": ["stop"]}},
    {
        "$defs": {
            "node": {
                "properties": {
                    "next": {"$ref": "#/$defs/node"},
                    "ref": {"x-entity-reference": True, "$ref": "#/$defs/node"},
                    "items": {"items": {"$ref": "#/$defs/node"}},
                },
                "not": {"required": ["stop"]},
            }
        },
        "$ref": "#/$defs/node",
    },
)
PATHS = ("", "", "", "", "", "/next", "/items", "/items/0", "/deep", "/nowhere", "/items/01")


def random_id(random: Random, count: int) -> EntityId:
    number = random.randrange(count)
    return EntityId(f"urn:{'even' if number % 2 == 0 else 'odd'}:{number}")


def random_link(random: Random, count: int) -> dict[str, Any]:
    members: dict[str, Any] = {}
    if random.random() < 0.2:
        members["path"] = random.choice(PATHS)
    if random.random() < 0.15:
        members["schema"] = random.choice(SCHEMAS)
    if random.random() < 0.1:
        members["space"] = random.choice((HERE, ELSEWHERE))
    if random.random() < 0.03:
        members["path"] = "not a pointer"
    return link(random_id(random, count), **members)


def random_value(random: Random, count: int) -> Any:
    if random.random() < 0.05:
        return random.choice([None, 1, "text", [], random_link(random, count), [random_link(random, count)]])
    value: dict[str, Any] = {"title": random.choice("abc"), "done": random.random() < 0.4}
    for key in ("next", "other"):
        if random.random() < 0.5:
            value[key] = random_link(random, count)
    if random.random() < 0.4:
        value["items"] = [random_link(random, count) for _ in range(random.randrange(4))]
    if random.random() < 0.4:
        value["ref"] = random.choice([random_id(random, count), random_id(random, count), "no id"])
    if random.random() < 0.2:
        value["deep"] = {"next": random_link(random, count), "more": [{"next": random_link(random, count)}]}
    if random.random() < 0.1:
        value["stop"] = True
    return value


def random_entities(random: Random, count: int) -> Entities:
    ids = [random_id(random, count) for _ in range(random.randrange(count, count * 2))]
    return {id_: Stored(random_value(random, count), size=random.randrange(1, 30)) for id_ in ids}


def random_root(random: Random, count: int) -> Root:
    named = random_id(random, count)
    id_ = random.choice([named, named, named, "*", "urn:even:*", "urn:odd:*", "urn:even:1*"])
    written = None if random.random() < 0.05 else True if random.random() < 0.3 else random.choice(SCHEMAS)
    return Root(id=id_, path=random.choice(PATHS) if random.random() < 0.2 else "", schema=written)


def random_query(random: Random, count: int) -> Query:
    return Query(roots=tuple(random_root(random, count) for _ in range(random.choice((1, 1, 2, 3)))))


def random_changes(random: Random, count: int, entities: Entities) -> dict[EntityId, Stored | None]:
    """The entities that a commit changes: written, edited in one place, or deleted."""
    changes: dict[EntityId, Stored | None] = {}
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        id_ = random_id(random, count)
        changes[id_] = _changed(random, count, entities.get(id_))
    return {id_: after for id_, after in changes.items() if after is not None or id_ in entities}


def _changed(random: Random, count: int, before: Stored | None) -> Stored | None:
    if before is not None and random.random() < 0.25:
        return None
    value = random_value(random, count)
    if before is not None and isinstance(before.value, dict) and isinstance(value, dict) and random.random() < 0.6:
        key = random.choice(sorted(value))
        value = {**before.value, key: value[key]}
    return Stored(value, size=random.randrange(1, 30), version=0 if before is None else before.version + 1)


def random_limits(random: Random) -> Limits:
    """Mostly the defaults; else bounds so low that they are passed now and then."""
    if random.random() < 0.7:
        return DEFAULTS
    return Limits(
        query_depth_max=random.choice((0, 1, 2, 3, 4, 64)),
        query_entities_max=random.choice((1, 3, 5, 8, 1000)),
        query_bytes_max=random.choice((20, 60, 100, 10_000)),
    )


def unmatched(answer: TraversalResult[Any]) -> frozenset[EntityId]:
    """The ids that were looked at by id or through a link, exist, and are not in the answer."""
    looked_at = {visit.id for visit, outcome in answer.visits.items() if outcome.found is VisitResult.UNMATCHED}
    return frozenset(looked_at - answer.entities.keys())
