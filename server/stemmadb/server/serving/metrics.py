"""The counters of the process for Prometheus, read at the moment of a scrape.

Each metric of a space exists twice: per space, as `stemmadb_space_...{space="did:..."}`, and as a server-wide total,
`stemmadb_...`. Histograms have buckets for the total only; per space there are a sum and a count, since the buckets
of a thousand spaces would block the event loop for too long.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from stemmadb.server.counters import Counts, SpaceCounts, ValueHistogram

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
SPACE_PREFIX: Final = "stemmadb_space_"
REST: Final = 9
"""After a scrape the loop has this many times its duration for other work before the next one."""
OTHER: Final = "other"
"""The label of all spaces without counters of their own."""

Labelled: TypeAlias = Sequence[tuple[str, SpaceCounts]]
Family: TypeAlias = type[CounterMetricFamily] | type[GaugeMetricFamily]


class ListenerCounts(Protocol):
    """What a listener counts, for all spaces together."""

    connections: int
    http_connections: int
    refused: int
    bytes_in: int
    bytes_out: int
    messages_in: int
    messages_out: int


class Number(msgspec.Struct, frozen=True):
    """A counter or gauge that is one number for each space."""

    name: str
    help: str
    family: Family
    read: Callable[[SpaceCounts], int]
    in_all: Callable[[ListenerCounts], int] | None = None
    """Where the total comes from if not from the spaces: a connection without a session belongs to no space."""


class ByCode(msgspec.Struct, frozen=True):
    """A counter for each code."""

    name: str
    help: str
    read: Callable[[SpaceCounts], Counter[str]]


class Spread(msgspec.Struct, frozen=True):
    """A histogram."""

    name: str
    help: str
    read: Callable[[SpaceCounts], ValueHistogram]


def _counter(
    name: str, help_: str, read: Callable[[SpaceCounts], int], in_all: Callable[[ListenerCounts], int] | None = None
) -> Number:
    return Number(name, help_, CounterMetricFamily, read, in_all)


def _gauge(name: str, help_: str, read: Callable[[SpaceCounts], int]) -> Number:
    return Number(name, help_, GaugeMetricFamily, read)


NUMBERS: Final = (
    _counter("commits", "Commits accepted and durable.", lambda one: one.commits),
    _counter(
        "messages_received", "Messages from clients.", lambda one: one.messages_in, lambda all_: all_.messages_in
    ),
    _counter("messages_sent", "Messages to clients.", lambda one: one.messages_out, lambda all_: all_.messages_out),
    _counter("received_bytes", "Bytes of messages received.", lambda one: one.bytes_in, lambda all_: all_.bytes_in),
    _counter("sent_bytes", "Bytes of messages sent.", lambda one: one.bytes_out, lambda all_: all_.bytes_out),
    _counter("cache_hits", "Heads found in memory.", lambda one: one.cache_hits),
    _counter("cache_misses", "Heads read from the log.", lambda one: one.cache_misses),
    _gauge("queue_depth", "Commits waiting to be decided.", lambda one: one.queued),
    _gauge("sessions", "Sessions connected now.", lambda one: one.sessions),
    _gauge("watches", "Watches open now.", lambda one: one.watches),
    _gauge("watch_groups", "Different watches open now.", lambda one: one.groups),
)
BY_CODE: Final = (
    ByCode("rejections", "Commits not accepted, by code of the verdict.", lambda one: one.rejections),
    ByCode("failures", "Requests answered with an error that is no verdict, by code.", lambda one: one.failures),
)
SPREADS: Final = (
    Spread("batch_commits", "Commits written together, with one sync.", lambda one: one.batch_commits),
    Spread("append_seconds", "Seconds for one append with its sync.", lambda one: one.append_seconds),
)


class Metrics:
    """What `/metrics` answers. It has its own registry, so that several servers can run in one process.

    Scrapes take at most about a tenth of the time: one that comes too soon gets the previous answer.
    """

    def __init__(
        self,
        counts: Counts,
        traffic: ListenerCounts,
        *,
        names_spaces: bool = True,
        clock: Callable[[], float] = time.monotonic,
        beside: Sequence[Collector] = (),
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Reader(counts, traffic, names_spaces))
        for one in beside:
            self._registry.register(one)
        ProcessCollector(registry=self._registry)
        self._clock = clock
        self._answer = b""
        self._good_until = clock()

    def scrape(self) -> bytes:
        began = self._clock()
        if began >= self._good_until:
            self._answer = generate_latest(self._registry)
            ended = self._clock()
            self._good_until = ended + REST * (ended - began)
        return self._answer


class _Reader(Collector):
    def __init__(self, counts: Counts, traffic: ListenerCounts, names_spaces: bool) -> None:
        self._counts = counts
        self._traffic = traffic
        self._names_spaces = names_spaces

    def collect(self) -> Iterator[Metric]:
        labelled: Labelled = [*self._counts.spaces(), (OTHER, self._counts.other)]
        families = self._families(labelled)
        yield from families if self._names_spaces else (one for one in families if not _names_spaces(one))

    def _families(self, labelled: Labelled) -> Iterator[Metric]:
        traffic = self._traffic
        yield GaugeMetricFamily("stemmadb_connections", "WebSockets open now.", value=traffic.connections)
        http = "HTTP connections open now, streams and this scrape among them."
        yield GaugeMetricFamily("stemmadb_http_connections", http, value=traffic.http_connections)
        refused = "Connections and handshakes refused."
        yield CounterMetricFamily("stemmadb_connections_refused", refused, value=traffic.refused)
        for number in NUMBERS:
            yield from _numbers(number, labelled, traffic)
        for by_code in BY_CODE:
            yield from _codes(by_code, labelled)
        for spread in SPREADS:
            yield from _spreads(spread, labelled)


def _names_spaces(family: Metric) -> bool:
    return family.name.startswith(SPACE_PREFIX)


def _numbers(number: Number, labelled: Labelled, traffic: ListenerCounts) -> Iterator[Metric]:
    each = number.family(f"{SPACE_PREFIX}{number.name}", number.help, labels=["space"])
    total = 0
    for space, counts in labelled:
        value = number.read(counts)
        each.add_metric([space], value)
        total += value
    yield each
    in_all = total if number.in_all is None else number.in_all(traffic)
    yield number.family(f"stemmadb_{number.name}", number.help, value=in_all)


def _codes(by_code: ByCode, labelled: Labelled) -> Iterator[Metric]:
    each = CounterMetricFamily(f"{SPACE_PREFIX}{by_code.name}", by_code.help, labels=["space", "code"])
    total: Counter[str] = Counter()
    for space, counts in labelled:
        for code, count in by_code.read(counts).items():
            each.add_metric([space, code], count)
            total[code] += count
    yield each
    in_all = CounterMetricFamily(f"stemmadb_{by_code.name}", by_code.help, labels=["code"])
    for code, count in total.items():
        in_all.add_metric([code], count)
    yield in_all


def _spreads(spread: Spread, labelled: Labelled) -> Iterator[Metric]:
    each = SummaryMetricFamily(f"{SPACE_PREFIX}{spread.name}", spread.help, labels=["space"])
    total = ValueHistogram(spread.read(labelled[0][1]).bounds)
    for space, counts in labelled:
        one = spread.read(counts)
        each.add_metric([space], count_value=sum(one.counts), sum_value=one.sum)
        total.add(one)
    yield each
    yield HistogramMetricFamily(f"stemmadb_{spread.name}", spread.help, buckets=_buckets(total), sum_value=total.sum)


def _buckets(histogram: ValueHistogram) -> Sequence[tuple[str, float]]:
    """Prometheus wants how many were at most each bound."""
    reached = 0
    buckets = []
    for bound, count in zip(_bounds(histogram.bounds), histogram.counts, strict=True):
        reached += count
        buckets.append((bound, float(reached)))
    return buckets


def _bounds(bounds: Iterable[float]) -> list[str]:
    return [*(repr(float(bound)) for bound in bounds), "+Inf"]
