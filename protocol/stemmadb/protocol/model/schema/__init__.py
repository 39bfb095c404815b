"""JSON Schema as queries use it: matching, narrowing, and the links that a schema reaches (QUERY-2 to QUERY-4)."""

from __future__ import annotations

from .compiled import Schema
from .compiler import compile, matches
from .links import BrokenLink, Link, link_of
from .narrowing import EVERYTHING, Conjuncts, conjuncts, narrow, selects
from .reaching import Reached, reach

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
