"""A branch as it was: at a version, at a time or at a tag; everything asked of it is of one version (HISTORY-2)."""

from __future__ import annotations

import asyncio
from typing import Unpack

from msgspec.structs import replace

from stemmadb.client.reading import past
from stemmadb.client.reading.branches import find_tag
from stemmadb.client.reading.entries import BlameLine, HistoryEntry
from stemmadb.client.reading.fetch import FetchedSnapshot, fetch_query
from stemmadb.client.reading.pages import Listing
from stemmadb.client.reading.past import HistoryPoint
from stemmadb.client.reading.plain import part_of
from stemmadb.client.reading.queries import QueryResult, Schema, Selector, listing_root, roots_of
from stemmadb.client.reading.times import When, milliseconds, optional_version
from stemmadb.client.reading.windows import WindowOptions, windowed
from stemmadb.client.requester import Requester
from stemmadb.protocol.errors import Erased, InvalidQuery, NotFound
from stemmadb.protocol.model.query import query
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values import ids, pointer
from stemmadb.protocol.model.values.ids import BranchName, Did, TimeMs, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire.messages import reading
from stemmadb.protocol.wire.messages.reading import Order


class Moment:
    """A past state, read only:

        then = space.at(version=7)
        value = await then.get("urn:todo:1")
        everything = await then.list()

    Without a version, a time or a tag it is the head, as it is when it is first asked. What is asked first settles
    `version`, and all that follows is of that version.
    """

    def __init__(
        self,
        requester: Requester,
        *,
        branch: BranchName,
        space: Did,
        version: int | None = None,
        time: When | None = None,
        tag: str | None = None,
    ) -> None:
        if sum(given is not None for given in (version, time, tag)) > 1:
            raise InvalidQuery(why="it names more than one of a version, a time and a tag")
        self._requester = requester
        self._space = space
        self._time: TimeMs | None = None if time is None else milliseconds(time)
        self._tag = None if tag is None else ids.branch_name(tag)
        self._settling = asyncio.Lock()
        self.branch = branch
        """The branch; that of the tag, once it was looked up."""
        self.version: Version | None = optional_version(version)
        """The version, None until the first answer says which one the time or the tag means."""

    async def get(self, id_: str, path: str = pointer.ROOT) -> Value:
        """The value then, or the part of it at `path`; None if there was none. `Erased` if it was erased since."""
        entity_id = ids.entity_id(id_, self._requester.limits.id_bytes_max)
        pointer.parse(path)
        snapshot = await self._fetch(Query((Root(entity_id),)))
        cached = snapshot.entities.get(entity_id)
        if cached is None:
            await self._check_not_erased(entity_id, snapshot.version)
            return None
        return part_of(cached.value, path)

    async def list(self, prefix: str = query.EVERY) -> dict[str, Value]:
        """Everything that was under a prefix such as `urn:todo:*`, by id; what was erased since is left out."""
        snapshot = await self._fetch(Query(listing_root(prefix)))
        return {id_: entity.value for id_, entity in snapshot.entities.items()}

    async def query(
        self, selector: Selector, *, schema: Schema | None = None, path: str = "", **window: Unpack[WindowOptions]
    ) -> QueryResult:
        """What a query would have found then; see `QueryResult`."""
        asked = windowed(roots_of(selector, schema=schema, path=path), self.branch, window)
        limits = self._requester.limits
        prepared = query.prepare(asked, limits=limits, space=self._space)
        snapshot = await self._fetch(asked)
        return QueryResult(
            version=snapshot.version,
            entities=snapshot.entities,
            unresolved=snapshot.unresolved,
            order=asked.order,
            prepared=prepared,
            limits=limits,
        )

    def history(self, id_: str, *, order: Order = "newest") -> Listing[HistoryEntry]:
        """The changes of an entity up to here."""
        return past.history(self._requester, id_, self._point, order=order)

    async def blame(self, id_: str, path: str = pointer.ROOT) -> tuple[BlameLine, ...]:
        """Who had written each leaf by then."""
        version = await self.settled()
        return await past.blame(self._requester, id_, branch=self.branch, version=version, path=path)

    async def settled(self) -> Version:
        """The version, found out if it is not known yet."""
        if self.version is None:
            await self._fetch(Query((Root(self._space),)))
        assert self.version is not None, "an answer says its version"
        return self.version

    async def _point(self) -> HistoryPoint:
        version = await self.settled()
        return HistoryPoint(self.branch, version)

    async def _fetch(self, asked: Query) -> FetchedSnapshot:
        if self.version is None:
            async with self._settling:
                if self.version is None:
                    return await self._first(asked)
        return await fetch_query(self._requester, replace(asked, branch=self.branch, version=self.version))

    async def _first(self, asked: Query) -> FetchedSnapshot:
        """The first answer, which settles the version."""
        asked = replace(asked, branch=self.branch, time=self._time)
        if self._tag is not None:
            tag = await find_tag(self._requester, self._tag)
            asked = replace(asked, branch=tag.branch, version=tag.version, time=None)
        snapshot = await fetch_query(self._requester, asked)
        self.branch, self.version = BranchName(asked.branch), snapshot.version
        return snapshot

    async def _check_not_erased(self, id_: ids.EntityId, version: Version) -> None:
        """A query does not tell what was erased from what never was (QUERY-5); the last fact of the entity does."""
        try:
            answer = await self._requester.ask(
                reading.HistoryRequest,
                reading.HistoryAnswer,
                entity=id_,
                branch=self.branch,
                version=version,
                limit=1,
            )
        except NotFound:
            return
        if any(entry.kind != "delete" for entry in answer.entries):
            raise Erased(id=id_)

    def __repr__(self) -> str:
        if self.version is not None:
            return f"Moment({self.branch!r}, version={self.version})"
        named = f"time={self._time}" if self._tag is None else f"tag={self._tag!r}"
        return f"Moment({self.branch!r}, {named})"
