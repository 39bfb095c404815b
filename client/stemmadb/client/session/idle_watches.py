"""Cached watches that no app has open: they are kept up to date, so that opening one again needs no server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs


class IdleWatch:
    """In the place of a watcher: nobody looks, so nothing is noted (`nursery.overlay.Watched`)."""

    def __init__(self, branch: BranchName) -> None:
        self.branch = branch

    def mark(self, ids: Iterable[EntityId]) -> None:
        """Whoever takes the watch over looks at all of it."""

    def fill(self) -> None:
        """The nursery knows."""

    def unfill(self) -> None:
        """The nursery knows."""

    def end(self, error: StemmaError) -> None:
        """The session lets it go."""


class IdleWatches:
    """By canonical query; there is one for each, at most."""

    def __init__(self) -> None:
        self._watches: dict[str, tuple[int, Query]] = {}

    def add(self, key: str, number: int, query: Query) -> None:
        self._watches[key] = (number, query)

    def take(self, key: str) -> int | None:
        """The watch of this query, which is idle no longer."""
        found = self._watches.pop(key, None)
        return None if found is None else found[0]

    def discard(self, number: int) -> bool:
        """Lets it go; whether it was here."""
        found = [key for key, (one, _) in self._watches.items() if one == number]
        for key in found:
            del self._watches[key]
        return bool(found)

    def pop_oldest(self, used: Callable[[int], TimeMs]) -> int:
        """The one that was not used for longest."""
        key = min(self._watches, key=lambda one: (used(self._watches[one][0]), self._watches[one][0]))
        return self._watches.pop(key)[0]

    def numbers(self) -> list[int]:
        return [number for number, _ in self._watches.values()]

    def items(self) -> Iterator[tuple[int, Query]]:
        return iter(tuple(self._watches.values()))

    def __len__(self) -> int:
        return len(self._watches)
