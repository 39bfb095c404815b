"""Heads by prefix: sorted once, when first asked, so that what is under a prefix costs what is there."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from stemmadb.protocol.model.log.state import EntityState
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, EntityId, Version
from stemmadb.server.engine.base.head_cache import Key


class Prefixed:
    """Of heads that do not change any more."""

    def __init__(self, heads: Mapping[Key, EntityState]) -> None:
        self._heads = heads
        self._ids: dict[BranchName, list[EntityId]] | None = None
        self._seen_after: dict[tuple[BranchName, str], Version] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._heads

    def under(self, branch: BranchName, prefix: str) -> Iterator[EntityState]:
        """The heads on the branch whose id begins with the prefix, in the order of their ids."""
        ids = self._sorted().get(branch, [])
        for index in range(bisect_left(ids, prefix), len(ids)):
            id_ = ids[index]
            if not id_.startswith(prefix):
                break
            yield self._heads[branch, id_]

    def seen_after(self, branch: BranchName, prefix: str) -> Version:
        """The version after which the changes of all of them are known; many reads ask it of one prefix."""
        key = (branch, prefix)
        if key not in self._seen_after:
            versions = (head.seen_after for head in self.under(branch, prefix))
            self._seen_after[key] = max(versions, default=EMPTY_SPACE)
        return self._seen_after[key]

    def _sorted(self) -> Mapping[BranchName, list[EntityId]]:
        if self._ids is None:
            self._ids = {}
            for branch, id_ in sorted(self._heads):
                self._ids.setdefault(branch, []).append(id_)
        return self._ids
