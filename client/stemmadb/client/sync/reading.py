"""Reading the past in a blocking way: lists that are iterated, and a branch as it was."""

from __future__ import annotations

from typing import Generic, TypeVar, Unpack

from stemmadb.client.reading import moment, pages
from stemmadb.client.reading.entries import BlameLine, HistoryEntry
from stemmadb.client.reading.queries import QueryResult, Schema, Selector
from stemmadb.client.reading.windows import WindowOptions
from stemmadb.client.sync.portal import Portal
from stemmadb.client.sync.streams import BlockingStream
from stemmadb.protocol.model.query.query import EVERY
from stemmadb.protocol.model.values.ids import BranchName, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire.messages.reading import Order

T = TypeVar("T")


class Listing(Generic[T]):
    """A list on the server, read as it is iterated:

        for entry in space.history("urn:todo:1"):
            print(entry.version, entry.author)
        newest = space.history("urn:todo:1").first()

    Every iteration begins anew and shows one version.
    """

    def __init__(self, listing: pages.Listing[T], portal: Portal) -> None:
        self._listing = listing
        self._portal = portal

    @property
    def version(self) -> Version | None:
        """The version that is shown; None until the first page is here."""
        return self._listing.version

    def __iter__(self) -> BlockingStream[T]:
        return BlockingStream(self._portal, self._listing.__aiter__())

    def all(self, limit: int | None = None) -> list[T]:
        """The items, at most `limit` of them."""
        return self._portal.call(self._listing.all, limit)

    def first(self) -> T | None:
        """The first item, None if there is none."""
        return self._portal.call(self._listing.first)

    def __repr__(self) -> str:
        return repr(self._listing)


class Moment:
    """A past state, read only:

        then = space.at(version=7)
        value = then.get("urn:todo:1")
        everything = then.list()

    Without a version, a time or a tag it is the head, as it is when it is first asked. What is asked first settles
    `version`, and all that follows is of that version.
    """

    def __init__(self, then: moment.Moment, portal: Portal) -> None:
        self._then = then
        self._portal = portal

    @property
    def branch(self) -> BranchName:
        """The branch; that of the tag, once it was looked up."""
        return self._then.branch

    @property
    def version(self) -> Version | None:
        """The version, None until the first answer says which one the time or the tag means."""
        return self._then.version

    def get(self, id_: str, path: str = "") -> Value:
        """The value then, or the part of it at `path`; None if there was none. `Erased` if it was erased since."""
        return self._portal.call(self._then.get, id_, path)

    def list(self, prefix: str = EVERY) -> dict[str, Value]:
        """Everything that was under a prefix such as `urn:todo:*`, by id; what was erased since is left out."""
        return self._portal.call(self._then.list, prefix)

    def query(
        self, selector: Selector, *, schema: Schema | None = None, path: str = "", **window: Unpack[WindowOptions]
    ) -> QueryResult:
        """What a query would have found then; see `QueryResult`."""
        return self._portal.call(self._then.query, selector, schema=schema, path=path, **window)

    def history(self, id_: str, *, order: Order = "newest") -> Listing[HistoryEntry]:
        """The changes of an entity up to here."""
        return Listing(self._then.history(id_, order=order), self._portal)

    def blame(self, id_: str, path: str = "") -> tuple[BlameLine, ...]:
        """Who had written each leaf by then."""
        return self._portal.call(self._then.blame, id_, path)

    def settled(self) -> Version:
        """The version, found out if it is not known yet."""
        return self._portal.call(self._then.settled)

    def __repr__(self) -> str:
        return repr(self._then)
