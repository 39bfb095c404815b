"""Entities as the server has them, many at once and all of one version: what reads at head and past stand on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from stemmadb.client.reading.plain import decoded
from stemmadb.client.requester import Requester
from stemmadb.protocol.errors import Malformed, Unavailable
from stemmadb.protocol.model.query.query import Query, Root, Unresolved
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.reading import QueriedEntity, QueryAnswer, QueryRequest
from stemmadb.protocol.wire.version import WINDOW

STARTS_MAX: Final = 3
"""How often an answer that comes in pages is begun."""
IDLE_PAGES_MAX: Final = 64
"""Pages in a row that bring no entity: a server may leave out what must not be read, but it has to come to an end."""


class FetchedEntity(NamedTuple):
    """An entity as it was brought: nobody else holds its value. `version` and `hash` are those of its last fact."""

    id: EntityId
    version: Version
    hash: Hash
    body: bytes
    value: Value

    @property
    def size(self) -> int:
        return len(self.body)


class PendingEntity(NamedTuple):
    """An entity as own pending writes show it: no version has it yet."""

    body: bytes
    value: Value

    @property
    def size(self) -> int:
        return len(self.body)


ReadEntity: TypeAlias = FetchedEntity | PendingEntity


class FetchedSnapshot:
    """Entities as of one version; `absent` are those that were asked for and are not there."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.entities: dict[EntityId, FetchedEntity] = {}
        self.absent: set[EntityId] = set()
        self.unresolved: list[Unresolved] = []
        self.grew = True
        """Whether the last page brought anything that was not here."""

    def knows(self, id_: EntityId) -> bool:
        return id_ in self.entities or id_ in self.absent

    def under(self, prefixes: Sequence[str]) -> Iterator[EntityId]:
        """Those brought whose ids begin so."""
        return (id_ for id_ in self.entities if id_.startswith(tuple(prefixes)))

    def take(self, answer: QueryAnswer) -> None:
        if answer.version != self.version:
            raise Malformed(path="version", why=f"a page of version {answer.version} follows one of {self.version}")
        before = len(self.entities)
        for one in answer.entities:
            self.entities[one.id] = _entity(one)
        self.unresolved.extend(Unresolved(one.id, one.path) for one in answer.unresolved)
        self.grew = len(self.entities) > before


async def fetch_query(requester: Requester, query: Query) -> FetchedSnapshot:
    """The whole answer to a query; one without a schema comes in pages, which the first pins to its version."""
    if query.has_window():
        requester.check_feature(WINDOW)
    for _ in range(STARTS_MAX):
        snapshot = await _fetch_pages(requester, query)
        if snapshot is not None:
            return snapshot
    raise Unavailable(f"The server was restored {STARTS_MAX} times while an answer came in pages. Try again.")


async def _fetch_pages(requester: Requester, query: Query) -> FetchedSnapshot | None:
    """None if a server that was restored does not know the version of the pages before (RESUME-4)."""
    answer = await _ask(requester, query, None)
    snapshot = FetchedSnapshot(answer.version)
    snapshot.take(answer)
    idle = 0
    while answer.next is not None:
        idle = 0 if snapshot.grew else idle + 1
        if idle > IDLE_PAGES_MAX:
            raise Malformed(path="/next", why=f"{idle} pages in a row brought nothing, and another one is announced")
        try:
            answer = await _ask(requester, query, answer.next)
        except Malformed as error:
            if error.facts.get("path") != "/after":
                raise
            return None
        snapshot.take(answer)
    return snapshot


async def fetch_ids(
    requester: Requester, branch: BranchName, ids: Iterable[EntityId], *, version: Version | None = None
) -> FetchedSnapshot:
    """These entities at a version, or all of them as the head is when the first of them is read."""
    groups = list(_groups(list(dict.fromkeys(ids)), requester))
    assert groups, "asked for something"
    snapshot = await _fetch_group(requester, Query(_roots(groups[0]), branch, version), groups[0])
    await _fetch_groups(requester, branch, groups[1:], snapshot)
    return snapshot


async def fetch_more(
    requester: Requester, branch: BranchName, ids: Iterable[EntityId], snapshot: FetchedSnapshot
) -> None:
    """Adds these entities to the snapshot, at its version."""
    await _fetch_groups(requester, branch, list(_groups(list(dict.fromkeys(ids)), requester)), snapshot)


async def _fetch_groups(
    requester: Requester, branch: BranchName, groups: Iterable[list[EntityId]], snapshot: FetchedSnapshot
) -> None:
    for group in groups:
        more = await _fetch_group(requester, Query(_roots(group), branch, snapshot.version), group)
        snapshot.entities.update(more.entities)
        snapshot.absent.update(more.absent)


async def _fetch_group(requester: Requester, query: Query, ids: Iterable[EntityId]) -> FetchedSnapshot:
    snapshot, asked = await fetch_query(requester, query), set(ids)
    if strange := snapshot.entities.keys() - asked:
        raise Malformed(path="/entities", why=f"it has {len(strange)} entities that were not asked for")
    snapshot.absent.update(asked - snapshot.entities.keys())
    return snapshot


def _groups(ids: list[EntityId], requester: Requester) -> Iterator[list[EntityId]]:
    """So many at a time that neither the roots nor the message pass their bounds."""
    limits = requester.limits
    size = max(1, min(limits.roots_max, limits.schema_bytes_max // (2 * limits.id_bytes_max)))
    return (ids[at : at + size] for at in range(0, len(ids), size))


def _roots(ids: Iterable[EntityId]) -> tuple[Root, ...]:
    return tuple(map(Root, ids))


async def _ask(requester: Requester, query: Query, after: str | None) -> QueryAnswer:
    return await requester.ask(QueryRequest, QueryAnswer, query=query, after=after)


def _entity(one: QueriedEntity) -> FetchedEntity:
    body = records.whole_body(one)
    return FetchedEntity(one.id, one.version, one.hash, body, decoded(body))
