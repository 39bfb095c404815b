"""Lists that come in pages: nothing is asked before someone looks, and all pages are of one version (QUERY-6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from stemmadb.protocol.errors import InvalidQuery
from stemmadb.protocol.model.values.ids import Version

T = TypeVar("T")


class ListPage(NamedTuple, Generic[T]):
    """Some items, as of `version`; with `next` there are more."""

    version: Version
    items: tuple[T, ...]
    next: str | None = None


Fetch: TypeAlias = Callable[[str | None, int | None], Awaitable[ListPage[T]]]
"""Asks for the page after a cursor, of at most so many items."""


class PageWalk(Protocol[T]):
    """One way through a list, page by page."""

    async def turn(self) -> ListPage[T] | None:
        """The next page, None after the last."""
        ...


class PageTurner(Generic[T]):
    """Page after page, each fetched when it is wanted; the cursor of the first pins the version of them all."""

    def __init__(self, fetch: Fetch[T], size: int | None) -> None:
        self._fetch = fetch
        self._size = size
        self._after: str | None = None
        self._is_over = False

    async def turn(self) -> ListPage[T] | None:
        if self._is_over:
            return None
        page = await self._fetch(self._after, self._size)
        self._after, self._is_over = page.next, page.next is None
        return page


class Listing(Generic[T]):
    """A list on the server, read as it is iterated:

        async for entry in space.history("urn:todo:1"):
            print(entry.version, entry.author)
        newest = await space.history("urn:todo:1").first()

    Every iteration begins anew and shows one version.
    """

    def __init__(self, start: Callable[[int | None], PageWalk[T]]) -> None:
        self._start = start
        self.version: Version | None = None
        """The version that is shown; None until the first page is here."""

    def __aiter__(self) -> ListIterator[T]:
        return ListIterator(self, self._start(None))

    async def all(self, limit: int | None = None) -> list[T]:
        """The items, at most `limit` of them."""
        if limit is not None and limit < 0:
            raise InvalidQuery(why="a limit is 0 or more")
        items: list[T] = []
        if limit == 0:
            return items
        async for item in ListIterator(self, self._start(limit)):
            items.append(item)
            if len(items) == limit:
                break
        return items

    async def first(self) -> T | None:
        """The first item, None if there is none."""
        return next(iter(await self.all(limit=1)), None)

    def __repr__(self) -> str:
        return f"Listing(version={self.version})"


class ListIterator(Generic[T]):
    """An iteration. Not a generator: one that is left early has nothing to close."""

    def __init__(self, listing: Listing[T], walk: PageWalk[T]) -> None:
        self._listing = listing
        self._walk = walk
        self._items: deque[T] = deque()

    def __aiter__(self) -> ListIterator[T]:
        return self

    async def __anext__(self) -> T:
        while not self._items:
            page = await self._walk.turn()
            if page is None:
                raise StopAsyncIteration
            self._listing.version = page.version
            self._items.extend(page.items)
        return self._items.popleft()
