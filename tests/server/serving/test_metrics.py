"""Counters and how Prometheus reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server import counters
from stemmadb.server.counters import SPACES_MAX, Counts, ValueHistogram
from stemmadb.server.serving.health import Health, Readiness
from stemmadb.server.serving.listeners.http import HttpRequest
from stemmadb.server.serving.metrics import BY_CODE, NUMBERS, OTHER, SPREADS, Metrics
from wire_peers import SERVER, SPACE


class Listening:
    """The counters of a listener."""

    connections = 3
    http_connections = 6
    refused = 4
    bytes_in = 50
    bytes_out = 60
    messages_in = 7
    messages_out = 8


def asking(target: str, method: str = "GET") -> HttpRequest:
    return HttpRequest(method, target, "HTTP/1.1", {})


def scraped(counts: Counts) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels."""
    text = Metrics(counts, Listening()).scrape().decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_value_on_a_bound_counts_as_below_it() -> None:
    histogram = ValueHistogram((1, 2, 4))
    for value in (0, 1, 1.5, 2, 3, 4, 5, 100):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 2, 2]
    assert histogram.sum == 116.5


def test_histograms_add_up() -> None:
    one, other = ValueHistogram((1, 2)), ValueHistogram((1, 2))
    one.observe(1)
    other.observe(2)
    other.observe(3)
    one.add(other)
    assert (one.counts, one.sum) == ([1, 1, 1], 6)
    assert (other.counts, other.sum) == ([0, 1, 1], 5)


def test_a_space_keeps_its_counters() -> None:
    counts = Counts()
    assert counts.space(SPACE) is counts.space(SPACE)
    assert counts.space(SPACE) is not counts.space(SERVER)
    assert [did for did, _ in counts.spaces()] == [SPACE, SERVER]


def test_spaces_beyond_the_bound_are_counted_together() -> None:
    counts = Counts()
    for number in range(SPACES_MAX + 10):
        counts.space(Did(f"did:{number}")).commits += 1
    assert len(list(counts.spaces())) == SPACES_MAX
    assert counts.space(Did(f"did:{SPACES_MAX}")) is counts.other
    found = scraped(counts)
    assert found["stemmadb_space_commits_total", "did:0"] == 1
    assert found["stemmadb_space_commits_total", OTHER] == 10
    assert found["stemmadb_commits_total",] == SPACES_MAX + 10


NAMED = {
    "commits": "commits_total",
    "messages_in": "messages_received_total",
    "messages_out": "messages_sent_total",
    "bytes_in": "received_bytes_total",
    "bytes_out": "sent_bytes_total",
    "cache_hits": "cache_hits_total",
    "cache_misses": "cache_misses_total",
    "queued": "queue_depth",
    "sessions": "sessions",
    "watches": "watches",
    "groups": "watch_groups",
}


@pytest.mark.parametrize(("attribute", "name"), NAMED.items())
def test_every_number_is_there_for_each_space(attribute: str, name: str) -> None:
    counts = Counts()
    setattr(counts.space(SPACE), attribute, 5)
    setattr(counts.space(SERVER), attribute, 2)
    before = scraped(counts)
    assert before[f"stemmadb_space_{name}", SPACE] == 5
    assert before[f"stemmadb_space_{name}", SERVER] == 2
    in_all = getattr(Listening, attribute, 7)
    assert before[f"stemmadb_{name}",] == in_all


def test_a_scrape_reads_what_is_there_at_that_moment() -> None:
    counts = Counts()
    metrics = Metrics(counts, Listening(), clock=lambda: 0)  # a scrape takes no time
    assert b"stemmadb_commits_total 0.0" in metrics.scrape()
    counts.space(SPACE).commits += 3
    assert b"stemmadb_commits_total 3.0" in metrics.scrape()


def test_a_listener_is_read_too() -> None:
    found = scraped(Counts())
    assert found["stemmadb_connections",] == 3
    assert found["stemmadb_http_connections",] == 6
    assert found["stemmadb_connections_refused_total",] == 4
    assert found["process_resident_memory_bytes",] > 1_000_000


def test_rejections_and_failures_are_counted_by_code() -> None:
    counts = Counts()
    counts.space(SPACE).rejections["conflict"] += 2
    counts.space(SERVER).rejections["conflict"] += 1
    counts.space(SPACE).rejections["undeclared"] += 1
    counts.space(SPACE).failures["rate_limited"] += 9
    found = scraped(counts)
    assert found["stemmadb_space_rejections_total", "conflict", SPACE] == 2
    assert found["stemmadb_rejections_total", "conflict"] == 3
    assert found["stemmadb_rejections_total", "undeclared"] == 1
    assert found["stemmadb_failures_total", "rate_limited"] == 9
    assert ("stemmadb_failures_total", "conflict") not in found


