"""Blame: for each leaf of an entity at a moment, the commit that wrote it last, in pages (HISTORY-1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from stemmadb.protocol.errors import Erased
from stemmadb.protocol.model import blame, pointer
from stemmadb.protocol.model.branch import Span
from stemmadb.protocol.model.commit import Arguments, Merge
from stemmadb.protocol.model.facts import Fact
from stemmadb.protocol.model.ids import EMPTY_SPACE, EntityId, Version
from stemmadb.protocol.model.limits import DEFAULTS, Limits
from stemmadb.protocol.model.origins import Written
from stemmadb.protocol.model.traversal import MISSING, resolve
from stemmadb.server.engine import states
from stemmadb.server.engine.history import check_written, facts_in_chunks
from stemmadb.server.engine.made import Made, made
from stemmadb.server.engine.moments import Cut, Moment
from stemmadb.server.engine.paging import ITEM_BYTES, Budget, MayRead, anything, fill
from stemmadb.server.engine.reading import HEAD, cut_at, entity_of, is_erased
from stemmadb.server.storage.port import LogReader, Place


class Line(msgspec.Struct, frozen=True):
    """A leaf, and the commit on this lineage that wrote it last: a merge for what it changed."""

    path: str
    made: Made


class Blamed(msgspec.Struct, frozen=True):
    """A page, as of `version`; `next`, how many lines were told, is given back as `after`."""

    version: Version
    lines: tuple[Line, ...]
    next: int | None


def page(
    reader: LogReader,
    id_: EntityId,
    moment: Moment = HEAD,
    path: str = pointer.ROOT,
    *,
    after: int = 0,
    limit: int | None = None,
    may_read: MayRead = anything,
    limits: Limits = DEFAULTS,
) -> Blamed:
    """The next leaves of the value, or of the part of it at `path`, in the order of the value.

    A path inside a leaf, such as an element of an array, gets the line of that leaf. There are no lines for what was
    deleted, nor for a path that is not there; `Erased` and `NotFound` as everywhere (HISTORY-2). Where the facts that
    a checkpoint stands for were compacted away, the last of them stands for all.
    """
    budget = Budget(limit, limits)
    pointer.parse(path)
    cut = cut_at(reader, moment)
    check_written(reader, id_, moment, cut.spans, may_read)
    found = list(islice(_leaves(reader, id_, cut, path), after, None))
    by = made(reader, (version for _, version in found))
    looked_at = ((at, Line(leaf, by[version])) for at, (leaf, version) in enumerate(found, after + 1))
    lines, next_ = fill(looked_at, _size, budget)
    return Blamed(cut.version, tuple(lines), next_)


def _leaves(reader: LogReader, id_: EntityId, cut: Cut, path: str) -> Iterator[tuple[str, Version]]:
    """The leaves at the path with the versions that wrote them."""
    state = states.load(reader, cut.spans, [id_])[id_]
    if is_erased(state):
        raise Erased(id=id_)
    entity = entity_of(state)
    if entity is None or resolve(entity.value, path) is MISSING:
        return
    for leaf, version in blame.blame(_written(reader, id_, cut.spans)).items():
        if pointer.overlaps(leaf, path):
            yield leaf, version


def _written(reader: LogReader, id_: EntityId, spans: Sequence[Span]) -> Iterator[Written]:
    """The facts that decide who wrote what, oldest first, a bounded number in memory at a time."""
    beginning = _beginning(reader, id_, spans)
    for facts in facts_in_chunks(reader, id_, _since(spans, beginning.version), "oldest"):
        details = _details(reader, facts)
        for fact in facts:
            if Place(fact.version, fact.index) >= beginning:
                yield Written(fact, details[fact.version])


def _beginning(reader: LogReader, id_: EntityId, spans: Sequence[Span]) -> Place:
    """The last fact that wrote every leaf: what came before it does not matter.

    That is not the fact a replay begins with: a checkpoint writes nothing, and a merge only what it changed, even
    where it says `set`.
    """
    for facts in facts_in_chunks(reader, id_, spans, "newest"):
        details = _details(reader, [fact for fact in facts if fact.kind == "set"])
        for fact in facts:
            if _writes_all(fact, details.get(fact.version)):
                return Place(fact.version, fact.index)
    return Place(EMPTY_SPACE, 0)


def _writes_all(fact: Fact, details: Arguments | None) -> bool:
    if fact.kind == "set":
        return not isinstance(details, Merge) or fact.id in details.resolved
    return fact.kind == "delete"


def _since(spans: Sequence[Span], version: Version) -> tuple[Span, ...]:
    """The part of the lineage from a version on."""
    before = Version(version - 1)
    return tuple(Span(span.branch, max(span.after, before), span.upto) for span in spans if span.upto > before)


def _details(reader: LogReader, facts: Sequence[Fact]) -> dict[Version, Arguments | None]:
    versions = dict.fromkeys(fact.version for fact in facts)
    return {version: commit.details for version, commit in reader.commits(versions).items()}


def _size(line: Line) -> int:
    return len(line.path.encode()) + len(line.made.note or b"") + ITEM_BYTES
