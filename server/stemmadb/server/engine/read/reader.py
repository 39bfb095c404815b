"""Reading an open space: every question runs in a worker thread, on one read view of the log (QUERY-1, HISTORY-1)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stemmadb.protocol.model.log.commit_record import CommitKind
from stemmadb.protocol.model.query import query
from stemmadb.protocol.model.query.query import Prepared, Query
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.paging import MayRead, anything
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.engine.read import blame as blaming
from stemmadb.server.engine.read import commit_log, differences, entities, history, listing, store_queries
from stemmadb.server.engine.read.blame import Blamed, Leaf
from stemmadb.server.engine.read.commit_log import EVERY_COMMIT, LogPage
from stemmadb.server.engine.read.differences import Differences
from stemmadb.server.engine.read.entities import HEAD, Got, GotMany
from stemmadb.server.engine.read.history import HistoryPage
from stemmadb.server.engine.read.listing import ListedEntity
from stemmadb.server.engine.read.log_pieces import LogPlace
from stemmadb.server.engine.read.store_queries import Queried
from stemmadb.server.storage.port import FactPosition, LogFilter, Order


class Reader:
    """Asks one space for a caller that may read what `may_read` says, within the bounds of the space.

    Each answer names the version it is as of, and has all that was acknowledged before it was asked for. A list comes
    in pages; to go on with one, give back its `next` as `after` and the version of the first page in the moment.
    """

    def __init__(self, space: SpaceApi, *, may_read: MayRead = anything) -> None:
        self._space = space
        self._limits = space.limits
        self._may_read = may_read

    async def get(self, id_: EntityId, moment: ReadMoment = HEAD) -> Got:
        """See `reading.get`."""
        return await self._space.read(lambda log: entities.get(log, id_, moment, may_read=self._may_read))

    async def get_many(self, ids: Sequence[EntityId], moment: ReadMoment = HEAD) -> GotMany:
        """See `reading.get_many`."""
        return await self._space.read(
            lambda log: entities.get_many(log, ids, moment, may_read=self._may_read, limits=self._limits)
        )

    async def list(
        self, prefix: str = "", moment: ReadMoment = HEAD, *, after: EntityId | None = None, limit: int | None = None
    ) -> ListedEntity:
        """See `listing.page`."""
        may_read, limits = self._may_read, self._limits
        return await self._space.read(
            lambda log: listing.page(log, prefix, moment, after=after, limit=limit, may_read=may_read, limits=limits)
        )

    async def query(self, asked: Query) -> Queried:
        """See `querying.run`."""
        return await self._space.read(
            lambda log: store_queries.run(log, self._prepared(asked), may_read=self._may_read, limits=self._limits)
        )

    async def history(
        self,
        id_: EntityId,
        moment: ReadMoment = HEAD,
        *,
        order: Order = "newest",
        after: FactPosition | None = None,
        limit: int | None = None,
    ) -> HistoryPage:
        """See `history.page`."""
        may_read, limits = self._may_read, self._limits
        return await self._space.read(
            lambda log: history.page(
                log, id_, moment, order=order, after=after, limit=limit, may_read=may_read, limits=limits
            )
        )

    async def log(
        self,
        wanted: LogFilter = EVERY_COMMIT,
        *,
        with_facts: bool = False,
        with_ids: bool = False,
        kinds: Collection[CommitKind] = (),
        after: LogPlace | None = None,
        limit: int | None = None,
    ) -> LogPage:
        """See `commit_log.page`."""
        may_read, limits = self._may_read, self._limits
        return await self._space.read(
            lambda log: commit_log.page(
                log,
                wanted,
                with_facts=with_facts,
                with_ids=with_ids,
                kinds=kinds,
                after=after,
                limit=limit,
                may_read=may_read,
                limits=limits,
            )
        )

    async def diff(
        self,
        left: ReadMoment,
        right: ReadMoment,
        prefix: str = "",
        *,
        after: EntityId | None = None,
        limit: int | None = None,
    ) -> Differences:
        """See `differing.page`."""
        may_read, limits = self._may_read, self._limits
        return await self._space.read(
            lambda log: differences.page(
                log, left, right, prefix, after=after, limit=limit, may_read=may_read, limits=limits
            )
        )

    async def blame(
        self,
        id_: EntityId,
        moment: ReadMoment = HEAD,
        path: str = pointer.ROOT,
        *,
        after: int = 0,
        limit: int | None = None,
        known: Sequence[Leaf] | None = None,
    ) -> Blamed:
        """See `blaming.page`."""
        may_read, limits = self._may_read, self._limits
        return await self._space.read(
            lambda log: blaming.page(
                log, id_, moment, path, after=after, limit=limit, known=known, may_read=may_read, limits=limits
            )
        )

    def _prepared(self, asked: Query) -> Prepared:
        """Compiled in the worker too: a schema may be large."""
        return query.prepare(asked, limits=self._limits, space=self._space.did)