def test_histograms_have_buckets_in_all_and_sums_for_each_space() -> None:
    counts = Counts()
    for size in (1, 3, 1_000):
        counts.space(SPACE).batch_commits.observe(size)
    counts.space(SERVER).batch_commits.observe(2)
    counts.space(SERVER).append_seconds.observe(0.003)
    found = scraped(counts)
    buckets = [found["stemmadb_batch_commits_bucket", bound] for bound in ("1.0", "2.0", "4.0", "512.0", "+Inf")]
    assert buckets == [1, 2, 3, 3, 4]
    assert (found["stemmadb_batch_commits_count",], found["stemmadb_batch_commits_sum",]) == (4, 1_006)
    assert found["stemmadb_space_batch_commits_sum", SPACE] == 1_004
    assert found["stemmadb_space_batch_commits_count", SPACE] == 3
    assert found["stemmadb_append_seconds_bucket", "0.0025"] == 0
    assert found["stemmadb_append_seconds_bucket", "0.005"] == 1


def test_everything_that_is_counted_is_shown() -> None:
    shown = {*NAMED, "rejections", "failures", "batch_commits", "append_seconds"}
    assert set(counters.SpaceCounts.__slots__) == shown
    assert len(NUMBERS) + len(BY_CODE) + len(SPREADS) == len(shown)


def test_scrapes_take_at_most_a_tenth_of_the_time() -> None:
    times = iter([0.0, 10.0, 12.0, 29.9, 30.0, 30.0])
    counts = Counts()
    metrics = Metrics(counts, Listening(), clock=lambda: next(times))
    first = metrics.scrape()  # from 10 to 12, so that it is good until 30
    counts.space(SPACE).commits += 1
    assert metrics.scrape() == first
    assert b"stemmadb_commits_total 1.0" in metrics.scrape()


def test_spaces_are_not_named_where_only_totals_are_wanted() -> None:
    counts = Counts()
    counts.space(SPACE).commits += 1
    counts.space(SPACE).rejections["conflict"] += 1
    counts.space(SPACE).append_seconds.observe(1)
    told = Metrics(counts, Listening(), names_spaces=False).scrape()
    assert b"space" not in told.replace(b" space", b"")
    for name in (b"stemmadb_commits_total 1.0", b'stemmadb_rejections_total{code="conflict"} 1.0'):
        assert name in told
    assert b"stemmadb_append_seconds_count 1.0" in told


def test_health_serves_the_metrics_unless_they_are_off(tmp_path: Path) -> None:
    answer = Health(Readiness(tmp_path), Metrics(Counts(), Listening()))(asking("/metrics"))
    assert answer is not None
    assert answer.status == 200
    assert answer.content_type.startswith("text/plain; version=")
    assert b"stemmadb_connections 3.0" in answer.body
    off = Health(Readiness(tmp_path), None)
    assert off(asking("/metrics")) is None
    assert off(asking("/metrics", "POST")) is None


def test_health_answers_four_paths_and_two_methods(tmp_path: Path) -> None:
    health = Health(Readiness(tmp_path), Metrics(Counts(), Listening()))
    for path in ("/", "/healthz", "/readyz", "/metrics"):
        answers = [health(asking(path, method)) for method in ("GET", "HEAD", "POST")]
        assert [one is not None and one.status == 405 for one in answers] == [False, False, True]
    assert [health(asking(path)) for path in ("//", "/healthz/", "/v1/spaces/x", "")] == [None] * 4


def test_it_is_ready_from_when_the_store_is_open_until_it_stops(tmp_path: Path) -> None:
    now = 0.0
    readiness = Readiness(tmp_path / "data", now=lambda: now)
    health = Health(readiness, None)

    def asked() -> tuple[int, bytes]:
        answer = health(asking("/readyz"))
        assert answer is not None
        return answer.status, answer.body

    assert asked() == (503, b"The store is not open yet.\n")
    readiness.opened()
    assert asked() == (503, b"The data directory cannot be written.\n")
    (tmp_path / "data").mkdir()
    assert asked()[0] == 503, "the disk is not asked again at once"
    now = 1.0
    assert asked() == (200, b"ok\n")
    readiness.stopping()
    assert asked() == (503, b"The server is stopping.\n")
    alive = health(asking("/healthz"))
    assert alive is not None
    assert (alive.status, alive.body) == (200, b"ok\n")
