"""Which `Host` headers are answered where a page of a rebound name must not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from stemmadb.server.counters import Counts
from stemmadb.server.serving.health import Health, Readiness
from stemmadb.server.serving.listeners.hosts import AllowedHosts
from stemmadb.server.serving.listeners.http import HttpRequest
from stemmadb.server.serving.listeners.origins import AllowedOrigins
from stemmadb.server.serving.metrics import Metrics


class Listening:
    """The counters of a listener."""

    connections = 3
    http_connections = 0
    refused = 4
    bytes_in = 50
    bytes_out = 60
    messages_in = 7
    messages_out = 8


HOSTS = AllowedHosts(("db.example", "Metrics.Example"))


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8420",
        "127.0.0.1:8420",
        "[::1]:8420",
        "[::1]",
        "10.1.2.3",
        "db.example",
        "metrics.example.:9",
    ],
)
def test_the_names_of_the_server_and_addresses_are_answered(host: str) -> None:
    assert HOSTS.allow([host])


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8420", "", "xdb.example"]
)
def test_any_other_name_is_not(host: str) -> None:
    assert not HOSTS.allow([host])


def test_a_request_without_a_host_is_no_browser_and_two_hosts_are_refused() -> None:
    assert HOSTS.allow([])
    assert not HOSTS.allow(["localhost", "localhost"])


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize(
    ("host", "status"), [("localhost:8420", 200), ("db.example", 200), ("evil.example:8420", 421)]
)
def test_metrics_are_not_read_by_a_page_of_a_rebound_name(tmp_path: Path, host: str, status: int) -> None:
    health = Health(Readiness(tmp_path), Metrics(Counts(), Listening()), hosts=HOSTS)
    answer = health(HttpRequest("GET", "/metrics", "HTTP/1.1", {"host": [host]}))
    assert answer is not None
    assert answer.status == status
    alive = health(HttpRequest("GET", "/healthz", "HTTP/1.1", {"host": [host]}))
    assert alive is not None
    assert alive.status == 200


@pytest.mark.rule("HTTP-3")
@pytest.mark.parametrize("is_loopback", [True, False])
@pytest.mark.parametrize(
    "host", ["localhost:8420", "127.0.0.1", "[::1]:1", "10.1.2.3", "db.example", "db.example:1", "evil.example", ""]
)
def test_the_page_is_shown_under_the_names_of_the_server_alone(tmp_path: Path, host: str, is_loopback: bool) -> None:
    origins = AllowedOrigins(("https://app.example",), public=("https://db.example",), is_loopback=is_loopback)
    answer = Health(Readiness(tmp_path), None, origins=origins)(HttpRequest("GET", "/", "HTTP/1.1", {"host": [host]}))
    assert answer is not None
    is_known = host == "db.example" or (is_loopback and host in ("localhost:8420", "127.0.0.1", "[::1]:1"))
    assert answer.status == (200 if is_known else 421)
    assert ("'public'" in answer.body.decode()) is not is_known
    unnamed = Health(Readiness(tmp_path), None, origins=origins)(HttpRequest("GET", "/", "HTTP/1.0", {}))
    assert (unnamed is not None, unnamed and unnamed.status) == (True, 200), "what sends no name is no browser"
