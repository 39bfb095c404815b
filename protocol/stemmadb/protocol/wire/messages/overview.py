"""Overviews of what is too much to fetch: how many entities, and under which prefixes (QUERY-10, QUERY-11)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.values.ids import MAIN, BranchName
from stemmadb.protocol.wire.messages.base import PagedAnswer, PagedRequest, Part, Request
from stemmadb.protocol.wire.messages.fields import Count, WireTime, WireVersion

Separators = Annotated[str, Meta(max_length=16)]


class CountAnswer(Part, frozen=True, kw_only=True):
    """How many entities the query would give, as of `version`; a lower bound unless `exact`."""

    version: WireVersion
    entities: Count
    exact: bool


class CountRequest(Request, frozen=True, kw_only=True, tag="count"):
    """Counts the entities of a query without a schema."""

    answer: ClassVar[type[Part]] = CountAnswer
    query: Query


class PrefixEntry(Part, frozen=True, kw_only=True):
    """A prefix, which ends with a separator, or a whole id; `entities` is a lower bound unless `exact`."""

    prefix: str
    entities: Count
    exact: bool


class PrefixesAnswer(PagedAnswer, frozen=True, kw_only=True):
    """In the order of the prefixes; those without an entity are left out."""

    prefixes: tuple[PrefixEntry, ...] = ()


class PrefixesRequest(PagedRequest, frozen=True, kw_only=True, tag="prefixes"):
    """The children of a prefix: up to the next separator, or to the end of the id."""

    answer: ClassVar[type[Part]] = PrefixesAnswer
    prefix: str = ""
    separators: Separators = ":/#"
    branch: BranchName = MAIN
    version: WireVersion | None = None
    time: WireTime | None = None
