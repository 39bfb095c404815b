"""Limits on connections that hold for all workers together. No I/O.

Each worker counts its own (`LocalCounts`) and reports what changed to the parent, which adds them up (`SharedCounts`)
and says what has reached its limit. A worker refuses what the parent says is full, so a limit can be exceeded by what
arrives while one message is on its way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from stemmadb.server.service.base.rate_limits import PRINCIPAL
from stemmadb.server.serving.listeners.listener import ADDRESS, ALL


class LocalCounts:
    """The connections of one worker; `changed` is called when there is something to report."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._changed = changed
        self._counts: Counter[str] = Counter()
        self._unreported: dict[str, None] = {}
        self._full: frozenset[str] = frozenset()

    def count(self, key: str, step: int) -> None:
        self._counts[key] += step
        if not self._counts[key]:
            del self._counts[key]
        if not self._unreported:
            self._changed()
        self._unreported[key] = None

    def is_full(self, key: str) -> bool:
        """Whether all workers together have as many as they may."""
        return key in self._full

    def report(self) -> dict[str, int]:
        """What has changed since the last report, as it is now."""
        keys, self._unreported = self._unreported, {}
        return {key: self._counts[key] for key in keys}

    def take(self, full: frozenset[str]) -> None:
        """What the parent says."""
        self._full = full


class SharedCounts:
    """All workers together, in the parent."""

    def __init__(self, *, connections_max: int, per_address_max: int | None, per_principal_max: int) -> None:
        self._maxima = {ALL: connections_max, ADDRESS: per_address_max, PRINCIPAL: per_principal_max}
        self._workers: dict[int, dict[str, int]] = {}
        self._sums: Counter[str] = Counter()
        self._full: set[str] = set()

    @property
    def full(self) -> frozenset[str]:
        return frozenset(self._full)

    def take(self, worker: int, report: Mapping[str, int]) -> bool:
        """What a worker reports; True if something else is full now."""
        known = self._workers.setdefault(worker, {})
        before = self.full
        for key, count in report.items():
            self._sums[key] += count - known.get(key, 0)
            known[key] = count
            if not count:
                del known[key]
            self._compare(key)
        return self._full != before

    def forget(self, worker: int) -> bool:
        """The worker has died, and its connections with it; True if something else is full now."""
        return self.take(worker, dict.fromkeys(self._workers.get(worker, {}), 0))

    def _compare(self, key: str) -> None:
        maximum = self._maxima[key if key == ALL else key[:2]]
        if maximum is not None and self._sums[key] >= maximum:
            self._full.add(key)
        else:
            self._full.discard(key)
        if not self._sums[key]:
            del self._sums[key]
