"""The metrics of a node: what it does with the database, and what it passes on. They exist as totals only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stemmadb.server.serving.nodes.passing import NodePassing
from stemmadb.server.storage.postgres import PostgresStorage
from stemmadb.server.storage.postgres.database_counts import What

PREFIX: Final = "stemmadb_node_"
COUNTERS: Final[dict[What, str]] = {
    "appends": "Statements that appended commits of one space or many.",
    "append_commits": "Commits that were appended by them.",
    "busy": "Appends that waited because somebody else held the row of their space.",
    "deposed": "Appends refused because another node has claimed the space.",
    "unknown": "Appends of which only a claim tells whether they are there.",
    "claims": "Spaces claimed.",
    "reconnects": "Connections to the database that took the place of one that was lost.",
    "read_views_ended": "Read views ended because they lived for longer than read_view_ms_max.",
}


class NodeMetrics(Collector):
    """Reads everything at the moment of a scrape, and asks the database nothing."""

    def __init__(self, storage: PostgresStorage, passing: NodePassing) -> None:
        self._storage = storage
        self._passing = passing

    def collect(self) -> Iterator[Metric]:
        for what, help_ in COUNTERS.items():
            yield CounterMetricFamily(f"{PREFIX}{what}", help_, value=self._storage.counts.of(what))
        passed = "Connections passed on to the owner of their space."
        yield CounterMetricFamily(f"{PREFIX}passed_on", passed, value=self._passing.passed)
        owned = "Spaces that this node owns and has open."
        yield GaugeMetricFamily(f"{PREFIX}spaces_owned", owned, value=self._storage.open_spaces)
        age = "Seconds since the last renewal of this node's row that succeeded was sent."
        yield GaugeMetricFamily(f"{PREFIX}heartbeat_age_seconds", age, value=self._storage.node.heartbeat_age)
