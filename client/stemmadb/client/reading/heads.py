"""Reads at the head of a branch, as the server has it, with own pending writes on top (NURSERY-1).

A read waits for the server, and meanwhile own commits are made, accepted and refused. So what the server brings is
of one version, and the pending writes are put on top of all of it in one go, without waiting in between. If an own
commit was accepted after that version, what came would lack it, and it is read again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Set
from typing import Final, TypeVar, Unpack

from stemmadb.client.nursery.entities import ABSENT, Nothing
from stemmadb.client.reading.fetch import (
    FetchedSnapshot,
    PendingEntity,
    ReadEntity,
    fetch_ids,
    fetch_more,
    fetch_query,
)
from stemmadb.client.reading.plain import decoded, part_of
from stemmadb.client.reading.queries import (
    QueryResult,
    Schema,
    Selector,
    listing_root,
    roots_of,
    unbounded,
)
from stemmadb.client.reading.windows import WindowOptions, windowed
from stemmadb.client.requester import PendingOverlay, Requester
from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.query import query
from stemmadb.protocol.model.query.query import Ask, Prepared, Query, Root, Supply, TraversalResult, Unresolved
from stemmadb.protocol.model.query.traversal import traverse
from stemmadb.protocol.model.values import body, ids, pointer
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import Limits

HEAD_READS_MAX: Final = 8
"""How often a head is read again because own commits were accepted while it was read."""

T = TypeVar("T")


class Heads:
    """What is at the head of one branch, own writes included at once.

    value = await heads.get("urn:todo:1")
    found = await heads.query("urn:todo:*", schema={"properties": {"done": {"const": False}}})
    """

    def __init__(self, requester: Requester, overlay: PendingOverlay, *, branch: BranchName, space: Did) -> None:
        self._requester = requester
        self._overlay = overlay
        self._branch = branch
        self._space = space

    async def get(self, id_: str, path: str = pointer.ROOT) -> Value:
        """The value, or the part of it at `path`; None if there is none."""
        entity_id = ids.entity_id(id_, self._requester.limits.id_bytes_max)
        pointer.parse(path)

        async def attempt() -> FetchedSnapshot | None:
            snapshot = await fetch_ids(self._requester, self._branch, (entity_id,))
            return None if self._misses((entity_id,), snapshot) else snapshot

        snapshot = await _read(attempt)
        shown = _View(self._overlay, self._branch, snapshot).entity(entity_id)
        return None if shown is None else part_of(shown.value, path)

    async def list(self, prefix: str = query.EVERY) -> dict[str, Value]:
        """Everything under a prefix such as `urn:todo:*`, by id."""
        return (await self._run(listing_root(prefix))).entities

    async def query(
        self, selector: Selector, *, schema: Schema | None = None, path: str = "", **window: Unpack[WindowOptions]
    ) -> QueryResult:
        """What a query finds now; see `QueryResult`."""
        return await self._run(roots_of(selector, schema=schema, path=path), **window)

    async def _run(self, roots: tuple[Root, ...], **window: Unpack[WindowOptions]) -> QueryResult:
        asked = windowed(roots, self._branch, window)
        prepared = query.prepare(asked, limits=self._requester.limits, space=self._space)

        async def attempt() -> QueryResult | None:
            return await self._attempt(asked, prepared)

        return await _read(attempt)

    async def _attempt(self, asked: Query, prepared: Prepared) -> QueryResult | None:
        """The answer; None if it would lack an own commit."""
        written = set(self._overlay.layered(self._branch))
        snapshot = await fetch_query(self._requester, asked)
        written |= self._overlay.layered(self._branch)
        if not written:
            return self._result(snapshot, snapshot.entities, snapshot.unresolved, asked, prepared)
        found = _pass(prepared, self._view(snapshot), self._bounds(prepared))
        while isinstance(found, list):
            await fetch_more(self._requester, self._branch, found, snapshot)
            written |= self._overlay.layered(self._branch)
            found = _pass(prepared, self._view(snapshot), self._bounds(prepared))
        if self._misses({*written, *snapshot.entities, *snapshot.absent}, snapshot):
            return None
        return self._result(snapshot, found.entities, found.unresolved, asked, prepared)

    def _view(self, snapshot: FetchedSnapshot) -> _View:
        return _View(self._overlay, self._branch, snapshot)

    def _misses(self, touched: Iterable[EntityId], snapshot: FetchedSnapshot) -> bool:
        return any(self._overlay.accepted_after(self._branch, id_, snapshot.version) for id_ in touched)

    def _bounds(self, prepared: Prepared) -> Limits:
        has_schema = any(start.conjuncts is not None for start in prepared.starts)
        return self._requester.limits if has_schema else unbounded(self._requester.limits)

    def _result(
        self,
        snapshot: FetchedSnapshot,
        entities: Mapping[EntityId, ReadEntity],
        unresolved: Iterable[Unresolved],
        asked: Query,
        prepared: Prepared,
    ) -> QueryResult:
        return QueryResult(
            version=snapshot.version,
            entities=entities,
            unresolved=unresolved,
            order=asked.order,
            prepared=prepared,
            limits=self._requester.limits,
        )


async def _read(attempt: Callable[[], Awaitable[T | None]]) -> T:
    for _ in range(HEAD_READS_MAX):
        got = await attempt()
        if got is not None:
            return got
    raise Unavailable(f"Own commits changed what was read {HEAD_READS_MAX} times while it was read. Try again.")


class _View:
    """The entities of a snapshot as they are shown: pending writes on top, in copies that nobody else holds."""

    def __init__(self, overlay: PendingOverlay, branch: BranchName, snapshot: FetchedSnapshot) -> None:
        self._overlay = overlay
        self._branch = branch
        self._snapshot = snapshot
        self._layered: Set[EntityId] = overlay.layered(branch)

    def lacks(self, ask: Ask) -> list[EntityId]:
        """What the server must be asked for first.

        Under a prefix that is only what is pending and did not come: of all the rest the server has said already
        whether it matches, and no pending write changes that.
        """
        wanted = (*ask.ids, *self._pending_under(ask.prefixes))
        return [id_ for id_ in dict.fromkeys(wanted) if not self._snapshot.knows(id_)]

    def supply(self, ask: Ask) -> dict[EntityId, ReadEntity]:
        wanted = (*ask.ids, *self._snapshot.under(ask.prefixes), *self._pending_under(ask.prefixes))
        shown = ((id_, self.entity(id_)) for id_ in dict.fromkeys(wanted))
        return {id_: entity for id_, entity in shown if entity is not None}

    def entity(self, id_: EntityId) -> ReadEntity | None:
        cached = self._snapshot.entities.get(id_)
        if id_ not in self._layered:
            return cached
        value = self._overlay.over(self._branch, id_, ABSENT if cached is None else cached.value)
        if cached is not None and value is cached.value:
            return cached
        if isinstance(value, Nothing):
            assert value is ABSENT, "on top of what is known nothing is unknown"
            return None
        encoded = body.encode(value)
        return PendingEntity(encoded, decoded(encoded))

    def _pending_under(self, prefixes: tuple[str, ...]) -> Iterable[EntityId]:
        return (id_ for id_ in sorted(self._layered) if id_.startswith(prefixes)) if prefixes else ()


def _pass(prepared: Prepared, view: _View, limits: Limits) -> TraversalResult[ReadEntity] | list[EntityId]:
    """The whole query over what is shown, without waiting; or the ids that it lacks."""
    walk: Generator[Ask, Supply[ReadEntity], TraversalResult[ReadEntity]] = traverse(prepared, limits=limits)
    ask = next(walk)
    while True:
        if lacking := view.lacks(ask):
            return lacking
        try:
            ask = walk.send(view.supply(ask))
        except StopIteration as end:
            answer: TraversalResult[ReadEntity] = end.value
            return answer
