"""Asking for state and for the past: query, watch, unwatch, history, log, diff, blame (QUERY-1..6, HISTORY-1)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta

from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS, CommitKind
from stemmadb.protocol.model.log.facts import FactKind
from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId
from stemmadb.protocol.wire.messages.base import PagedAnswer, PagedRequest, Part, Request
from stemmadb.protocol.wire.messages.fields import (
    Body,
    Count,
    Cursor,
    EncodedArguments,
    RandomId,
    Salt,
    WatchId,
    WireHash,
    WireLocal,
    WireTime,
    WireVersion,
)
from stemmadb.protocol.wire.messages.sync import CommitItem, FactItem

Order: TypeAlias = Literal["newest", "oldest"]
HistogramBy: TypeAlias = Literal["version", "time"]
BucketCount: TypeAlias = Annotated[int, Meta(ge=1, le=400)]
Shape: TypeAlias = Literal["whole", "ids", "preview"]
ErasedSides: TypeAlias = Literal["left", "right", "both"]


class QueriedEntity(Part, frozen=True, kw_only=True):
    """An entity of an answer: `version` and `hash` are those of its last fact.

    Of the shape `ids` it has no `body`. Of the shape `preview` a large value is `truncated`: `size` is that of the
    whole in bytes of JSON, and `omitted` names what was left out, or the first of it (QUERY-9).
    """

    id: EntityId
    version: WireVersion
    hash: WireHash
    body: Body | None = None
    truncated: bool = False
    size: Count | None = None
    omitted: tuple[str, ...] = ()


class UnresolvedLink(Part, frozen=True, kw_only=True):
    """Where nothing was found; an erased target is also in `erased` (QUERY-5)."""

    id: str
    path: str = ""


class QueryAnswer(PagedAnswer, frozen=True, kw_only=True):
    """One cut: every entity in it is as of `version`."""

    entities: tuple[QueriedEntity, ...] = ()
    unresolved: tuple[UnresolvedLink, ...] = ()
    erased: tuple[EntityId, ...] = ()


class QueryRequest(PagedRequest, frozen=True, kw_only=True, tag="query"):
    """Runs a query once. Paging is for queries without a schema. `shape` says how much of each value comes."""

    answer: ClassVar[type[Part]] = QueryAnswer
    query: Query
    shape: Shape = "whole"


class WatchAnswer(Part, frozen=True, kw_only=True):
    """The watch starts at `version` and continues in the stream (SYNC-7).

    With `since`, `commits` are the facts from there; while `next` is given, `watch` is sent again with it as `after`.
    A page may end inside a commit, which goes on in an item of the same version on the next (`joined_commits`).
    """

    version: WireVersion
    commits: tuple[CommitItem, ...] = ()
    next: Cursor | None = None


class WatchRequest(Request, frozen=True, kw_only=True, tag="watch"):
    """Keeps a query true in the stream. A number in use is replaced: the stream tells the difference (WATCH-3)."""

    answer: ClassVar[type[Part]] = WatchAnswer
    watch: WatchId
    query: Query
    since: WireVersion | None = None
    after: Cursor | None = None


class UnwatchRequest(Request, frozen=True, kw_only=True, tag="unwatch"):
    """Ends a watch."""

    watch: WatchId


class HistoryEntry(Part, frozen=True, kw_only=True):
    """A fact of the entity with the data of its commit; body and salt may be gone, the digest stays."""

    version: WireVersion
    index: Count
    branch: BranchName
    kind: FactKind
    parent: WireHash
    hash: WireHash
    digest: WireHash
    salt: Salt | None = None
    body: Body | None = None
    author: Did
    time: WireTime
    session: RandomId | None = None
    local: WireLocal | None = None
    operation: RandomId | None = None
    note: Body | None = None
    made_by: CommitKind = "commit"


class HistoryAnswer(PagedAnswer, frozen=True, kw_only=True):
    entries: tuple[HistoryEntry, ...] = ()


class HistoryRequest(PagedRequest, frozen=True, kw_only=True, tag="history"):
    """The facts of one entity as a branch sees them, up to a version."""

    answer: ClassVar[type[Part]] = HistoryAnswer
    entity: EntityId
    branch: BranchName = MAIN
    version: WireVersion | None = None
    order: Order = "newest"


class LogEntry(Part, frozen=True, kw_only=True):
    """A commit record with everything its hash covers, so that a client can verify the chain (FACT-3).

    It has `session` and `local`, or `operation`. `facts` are their hashes in order; `items` are the facts themselves,
    as far as they were asked for and may be read. Items that do not fit go on in an entry of the same version on the
    next page, which has no `facts` (`records.joined_entries`).
    """

    version: WireVersion
    hash: WireHash
    previous: WireHash
    kind: CommitKind = "commit"
    arguments: EncodedArguments = NO_ARGUMENTS
    branch: BranchName | None = None
    author: Did
    session: RandomId | None = None
    local: WireLocal | None = None
    operation: RandomId | None = None
    time: WireTime
    request: WireHash
    note_digest: WireHash
    note: Body | None = None
    note_salt: Salt | None = None
    facts: tuple[WireHash, ...] = ()
    fact_branches: tuple[BranchName, ...] = ()
    items: tuple[FactItem, ...] = ()


class LogAnswer(PagedAnswer, frozen=True, kw_only=True):
    entries: tuple[LogEntry, ...] = ()


class LogRequest(PagedRequest, frozen=True, kw_only=True, tag="log"):
    """Commits up to `version` that pass every filter given; `since` and `until` are times, both included.

    `with_ids` brings the facts without salt and body. `kinds` are the kinds of commits; none is all.
    """

    answer: ClassVar[type[Part]] = LogAnswer
    branch: BranchName | None = None
    author: Did | None = None
    session: RandomId | None = None
    prefix: str | None = None
    since: WireTime | None = None
    until: WireTime | None = None
    version: WireVersion | None = None
    order: Order = "newest"
    with_facts: bool = False
    with_ids: bool = False
    kinds: tuple[CommitKind, ...] = ()


class HistogramBucket(Part, frozen=True, kw_only=True):
    """Commits that follow one another: the first and the last that count, and how many count in all."""

    from_version: WireVersion
    to_version: WireVersion
    from_time: WireTime
    to_time: WireTime
    commits: Count


class HistogramAnswer(PagedAnswer, frozen=True, kw_only=True):
    """The buckets that have a commit, oldest first. Unless `exact` older ones are missing: `next` goes on there."""

    exact: bool
    buckets: tuple[HistogramBucket, ...] = ()


class HistogramRequest(Request, frozen=True, kw_only=True, tag="log.histogram"):
    """How many commits `log` shows, in buckets of equal length by version or by time."""

    answer: ClassVar[type[Part]] = HistogramAnswer
    by: HistogramBy = "version"
    buckets: BucketCount = 100
    branch: BranchName | None = None
    prefix: str | None = None
    author: Did | None = None
    since: WireTime | None = None
    until: WireTime | None = None
    after: Cursor | None = None


class Moment(Part, frozen=True, kw_only=True):
    """A branch at a version, at a time, or at its head."""

    branch: BranchName = MAIN
    version: WireVersion | None = None
    time: WireTime | None = None


class EntityChange(Part, frozen=True, kw_only=True):
    """An entity that differs: the versions of its last facts on both sides, and how to get from left to right.

    `patch` where both sides have a value; otherwise `body`, the value of the side that has one. `erased` names the
    sides that have a value which is not known any more.
    """

    id: EntityId
    left: WireVersion | None = None
    right: WireVersion | None = None
    patch: Body | None = None
    body: Body | None = None
    erased: ErasedSides | None = None


class DiffAnswer(Part, frozen=True, kw_only=True):
    """`left` and `right` are the versions that were compared."""

    left: WireVersion
    right: WireVersion
    changes: tuple[EntityChange, ...] = ()
    next: Cursor | None = None


class DiffRequest(PagedRequest, frozen=True, kw_only=True, tag="diff"):
    """Compares any two states, per entity and per path."""

    answer: ClassVar[type[Part]] = DiffAnswer
    left: Moment
    right: Moment
    prefix: str = ""


class BlameLine(Part, frozen=True, kw_only=True):
    """The commit that last wrote the leaf at `path`; only `compacted` where that cannot be told any more."""

    path: str
    version: WireVersion | None = None
    author: Did | None = None
    time: WireTime | None = None
    note: Body | None = None
    compacted: bool = False


class BlameAnswer(PagedAnswer, frozen=True, kw_only=True):
    lines: tuple[BlameLine, ...] = ()


class BlameRequest(PagedRequest, frozen=True, kw_only=True, tag="blame"):
    """For each leaf of an entity's value, or of the part at `path`: who wrote it last."""

    answer: ClassVar[type[Part]] = BlameAnswer
    entity: EntityId
    branch: BranchName = MAIN
    version: WireVersion | None = None
    path: str = ""
