"""What is asked and what is answered: queries as users write them, compiled, and their answers (QUERY-1)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from stemmadb.protocol.errors import InvalidQuery, LimitExceeded
from stemmadb.protocol.model import schema
from stemmadb.protocol.model.query.window import AfterRow, Limit, OrderBy, Row, Window, prepare_window
from stemmadb.protocol.model.schema import Conjuncts
from stemmadb.protocol.model.values import ids, pointer
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId
from stemmadb.protocol.model.values.json_values import INT_MAX, Value
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits

EVERY = "*"


class Root(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where to start: an id, a prefix written `urn:todo:*`, or `*`. Without a schema no link is followed."""

    id: str
    path: str = pointer.ROOT
    schema: bool | dict[str, Any] | None = None


class Query(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Roots on a branch at a moment: a version, a time, or, with neither, the head (QUERY-1).

    `order`, `limit` and `after` choose a window of the roots that match (QUERY-8).
    """

    roots: tuple[Root, ...]
    branch: str = MAIN
    version: Annotated[int, msgspec.Meta(ge=0, le=INT_MAX)] | None = None
    time: Annotated[int, msgspec.Meta(ge=0, le=INT_MAX)] | None = None
    order: tuple[OrderBy, ...] = ()
    limit: Limit | None = None
    after: AfterRow | None = None

    def has_window(self) -> bool:
        """Whether the roots that match are put in order, or only some of them are in the answer."""
        return bool(self.order) or self.limit is not None or self.after is not None


class Visit(NamedTuple):
    """An entity looked at from one path under one schema; two visits are the same if all three are (QUERY-4)."""

    id: EntityId
    path: str
    conjuncts: Conjuncts | None
    """None where the root has no schema: the value is taken and no link is followed."""


class Start(NamedTuple):
    """A root, compiled: one id, or every id that begins with `name`."""

    name: str
    listing: bool
    path: str
    conjuncts: Conjuncts | None


class ListedPrefix(NamedTuple):
    """The listings of one path and schema together: every entity that begins with one of the prefixes is a root."""

    prefixes: tuple[str, ...]
    path: str
    conjuncts: Conjuncts | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query found good; equal and hashable by content, so that equal ones can share an evaluation (WATCH-2)."""

    starts: tuple[Start, ...]
    branch: BranchName
    version: int | None
    time: int | None
    space: Did | None
    """The space that is asked: a link that names it is a link within; one that names another is unresolved."""
    window: Window | None = None
    """Which of the roots that match are in the answer; None is all, in the order of the query."""

    def at_head(self) -> bool:
        return self.version is None and self.time is None

    def named(self) -> tuple[Visit, ...]:
        """The visits of the roots given by id, each once, in the order written.

        Within a window they are listings of one entity: one that is not there is not reported (QUERY-8).
        """
        return () if self.window is not None else self._given_by_id()

    def _given_by_id(self) -> tuple[Visit, ...]:
        return tuple(
            dict.fromkeys(Visit(EntityId(s.name), s.path, s.conjuncts) for s in self.starts if not s.listing)
        )

    def listings(self) -> tuple[ListedPrefix, ...]:
        """The roots given by a prefix or `*`, one for each path and schema."""
        grouped: dict[tuple[str, Conjuncts | None], list[str]] = {}
        for start in self.starts:
            if start.listing:
                grouped.setdefault((start.path, start.conjuncts), []).append(start.name)
        return tuple(ListedPrefix(_fewest(prefixes), *key) for key, prefixes in grouped.items())

    def listed_ids(self) -> tuple[EntityId, ...]:
        """The ids that a window lists one by one."""
        return () if self.window is None else tuple(dict.fromkeys(one.id for one in self._given_by_id()))

    def window_roots(self) -> WindowRoots:
        """Which visits an entity gets as a root of a window."""
        named: dict[EntityId, list[Visit]] = {}
        for visit in self._given_by_id() if self.window is not None else ():
            named.setdefault(visit.id, []).append(visit)
        return WindowRoots(named, self.listings())

    def prefixes(self) -> tuple[str, ...]:
        """The fewest prefixes that cover every listing."""
        return _fewest([start.name for start in self.starts if start.listing])


class WindowRoots(NamedTuple):
    """The roots of a window: each entity that it names or lists."""

    named: dict[EntityId, list[Visit]]
    listings: tuple[ListedPrefix, ...]

    def visits(self, id_: EntityId) -> list[Visit]:
        """The visits that the entity gets as a root, each once."""
        named = self.named.get(id_)
        found = listed(self.listings, id_)
        return found if named is None else list(dict.fromkeys((*named, *found)))


def listed(listings: tuple[ListedPrefix, ...], id_: EntityId) -> list[Visit]:
    """The visits that this entity gets as a root of the listings."""
    return [Visit(id_, one.path, one.conjuncts) for one in listings if id_.startswith(one.prefixes)]


def _fewest(prefixes: list[str]) -> tuple[str, ...]:
    """Without those that another one covers; sorted, a prefix comes right before what it covers."""
    outermost: list[str] = []
    for prefix in sorted(set(prefixes)):
        if not outermost or not prefix.startswith(outermost[-1]):
            outermost.append(prefix)
    return tuple(outermost)


class SizedValue(Protocol):
    """What a supplier gives for an entity that exists; anything more it carries goes into the answer untouched."""

    @property
    def value(self) -> Value: ...

    @property
    def size(self) -> int:
        """The bytes of the encoded value, which count towards `query_bytes_max`."""
        ...


H = TypeVar("H", bound=SizedValue)


class Hop(NamedTuple):
    """A link that was followed: the place that holds it, relative to the visit's path, and where it leads."""

    place: tuple[str, ...]
    target: Visit


class Unresolved(NamedTuple):
    """Where nothing was found, without the reason (QUERY-5). A broken link is named by the place that holds it."""

    id: str
    path: str


class VisitResult(enum.Enum):
    """What a visit came upon."""

    MATCHED = "matched"
    UNMATCHED = "unmatched"
    NOWHERE = "nowhere"
    """No such entity, none that may be read, or no such path in it: all alike (QUERY-5)."""


class Outcome(NamedTuple):
    """What one visit found; only a visit that matched has links."""

    found: VisitResult
    hops: tuple[Hop, ...] = ()
    dangling: tuple[Unresolved, ...] = ()
    """Links that lead to no entity of this space whatever is stored: broken ones and those to other spaces."""


class Ask(NamedTuple):
    """The request of a traversal: these ids and everything under these prefixes, all as of one version."""

    ids: tuple[EntityId, ...]
    prefixes: tuple[str, ...] = ()


Supply: TypeAlias = Mapping[EntityId, H]
"""The reply to an `Ask`: what does not exist or may not be read is left out."""


@dataclass(frozen=True, slots=True)
class TraversalResult(Generic[H]):
    """One cut: every entity that some visit matched, what led nowhere, and the visits that led there."""

    entities: dict[EntityId, H]
    unresolved: frozenset[Unresolved]
    roots: tuple[Visit, ...]
    """The roots that matched, in the order of the query; those of one listing by id."""
    visits: dict[Visit, Outcome]
    """Every visit made, but those of a listing that did not match."""
    rows: tuple[Row, ...] = ()
    """Of a window that is watched: all roots that match, also those outside of it."""


def prepare(query: Query, *, limits: Limits = DEFAULTS, space: Did | None = None) -> Prepared:
    """The query, checked and compiled; `InvalidQuery`, or the error of the part that is wrong."""
    if type(query.roots) is not tuple or not query.roots:
        raise InvalidQuery(why="it has no roots")
    if len(query.roots) > limits.roots_max:
        raise LimitExceeded(bound="roots_max", maximum=limits.roots_max, actual=len(query.roots))
    if query.version is not None and query.time is not None:
        raise InvalidQuery(why="it names both a version and a time")
    return Prepared(
        starts=tuple(_start(root, index, limits) for index, root in enumerate(query.roots)),
        branch=ids.branch_name(_text(query.branch, "the branch")),
        version=_moment(query.version, "version"),
        time=_moment(query.time, "time"),
        space=space,
        window=prepare_window(query.order, query.limit, query.after, limits),
    )


def _start(root: Root, index: int, limits: Limits) -> Start:
    if not isinstance(root, Root):
        raise InvalidQuery(why=f"root {index} is not a root")
    text = _text(root.id, f"the id of root {index}")
    listing = text.endswith(EVERY)
    if listing:
        name = ids.id_prefix(text[: -len(EVERY)], limits.id_bytes_max)
    else:
        name = ids.entity_id(text, limits.id_bytes_max)
    path = _text(root.path, f"the path of root {index}")
    pointer.parse(path)
    return Start(name, listing, path, _compiled(root.schema))


def _compiled(written: bool | dict[str, Any] | None) -> Conjuncts | None:
    if written is None:
        return None
    return schema.narrow(schema.EVERYTHING, frozenset((schema.compile(written),)))


def _text(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise InvalidQuery(why=f"{what} is not a string")
    return text


def _moment(number: object, what: str) -> int | None:
    if number is None:
        return None
    if type(number) is not int or number < 0:
        raise InvalidQuery(why=f"the {what} is not a number from 0 up")
    return number
