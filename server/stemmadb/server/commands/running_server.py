"""Asking the server that runs on a data directory how it is, over the port it listens on."""

from __future__ import annotations

import http.client
import ssl
from http import HTTPStatus
from typing import Final

from stemmadb.server.serving.presence import Presence

TIMEOUT_SECONDS: Final = 2.0
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
NUMBERS: Final = {
    "stemmadb_connections": "connections",
    "stemmadb_sessions": "sessions",
    "stemmadb_watches": "watches",
    "stemmadb_queue_depth": "queued",
    "stemmadb_commits_total": "commits",
}
"""What is shown of its metrics, and under which name."""


def ask(server: Presence) -> dict[str, object]:
    """Who it is, whether it is ready and what it is doing; one that does not answer is not ready."""
    known: dict[str, object] = {
        "pid": server.pid,
        "host": server.host,
        "port": server.port,
        "tls": server.tls,
        "did": server.did,
        "started": server.started,
    }
    try:
        status, said = _get(server, "/readyz")
        numbers = _numbers(_get(server, "/metrics")[1])
    except (OSError, http.client.HTTPException) as failed:
        return known | {"ready": False, "says": f"It does not answer ({type(failed).__name__})."}
    return known | {"ready": status == HTTPStatus.OK, "says": said.strip()} | numbers


def _get(server: Presence, path: str) -> tuple[int, str]:
    connection = _connection(server)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(ANSWER_BYTES_MAX).decode(errors="replace")
    finally:
        connection.close()


def _connection(server: Presence) -> http.client.HTTPConnection:
    if not server.tls:
        return http.client.HTTPConnection(server.reached_at, server.port, timeout=TIMEOUT_SECONDS)
    # The directory says who it is, nothing secret is sent, and its certificate may be for another name.
    context = ssl._create_unverified_context()  # noqa: S323
    return http.client.HTTPSConnection(server.reached_at, server.port, timeout=TIMEOUT_SECONDS, context=context)


def _numbers(metrics: str) -> dict[str, object]:
    lines = (line.split(" ") for line in metrics.splitlines() if not line.startswith("#"))
    return {NUMBERS[line[0]]: int(float(line[1])) for line in lines if line[0] in NUMBERS}
