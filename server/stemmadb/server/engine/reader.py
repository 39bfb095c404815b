"""Reading an open space: every question runs in a worker thread, on one cut of the log (QUERY-1, HISTORY-1)."""

from __future__ import annotations

from collections.abc import Sequence

from stemmadb.protocol.model import pointer, query
from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.query import Prepared, Query
from stemmadb.server.engine import blaming, commit_log, differing, history, listing, querying, reading
from stemmadb.server.engine.api import SpaceApi
from stemmadb.server.engine.blaming import Blamed
from stemmadb.server.engine.commit_log import EVERY_COMMIT, LogPage
from stemmadb.server.engine.differing import Differences
from stemmadb.server.engine.history import HistoryPage
from stemmadb.server.engine.listing import Listed
from stemmadb.server.engine.log_pieces import LogPlace
from stemmadb.server.engine.moments import Moment
from stemmadb.server.engine.paging import MayRead, anything
from stemmadb.server.engine.querying import Queried, QueriedPage
from stemmadb.server.engine.reading import HEAD, Got, GotMany
from stemmadb.server.storage.port import LogFilter, Order, Place


class Reader:
    """Asks one space, as one who may read what `may_read` says, within the bounds of the space.

    Each answer names the version it is as of, and has all that was acknowledged before it was asked for. A list comes
    in pages; to go on with one, give back its `next` as `after` and the version of the first page in the moment.
    """

    def __init__(self, space: SpaceApi, *, may_read: MayRead = anything) -> None:
        self._space = space
        self._limits = space.limits
        self._may_read = may_read

    async def get(self, id_: EntityId, moment: Moment = HEAD) -> Got:
        """See `reading.get`."""
        return await self._space.read(lambda log: reading.get(log, id_, moment, may_read=self._may_read))

    async def get_many(self, ids: Sequence[EntityId], moment: Moment = HEAD) -> GotMany:
        """See `reading.get_many`."""
        return await self._space.read(
            lambda log: reading.get_many(log, ids, moment, may_read=self._may_read, limits=self._limits)
        )

    async def list(
        self, prefix: str = "", moment: Moment = HEAD, *, after: EntityId | None = None, limit: int | None = None
    ) -> Listed:
        """See `listing.page`."""
        may_read, limits = self._may_read, self._limits
        return await self._space.read(
            lambda log: listing.page(log, prefix, moment, after=after, limit=limit, may_read=may_read, limits=limits)
        )

    async def query(self, asked: Query) -> Queried:
        """See `querying.run`."""
        return await self._space.read(
            lambda log: querying.run(log, self._prepared(asked), may_read=self._may_read, limits=self._limits)
        )

    async def query_page(
        self, asked: Query, *, after: EntityId | None = None, limit: int | None = None
    ) -> QueriedPage:
        """See `querying.page`."""
        may_read, limits = self._may_read, self._limits
        return await self._space.read(
            lambda log: querying.page(
                log, self._prepared(asked), after=after, limit=limit, may_read=may_read, limits=limits
            )
        )

    async def history(
        self,
        id_: EntityId,
        moment: Moment = HEAD,
        *,
        order: Order = "newest",
        after: Place | None = None,
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
        after: LogPlace | None = None,
        limit: int | None = None,
    ) -> LogPage:
        """See `commit_log.page`."""
        may_read, limits = self._may_read, self._limits
        return await self._space.read(
            lambda log: commit_log.page(
                log, wanted, with_facts=with_facts, after=after, limit=limit, may_read=may_read, limits=limits
            )
        )

    async def diff(
        self,
        left: Moment,
        right: Moment,
        prefix: str = "",
        *,
        after: EntityId | None = None,
        limit: int | None = None,
    ) -> Differences:
        """See `differing.page`."""
        may_read, limits = self._may_read, self._limits
        return await self._space.read(
            lambda log: differing.page(
                log, left, right, prefix, after=after, limit=limit, may_read=may_read, limits=limits
            )
        )

    async def blame(
        self,
        id_: EntityId,
        moment: Moment = HEAD,
        path: str = pointer.ROOT,
        *,
        after: int = 0,
        limit: int | None = None,
    ) -> Blamed:
        """See `blaming.page`."""
        may_read, limits = self._may_read, self._limits
        return await self._space.read(
            lambda log: blaming.page(
                log, id_, moment, path, after=after, limit=limit, may_read=may_read, limits=limits
            )
        )

    def _prepared(self, asked: Query) -> Prepared:
        """Compiled in the worker too: a schema may be large."""
        return query.prepare(asked, limits=self._limits, space=self._space.did)
