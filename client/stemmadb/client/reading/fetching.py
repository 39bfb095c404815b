"""Entities as the server has them, many at once and all of one version: what reads at head and past stand on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from stemmadb.client.asking import Asker
from stemmadb.client.reading.plain import decoded
from stemmadb.protocol.errors import Malformed, Unavailable
from stemmadb.protocol.model.ids import BranchName, EntityId, Hash, Version
from stemmadb.protocol.model.query import Query, Root, Unresolved
from stemmadb.protocol.model.values import Value
from stemmadb.protocol.wire.messages.reading import QueriedEntity, QueryAnswer, QueryRequest

STARTS_MAX: Final = 3
"""How often an answer that comes in pages is begun."""


class Entity(NamedTuple):
    """An entity as it was brought: nobody else holds its value. `version` and `hash` are those of its last fact."""

    id: EntityId
    version: Version
    hash: Hash
    body: bytes
    value: Value

    @property
    def size(self) -> int:
        return len(self.body)


class Pending(NamedTuple):
    """An entity as own pending writes show it: no version has it yet."""

    body: bytes
    value: Value

    @property
    def size(self) -> int:
        return len(self.body)


Shown: TypeAlias = Entity | Pending


class Cut:
    """Entities as of one version; `absent` are those that were asked for and are not there."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.entities: dict[EntityId, Entity] = {}
        self.absent: set[EntityId] = set()
        self.unresolved: list[Unresolved] = []

    def knows(self, id_: EntityId) -> bool:
        return id_ in self.entities or id_ in self.absent

    def under(self, prefixes: Sequence[str]) -> Iterator[EntityId]:
        """Those brought whose ids begin so."""
        return (id_ for id_ in self.entities if id_.startswith(tuple(prefixes)))

    def take(self, answer: QueryAnswer) -> None:
        if answer.version != self.version:
            raise Malformed(path="version", why=f"a page of version {answer.version} follows one of {self.version}")
        for one in answer.entities:
            self.entities[one.id] = _entity(one)
        self.unresolved.extend(Unresolved(one.id, one.path) for one in answer.unresolved)


async def fetch_query(asker: Asker, query: Query) -> Cut:
    """The whole answer to a query; one without a schema comes in pages, which the first pins to its version."""
    for _ in range(STARTS_MAX):
        cut = await _fetch_pages(asker, query)
        if cut is not None:
            return cut
    raise Unavailable(f"The server was restored {STARTS_MAX} times while an answer came in pages. Try again.")


async def _fetch_pages(asker: Asker, query: Query) -> Cut | None:
    """None if a server that was restored does not know the version of the pages before (RESUME-4)."""
    answer = await _ask(asker, query, None)
    cut = Cut(answer.version)
    cut.take(answer)
    while answer.next is not None:
        try:
            answer = await _ask(asker, query, answer.next)
        except Malformed as error:
            if error.facts.get("path") != "after":
                raise
            return None
        cut.take(answer)
    return cut


async def fetch_ids(
    asker: Asker, branch: BranchName, ids: Iterable[EntityId], *, version: Version | None = None
) -> Cut:
    """These entities at a version, or all of them as the head is when the first of them is read."""
    groups = list(_groups(list(dict.fromkeys(ids)), asker))
    assert groups, "asked for something"
    cut = await _fetch_group(asker, Query(_roots(groups[0]), branch, version), groups[0])
    await _fetch_groups(asker, branch, groups[1:], cut)
    return cut


async def fetch_more(asker: Asker, branch: BranchName, ids: Iterable[EntityId], cut: Cut) -> None:
    """Adds these entities to the cut, at its version."""
    await _fetch_groups(asker, branch, list(_groups(list(dict.fromkeys(ids)), asker)), cut)


async def _fetch_groups(asker: Asker, branch: BranchName, groups: Iterable[list[EntityId]], cut: Cut) -> None:
    for group in groups:
        more = await _fetch_group(asker, Query(_roots(group), branch, cut.version), group)
        cut.entities.update(more.entities)
        cut.absent.update(more.absent)


async def _fetch_group(asker: Asker, query: Query, ids: Iterable[EntityId]) -> Cut:
    cut = await fetch_query(asker, query)
    cut.absent.update(id_ for id_ in ids if id_ not in cut.entities)
    return cut


def _groups(ids: list[EntityId], asker: Asker) -> Iterator[list[EntityId]]:
    """So many at a time that neither the roots nor the message pass their bounds."""
    limits = asker.limits
    size = max(1, min(limits.roots_max, limits.schema_bytes_max // (2 * limits.id_bytes_max)))
    return (ids[at : at + size] for at in range(0, len(ids), size))


def _roots(ids: Iterable[EntityId]) -> tuple[Root, ...]:
    return tuple(map(Root, ids))


async def _ask(asker: Asker, query: Query, after: str | None) -> QueryAnswer:
    return await asker.ask(QueryRequest, QueryAnswer, query=query, after=after)


def _entity(one: QueriedEntity) -> Entity:
    return Entity(one.id, one.version, one.hash, one.body, decoded(one.body))
