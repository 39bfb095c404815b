"""Blame: for each leaf of an entity at a moment, the commit that wrote it last, in pages (HISTORY-1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import msgspec

from stemmadb.protocol.errors import Erased
from stemmadb.protocol.model.history import blame
from stemmadb.protocol.model.history.origins import WrittenLeaves
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.commit_record import Arguments
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.query.traversal import MISSING, resolve
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, EntityId, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.server.engine.base import states
from stemmadb.server.engine.base.moments import ReadMoment, ResolvedMoment
from stemmadb.server.engine.base.paging import ITEM_BYTES, Budget, MayRead, anything, fill
from stemmadb.server.engine.read.created_by import CHUNK, CreatedBy, created_by
from stemmadb.server.engine.read.entities import HEAD, entity_of, is_erased, resolve_moment
from stemmadb.server.engine.read.history import check_written, facts_in_chunks
from stemmadb.server.storage.port import FactPosition, LogReader

Leaf: TypeAlias = tuple[str, Version | None]
"""A path, and the version that wrote the leaf there last."""


class BlamedLeaf(msgspec.Struct, frozen=True):
    """A leaf, and the commit on this lineage that wrote it last: a merge for what it changed.

    None if a compaction took the facts that tell.
    """

    path: str
    created_by: CreatedBy | None


class Blamed(msgspec.Struct, frozen=True):
    """A page, as of `version`; `next`, how many lines were returned, is given back as `after`."""

    version: Version
    lines: tuple[BlamedLeaf, ...]
    next: int | None
    leaves: Sequence[Leaf] = ()
    """All of them, for the pages after this one."""


def page(  # noqa: PLR0913
    reader: LogReader,
    id_: EntityId,
    moment: ReadMoment = HEAD,
    path: str = pointer.ROOT,
    *,
    after: int = 0,
    limit: int | None = None,
    known: Sequence[Leaf] | None = None,
    may_read: MayRead = anything,
    limits: Limits = DEFAULTS,
) -> Blamed:
    """The next leaves of the value, or of the part of it at `path`, in the order of the value.

    A path inside a leaf, such as an element of an array, gets the line of that leaf. There are no lines for what was
    deleted, nor for a path that is not there; `Erased` and `NotFound` as everywhere (HISTORY-2). `known` are the
    leaves of the page before, where nothing was erased or compacted since.
    """
    budget = Budget(limit, limits)
    pointer.parse(path)
    resolved = resolve_moment(reader, moment)
    check_written(reader, id_, moment, resolved.spans, may_read)
    leaves = tuple(_leaves(reader, id_, resolved, path)) if known is None else known
    looked_at = enumerate(_with_commits(reader, islice(leaves, after, None)), after + 1)
    lines, next_ = fill(looked_at, _size, budget)
    return Blamed(resolved.version, tuple(lines), next_, leaves)


def _with_commits(reader: LogReader, leaves: Iterator[Leaf]) -> Iterator[BlamedLeaf]:
    """The leaves with their commits, read as the page fills: a page costs the commits it names."""
    while chunk := list(islice(leaves, CHUNK)):
        by = created_by(reader, (version for _, version in chunk if version is not None))
        for leaf, version in chunk:
            yield BlamedLeaf(leaf, None if version is None else by[version])


def _leaves(reader: LogReader, id_: EntityId, resolved: ResolvedMoment, path: str) -> Iterator[Leaf]:
    """The leaves at the path with the versions that wrote them."""
    state = states.load(reader, resolved.spans, [id_])[id_]
    if is_erased(state):
        raise Erased(id=id_)
    entity = entity_of(state)
    if entity is None or resolve(entity.value, path) is MISSING:
        return
    for leaf, version in blame.blame(_written(reader, id_, resolved.spans)).items():
        if pointer.overlaps(leaf, path):
            yield leaf, version


def _written(reader: LogReader, id_: EntityId, spans: Sequence[Span]) -> Iterator[WrittenLeaves]:
    """The facts that decide who wrote what, oldest first, a bounded number in memory at a time."""
    beginning = _beginning(reader, id_, spans)
    for facts in facts_in_chunks(reader, id_, _since(spans, beginning.version), "oldest"):
        details = _details(reader, facts)
        for fact in facts:
            if FactPosition(fact.version, fact.index) >= beginning:
                yield WrittenLeaves(fact, details[fact.version])


def _beginning(reader: LogReader, id_: EntityId, spans: Sequence[Span]) -> FactPosition:
    """The last fact that wrote every leaf: what came before it does not matter.

    That is not the fact a replay begins with: a checkpoint writes nothing, and a merge only what it changed, even
    where it says `set`.
    """
    for facts in facts_in_chunks(reader, id_, spans, "newest"):
        details = _details(reader, [fact for fact in facts if fact.kind == "set"])
        for fact in facts:
            if blame.writes_all(WrittenLeaves(fact, details.get(fact.version))):
                return FactPosition(fact.version, fact.index)
    return FactPosition(EMPTY_SPACE, 0)


def _since(spans: Sequence[Span], version: Version) -> tuple[Span, ...]:
    """The part of the lineage from a version on."""
    before = Version(version - 1)
    return tuple(Span(span.branch, max(span.after, before), span.upto) for span in spans if span.upto > before)


def _details(reader: LogReader, facts: Sequence[Fact]) -> dict[Version, Arguments | None]:
    versions = dict.fromkeys(fact.version for fact in facts)
    return {version: commit.details for version, commit in reader.commits(versions).items()}


def _size(line: BlamedLeaf) -> int:
    note = None if line.created_by is None else line.created_by.note
    return len(line.path.encode()) + len(note or b"") + ITEM_BYTES
