"""How queries are written, and what they give: entities of one version, as they are or nested (QUERY-1, QUERY-7)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeGuard, cast

from msgspec.structs import replace

from stemmadb.client.reading.fetch import ReadEntity
from stemmadb.client.reading.plain import decoded
from stemmadb.protocol.errors import InvalidQuery, InvalidSchema, InvalidValue
from stemmadb.protocol.model.query import nested_result
from stemmadb.protocol.model.query.query import EVERY, Ask, Prepared, Root, Supply, TraversalResult, Unresolved
from stemmadb.protocol.model.query.traversal import traverse
from stemmadb.protocol.model.query.window import AfterRow, OrderBy, after_row
from stemmadb.protocol.model.values import body, json_values
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.json_values import INT_MAX, Value
from stemmadb.protocol.model.values.limits import Limits

Schema: TypeAlias = bool | dict[str, Any]
Selector: TypeAlias = str | Root | Iterable[str | Root]
"""An id, a prefix `urn:todo:*`, `*`, a `Root` with a path and a schema of its own, or several of these."""


class EntityPath(NamedTuple):
    """A path in an entity."""

    id: str
    path: str


def roots_of(selector: Selector, *, schema: Schema | None = None, path: str = "") -> tuple[Root, ...]:
    """The roots that a selector means; schema and path are for those that are written as text."""
    written = tuple(selector) if _are_several(selector) else (selector,)
    roots = (one if isinstance(one, Root) else Root(_text(one), path, schema) for one in written)
    return tuple(Root(root.id, root.path, _copied(root.schema)) for root in roots)


def listing_root(prefix: str) -> tuple[Root, ...]:
    """The root of a list, which is written like `urn:todo:*`."""
    listed_prefix(prefix)
    return (Root(prefix),)


def listed_prefix(prefix: str) -> str:
    """What the ids in a list begin with; `InvalidQuery` if it is not written like `urn:todo:*`."""
    if not _text(prefix).endswith(EVERY):
        raise InvalidQuery(why=f"a list takes a prefix that ends with '*', as 'urn:todo:*', and not {prefix[:80]!r}")
    return prefix.removesuffix(EVERY)


def _are_several(selector: Selector) -> TypeGuard[Iterable[str | Root]]:
    return isinstance(selector, Iterable) and not isinstance(selector, str | Root)


def _text(written: object) -> str:
    if not isinstance(written, str):
        raise InvalidQuery(why="a root is an id, a prefix that ends with '*', or a Root")
    return written


def _copied(schema: Schema | None) -> Schema | None:
    """The schema as it is now, whatever becomes of the one that was given; `InvalidSchema` if it is not JSON."""
    try:
        json_values.check(schema)
    except InvalidValue as error:
        raise InvalidSchema(**error.facts) from None
    return cast("Schema | None", decoded(body.encode(schema)))


def unbounded(limits: Limits) -> Limits:
    """For an answer that is here already, or came in pages: nothing is left to be kept small."""
    return replace(limits, query_entities_max=INT_MAX, query_bytes_max=INT_MAX)


class QueryResult(Mapping[str, Value]):
    """What a query found, all of it as of `version`:

        found = await space.query("urn:todo:*", schema={"properties": {"done": {"const": False}}})
        for id, value in found.items():
            print(id, value["title"])

    It is a mapping from id to value, and falsy if nothing was found. Its values are yours.
    """

    def __init__(
        self,
        *,
        version: Version,
        entities: Mapping[EntityId, ReadEntity],
        unresolved: Iterable[Unresolved],
        prepared: Prepared,
        limits: Limits,
        order: tuple[OrderBy, ...] = (),
    ) -> None:
        self.version = version
        self._entities = entities
        self._order = order
        self._prepared = prepared
        self._limits = unbounded(limits)
        self.entities: dict[str, Value] = {id_: entities[id_].value for id_ in self._ids()}
        """The value of everything that was found, by id; with an order the roots come first, in that order."""
        self.unresolved: tuple[EntityPath, ...] = tuple(EntityPath(one.id, one.path) for one in sorted(unresolved))
        """Links and roots that lead nowhere, whatever the reason (QUERY-5)."""

    def _ids(self) -> Iterable[EntityId]:
        if self._prepared.window is None:
            return sorted(self._entities)
        roots = dict.fromkeys(visit.id for visit in self._answer.roots)
        return (*roots, *sorted(self._entities.keys() - roots.keys()))

    @property
    def after(self) -> AfterRow | None:
        """Where the next page begins: `await space.query(..., limit=20, after=found.after)`; None on the last."""
        window = self._prepared.window
        rows = tuple(dict.fromkeys(visit.id for visit in self._answer.roots))
        if window is None or window.limit is None or len(rows) < window.limit:
            return None
        return after_row(self._order, rows[-1], decoded(self._entities[rows[-1]].body))

    @property
    def roots(self) -> tuple[EntityPath, ...]:
        """The roots that were found, in the order of the query; those of one prefix by id."""
        return tuple(EntityPath(visit.id, visit.path) for visit in self._answer.roots)

    def nested(self) -> list[Value]:
        """The value of each of `roots`, every link replaced by what it leads to (QUERY-7).

        What several links lead to is one object in it. Links that lead nowhere, or back into a cycle, stay.
        """
        fresh = {id_: one._replace(value=decoded(one.body)) for id_, one in self._entities.items()}
        answer = TraversalResult(fresh, frozenset(), self._answer.roots, self._answer.visits)
        return nested_result.assemble(answer, limits=self._limits)

    @cached_property
    def _answer(self) -> TraversalResult[ReadEntity]:
        """The walk again, over what came; the values are decoded anew, since those given away may have changed."""
        fresh = {id_: one._replace(value=decoded(one.body)) for id_, one in self._entities.items()}
        return walked(self._prepared, fresh, self._limits)

    def __getitem__(self, id_: str) -> Value:
        return self.entities[id_]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entities)

    def __len__(self) -> int:
        return len(self.entities)

    def __repr__(self) -> str:
        return f"QueryResult(version={self.version}, {self.entities!r})"


def walked(
    prepared: Prepared, entities: Mapping[EntityId, ReadEntity], limits: Limits
) -> TraversalResult[ReadEntity]:
    """The query over these entities and no others."""
    walk: Generator[Ask, Supply[ReadEntity], TraversalResult[ReadEntity]] = traverse(prepared, limits=limits)
    next(walk)
    while True:
        try:
            walk.send(entities)
        except StopIteration as end:
            answer: TraversalResult[ReadEntity] = end.value
            return answer
