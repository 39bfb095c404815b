"""JSON Schema as queries use it: matching, narrowing, and the links that a schema reaches (QUERY-2 to QUERY-4).

`compiler` turns a schema document into checks, `narrowing` combines the schemas that apply to one visit, `reaching`
finds the links to follow, `links` reads one link, and `pattern` admits only linear-time patterns.

Imports only `values`.
"""

from __future__ import annotations

from stemmadb.protocol.model.schema.compiled import Schema
from stemmadb.protocol.model.schema.compiler import compile, matches
from stemmadb.protocol.model.schema.links import BrokenLink, EntityLink, link_of
from stemmadb.protocol.model.schema.narrowing import EVERYTHING, Conjuncts, conjuncts, narrow, selects
from stemmadb.protocol.model.schema.reaching import Reached, reach
from stemmadb.protocol.model.schema.work import TurnOver, WorkBudget, WorkCancelled

__all__ = [
    "EVERYTHING",
    "BrokenLink",
    "Conjuncts",
    "EntityLink",
    "Reached",
    "Schema",
    "TurnOver",
    "WorkBudget",
    "WorkCancelled",
    "compile",
    "conjuncts",
    "link_of",
    "matches",
    "narrow",
    "reach",
    "selects",
]
