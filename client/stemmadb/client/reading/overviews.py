"""Looking at much without fetching it: counts, prefixes, previews, the commits over time (QUERY-9..11, HISTORY-4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict, Unpack

from stemmadb.client.reading.pages import Listing, ListPage, PageTurner
from stemmadb.client.reading.past import page_size
from stemmadb.client.reading.plain import check_options, decoded
from stemmadb.client.reading.queries import Selector, listed_prefix, listing_root, roots_of
from stemmadb.client.reading.times import When, milliseconds, optional_version
from stemmadb.client.requester import Requester
from stemmadb.protocol.model.query.query import EVERY, Query
from stemmadb.protocol.model.values import ids
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire import version as wire
from stemmadb.protocol.wire.messages import overview, reading
from stemmadb.protocol.wire.messages.reading import HistogramBy, QueriedEntity, Shape


@dataclass(frozen=True, slots=True)
class EntityCount:
    """How many entities there are as of `version`: all of them if it is `exact`, otherwise at least so many."""

    entities: int
    exact: bool
    version: Version


@dataclass(frozen=True, slots=True)
class PrefixCount:
    """A prefix that ends with a separator, or an id, with the number of entities that begin with it."""

    prefix: str
    entities: int
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPreview:
    """An entity of which not everything came.

    In the shape `ids` there is no value. In the shape `preview` a value of more than 512 bytes of JSON is
    `truncated`: `size` is that of the whole, and `omitted` are paths that were left out.
    """

    id: EntityId
    version: Version
    value: Value = None
    truncated: bool = False
    size: int | None = None
    omitted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCount:
    """Commits that follow one another: the versions and times of the first and the last, and how many there are."""

    from_version: Version
    to_version: Version
    from_time_ms: TimeMs
    to_time_ms: TimeMs
    commits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Commits over versions or over time, oldest first, as of `version`.

    Unless it is `exact` older buckets are missing; `space.histogram(..., after=found.next)` gives them.
    """

    version: Version
    exact: bool
    buckets: tuple[CommitCount, ...]
    next: str | None = None


class HistogramFilters(TypedDict, total=False):
    """Which commits a histogram counts: those that pass every filter given; both times are included."""

    branch: str | None
    prefix: str | None
    author: str | None
    since: When | None
    until: When | None


async def count(
    requester: Requester, selector: Selector, *, branch: BranchName, version: int | None = None
) -> EntityCount:
    """How many entities a selector finds; no value is fetched."""
    requester.check_feature(wire.COUNT)
    query = Query(roots_of(selector), branch=branch, version=optional_version(version))
    answer = await requester.ask(overview.CountRequest, overview.CountAnswer, query=query)
    return EntityCount(answer.entities, answer.exact, answer.version)


def prefixes(
    requester: Requester, prefix: str, *, branch: BranchName, separators: str, version: int | None = None
) -> Listing[PrefixCount]:
    """The children of a prefix, each up to the next separator."""
    bare, at = listed_prefix(prefix), optional_version(version)

    async def fetch(after: str | None, size: int | None) -> ListPage[PrefixCount]:
        requester.check_feature(wire.PREFIXES)
        answer = await requester.ask(
            overview.PrefixesRequest,
            overview.PrefixesAnswer,
            prefix=bare,
            separators=separators,
            branch=branch,
            version=at,
            after=after,
            limit=page_size(size, requester),
        )
        items = tuple(PrefixCount(one.prefix, one.entities, one.exact) for one in answer.prefixes)
        return ListPage(answer.version, items, answer.next)

    return Listing(partial(PageTurner, fetch))


def previews(
    requester: Requester, prefix: str, *, branch: BranchName, shape: Shape, version: int | None = None
) -> Listing[EntityPreview]:
    """The entities under a prefix, by id, with as much of each value as the shape says."""
    query = Query(listing_root(prefix), branch=branch, version=optional_version(version))

    async def fetch(after: str | None, size: int | None) -> ListPage[EntityPreview]:
        requester.check_feature(wire.SHAPE)
        answer = await requester.ask(
            reading.QueryRequest,
            reading.QueryAnswer,
            query=query,
            shape=shape,
            after=after,
            limit=page_size(size, requester),
        )
        return ListPage(answer.version, tuple(map(_preview, answer.entities)), answer.next)

    return Listing(partial(PageTurner, fetch))


async def histogram(
    requester: Requester,
    *,
    by: HistogramBy,
    buckets: int,
    after: str | None,
    **filters: Unpack[HistogramFilters],
) -> Histogram:
    """How many commits there are, in buckets of equal length."""
    check_options("histogram", filters, HistogramFilters)
    requester.check_feature(wire.HISTOGRAM)
    answer = await requester.ask(
        reading.HistogramRequest,
        reading.HistogramAnswer,
        by=by,
        buckets=buckets,
        after=after,
        **_histogram_fields(filters),
    )
    return Histogram(
        version=answer.version, exact=answer.exact, next=answer.next, buckets=tuple(map(_bucket, answer.buckets))
    )


def _histogram_fields(filters: HistogramFilters) -> dict[str, Any]:
    fields: dict[str, Any] = {name: given for name, given in filters.items() if given is not None}
    for name in ("since", "until"):
        if name in fields:
            fields[name] = milliseconds(fields[name])
    if "prefix" in fields:
        fields["prefix"] = str(fields["prefix"]).removesuffix(EVERY)
    if "branch" in fields:
        fields["branch"] = ids.branch_name(fields["branch"])
    return fields


def _bucket(one: reading.HistogramBucket) -> CommitCount:
    return CommitCount(
        from_version=one.from_version,
        to_version=one.to_version,
        from_time_ms=one.from_time,
        to_time_ms=one.to_time,
        commits=one.commits,
    )


def _preview(one: QueriedEntity) -> EntityPreview:
    return EntityPreview(
        id=one.id,
        version=one.version,
        value=None if one.body is None else decoded(one.body),
        truncated=one.truncated,
        size=one.size,
        omitted=one.omitted,
    )
