"""What is iterated: an async iterator as one that blocks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from stemmadb.client.sync.portal import Portal

T = TypeVar("T")
_END: Final = object()


class BlockingStream(Generic[T]):
    """Items as they come: `next` waits for one. It is over with its last item, with `close` or with a block."""

    def __init__(self, portal: Portal, items: AsyncIterator[T]) -> None:
        self._portal = portal
        self._items = items
        self._is_closed = False

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._is_closed:
            raise StopIteration
        item = self._portal.call(self._next)
        if item is _END:
            self._is_closed = True
            raise StopIteration
        return item  # type: ignore[return-value]  # the end is no item

    async def _next(self) -> T | object:
        return await anext(self._items, _END)

    def close(self) -> None:
        """Nothing more is wanted; the server is told. Safe to call twice."""
        if not self._is_closed and not self._portal.is_closed:
            self._portal.call(_close, self._items)
        self._is_closed = True

    def __enter__(self) -> BlockingStream[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()


async def _close(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()
