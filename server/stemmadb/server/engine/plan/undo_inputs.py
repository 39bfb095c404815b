"""What an undo reads: the commits that were chosen, and the past of each entity they wrote (COMMIT-9)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Final, TypeVar

import msgspec

from stemmadb.protocol.errors import FutureVersion, Malformed
from stemmadb.protocol.model.log import branch_spans as branches
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.commit_record import Compact, Erase
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.merge.undo import Past
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base import states
from stemmadb.server.engine.base.moments import BranchLookup
from stemmadb.server.engine.plan.planned_write import check_bulk
from stemmadb.server.storage.port import FactPosition, LogFilter, LogReader

PAGE: Final = 256
"""How many commits, entities or facts are read at once."""

T = TypeVar("T")


class Undone(msgspec.Struct, frozen=True):
    """The versions to undo, and for each entity the first of them that wrote it."""

    versions: frozenset[Version]
    first: Mapping[EntityId, Version]


class Gathering:
    """Chooses commits that a lineage sees. The access list is passed by."""

    def __init__(self, reader: LogReader, spans: Sequence[Span], space: Did, limits: Limits) -> None:
        self._reader = reader
        self._spans = spans
        self._space = space
        self._limits = limits

    def named(self, versions: Collection[Version], head: Version) -> Undone:
        """Exactly these; `Malformed` or `FutureVersion` if one of them cannot be undone here."""
        check_bulk(len(versions), self._limits)
        for version in versions:
            if version < 1:
                raise Malformed(path="versions", why=f"{version} is not the version of a commit")
            if version > head:
                raise FutureVersion(version=version, head=head)
        chosen = sorted(set(versions))
        for version, ids in self._written(chosen):
            if not ids:
                raise Malformed(path="versions", why=f"version {version} wrote nothing that the branch sees")
        self._check_kinds(chosen)
        return self._undone(chosen)

    def created_by(self, *, author: Did | None, session: bytes | None, since: Version) -> Undone:
        """Those of an author or a session after a version, as far as they can be undone here."""
        chosen: list[Version] = []
        for span in self._spans:
            wanted = LogFilter(branch=span.branch, author=author, session=session, upto=span.upto)
            chosen.extend(self._listed(wanted, since))
            check_bulk(len(chosen), self._limits)
        return self._undone(sorted(chosen))

    def _listed(self, wanted: LogFilter, since: Version) -> Iterator[Version]:
        """The versions of commits that can be undone, newest first; one more than the bound is enough to see it."""
        left = self._limits.bulk_operations_max + 1
        while page := self._reader.log(wanted, PAGE):
            for commit in page:
                if commit.version <= since or not left:
                    return
                if not isinstance(commit.details, Erase | Compact):
                    left -= 1
                    yield commit.version
            wanted = msgspec.structs.replace(wanted, after=page[-1].version)

    def _check_kinds(self, versions: Iterable[Version]) -> None:
        for chunk in _chunks(versions):
            for commit in self._reader.commits(chunk).values():
                if isinstance(commit.details, Erase | Compact):
                    raise Malformed(path="versions", why=f"version {commit.version}, {commit.kind}, cannot be undone")

    def _undone(self, versions: Iterable[Version]) -> Undone:
        """`versions` are oldest first, so that the first one that wrote an entity is met first."""
        first: dict[EntityId, Version] = {}
        undone: set[Version] = set()
        for version, ids in self._written(versions):
            for id_ in ids - {EntityId(self._space)}:
                first.setdefault(id_, version)
                undone.add(version)
        return Undone(frozenset(undone), first)

    def _written(self, versions: Iterable[Version]) -> Iterator[tuple[Version, set[EntityId]]]:
        """The entities that each version wrote, as far as the lineage sees it."""
        for chunk in _chunks(versions):
            found = self._reader.facts(chunk)
            for version in chunk:
                seen = (fact for fact in found.get(version, ()) if self._is_seen(fact))
                yield version, {fact.id for fact in seen}

    def _is_seen(self, fact: Fact) -> bool:
        return branches.visible(self._spans, fact.branch, fact.version)


def pasts(
    reader: LogReader, name: BranchName, spans: Sequence[Span], first: Mapping[EntityId, Version]
) -> Iterator[Past]:
    """The past of each entity on a branch: its state before the version given for it, and its facts from there on."""
    known = BranchLookup(reader)
    by_version = sorted(first, key=lambda id_: (first[id_], id_))
    for version, ids in groupby(by_version, key=lambda id_: first[id_]):
        before = branches.lineage(known, name, Version(version - 1))
        since = branches.only_in(spans, before)
        for chunk in _chunks(ids):
            found = states.load(reader, before, chunk)
            for id_ in chunk:
                state = found.get(id_)
                yield Past(id_, Missing.ABSENT if state is None else state.value, _facts(reader, id_, since))


def _facts(reader: LogReader, id_: EntityId, spans: Sequence[Span]) -> Iterator[Fact]:
    after: FactPosition | None = None
    while page := reader.facts_of(id_, spans, after=after, limit=PAGE):
        yield from page
        after = FactPosition(page[-1].version, page[-1].index)


def _chunks(items: Iterable[T]) -> Iterator[list[T]]:
    waiting = iter(items)
    while chunk := list(islice(waiting, PAGE)):
        yield chunk
