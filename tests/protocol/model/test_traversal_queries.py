"""Queries as users write them: what is compiled and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stemmadb.protocol.errors import (
    InvalidId,
    InvalidName,
    InvalidPointer,
    InvalidQuery,
    InvalidSchema,
    LimitExceeded,
    StemmaError,
)
from stemmadb.protocol.model.query.query import ListedPrefix, Query, Root, Visit, listed, prepare
from stemmadb.protocol.model.values.limits import Limits


@pytest.mark.rule("QUERY-1")
def test_a_query_comes_back_from_the_wire_as_it_was() -> None:
    query = Query(roots=(Root("urn:todo:*", "/a", {"type": "object"}), Root("urn:x:1", schema=True)), version=7)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(query), type=Query) == query
    assert msgspec.json.decode(msgspec.json.encode(query), type=Query) == query


@pytest.mark.rule("QUERY-1")
def test_roots_are_ids_prefixes_and_the_star() -> None:
    prepared = prepare(Query(roots=(Root("urn:a:1"), Root("urn:b:*"), Root("*", "/x"))))
    assert prepared.named() == (Visit("urn:a:1", "", None),)  # type: ignore[arg-type]
    assert prepared.listings() == (ListedPrefix(("urn:b:",), "", None), ListedPrefix(("",), "/x", None))
    assert prepared.at_head()


@pytest.mark.rule("QUERY-1")
def test_only_the_fewest_prefixes_are_asked_for() -> None:
    texts = ("urn:b:*", "urn:a:1*", "urn:a:*", "urn:b:*", "urn:a:2:3*", "urn:bc*")
    prepared = prepare(Query(roots=tuple(Root(text) for text in texts)))
    assert prepared.prefixes() == ("urn:a:", "urn:b:", "urn:bc")
    assert [visit.id for visit in listed(prepared.listings(), "urn:a:17")] == ["urn:a:17"]  # type: ignore[arg-type]
    assert prepare(Query(roots=(Root("urn:b:*"), Root("*")))).prefixes() == ("",)


@pytest.mark.rule("QUERY-1", "WATCH-2")
def test_equal_queries_are_equal_and_hash_alike_once_prepared() -> None:
    def written(maximum: int) -> Query:
        return Query(roots=(Root("urn:a:*", "/x", {"properties": {"n": {"maximum": maximum}}}),))

    assert prepare(written(1)) == prepare(written(1))
    assert hash(prepare(written(1))) == hash(prepare(written(1)))
    others = [
        prepare(written(2)),
        prepare(msgspec.structs.replace(written(1), branch="draft")),
        prepare(msgspec.structs.replace(written(1), version=3)),
        prepare(msgspec.structs.replace(written(1), time=3)),
    ]
    assert len({prepare(written(1)), *others}) == 5


BAD: list[tuple[Any, type[StemmaError]]] = [
    (Query(roots=()), InvalidQuery),
    (Query(roots=None), InvalidQuery),  # type: ignore[arg-type]
    (Query(roots=("urn:a:1",)), InvalidQuery),  # type: ignore[arg-type]
    (Query(roots=(Root(1),)), InvalidQuery),  # type: ignore[arg-type]
    (Query(roots=(Root("urn:a:1", 2),)), InvalidQuery),  # type: ignore[arg-type]
    (Query(roots=(Root("urn:a:1"),), branch=5), InvalidQuery),  # type: ignore[arg-type]
    (Query(roots=(Root("urn:a:1"),), branch="a b"), InvalidName),
    (Query(roots=(Root("urn:a:1"),), version=1, time=2), InvalidQuery),
    (Query(roots=(Root("urn:a:1"),), version=-1), InvalidQuery),
    (Query(roots=(Root("urn:a:1"),), version=True), InvalidQuery),
    (Query(roots=(Root("urn:a:1"),), time=1.5), InvalidQuery),  # type: ignore[arg-type]
    (Query(roots=(Root("no-scheme"),)), InvalidId),
    (Query(roots=(Root(""),)), InvalidId),
    (Query(roots=(Root("urn:a b*"),)), InvalidId),
    (Query(roots=(Root("urn:" + "a" * 600),)), InvalidId),
    (Query(roots=(Root("urn:" + "a" * 600 + "*"),)), InvalidId),
    (Query(roots=(Root("urn:a:1", "x"),)), InvalidPointer),
    (Query(roots=(Root("urn:a:1", "/~2"),)), InvalidPointer),
    (Query(roots=(Root("urn:a:1", "", {"frobnicate": 1}),)), InvalidSchema),
    (Query(roots=(Root("urn:a:1", "", {"$ref": "#/nowhere"}),)), InvalidSchema),
    (Query(roots=(Root("urn:a:1", "", "true"),)), InvalidSchema),  # type: ignore[arg-type]
]


@pytest.mark.rule("QUERY-1")
@pytest.mark.parametrize(("query", "error"), BAD)
def test_a_bad_query_is_refused_with_one_typed_error(query: Query, error: type[StemmaError]) -> None:
    with pytest.raises(error):
        prepare(query)


@pytest.mark.rule("QUERY-6")
def test_the_number_of_roots_is_bounded() -> None:
    limits = Limits(roots_max=3)
    roots = tuple(Root(f"urn:a:{number}") for number in range(4))
    assert len(prepare(Query(roots=roots[:3]), limits=limits).starts) == 3
    with pytest.raises(LimitExceeded) as raised:
        prepare(Query(roots=roots), limits=limits)
    assert raised.value.facts == {"bound": "roots_max", "maximum": 3, "actual": 4}
