"""An answer in which links are replaced by what they lead to (QUERY-7): the walk again, over what was found."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from stemmadb.protocol.model.query import nested_result, query
from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.query.traversal import traverse
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import Did, EntityId
from stemmadb.protocol.model.values.json_values import INT_MAX, Value
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.reading import QueryAnswer


class FoundEntity(NamedTuple):
    """An entity of an answer, as the walk takes it."""

    value: Value
    size: int


def nested(asked: Query, answer: QueryAnswer, *, space: Did, limits: Limits) -> list[Value]:
    """The value of each root of the query, every link replaced."""
    bounds = replace(limits, query_entities_max=INT_MAX, query_bytes_max=INT_MAX)
    prepared = query.prepare(asked, limits=bounds, space=space)
    found = {
        EntityId(one.id): FoundEntity(body.read_stored(records.whole_body(one)), len(records.whole_body(one)))
        for one in answer.entities
    }
    return nested_result.assemble(_walked(prepared, found, bounds), limits=bounds)


def _walked(prepared: query.Prepared, found: Mapping[EntityId, FoundEntity], limits: Limits) -> Any:
    walk: Generator[Any, Any, Any] = traverse(prepared, limits=limits)
    next(walk)
    while True:
        try:
            walk.send(found)
        except StopIteration as end:
            return end.value
