"""JSON Schema as queries use it: matching, narrowing, and the links that a schema reaches (QUERY-2 to QUERY-4)."""

from __future__ import annotations

from stemmadb.protocol.model.schema.compiled import Schema
from stemmadb.protocol.model.schema.compiler import compile, matches
from stemmadb.protocol.model.schema.links import BrokenLink, Link, link_of
from stemmadb.protocol.model.schema.narrowing import EVERYTHING, Conjuncts, conjuncts, narrow, selects
from stemmadb.protocol.model.schema.reaching import Reached, reach

__all__ = [
    "EVERYTHING",
    "BrokenLink",
    "Conjuncts",
    "Link",
    "Reached",
    "Schema",
    "compile",
    "conjuncts",
    "link_of",
    "matches",
    "narrow",
    "reach",
    "selects",
]
