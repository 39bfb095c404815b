"""When two watches are the same one: equal canonical JSON of their queries (CACHE-3)."""

from __future__ import annotations

import json

import msgspec

from stemmadb.protocol.model.query.query import Query


def canonical(query: Query) -> str:
    """The query as JSON text: members in order, no spaces, defaults left out."""
    return json.dumps(msgspec.to_builtins(query), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def query_of(text: str) -> Query:
    """The query that `canonical` wrote."""
    return msgspec.json.decode(text, type=Query)
