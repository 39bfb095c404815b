"""The plain HTTP routes of a server: its front page, whether it lives, whether it is ready, and its metrics."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from stemmadb.server.http.base.context import NOT_OURS
from stemmadb.server.log_events import Log
from stemmadb.server.serving import front_page, metrics
from stemmadb.server.serving.listeners.hosts import AllowedHosts
from stemmadb.server.serving.listeners.http import TEXT, HttpAnswer, HttpRequest
from stemmadb.server.serving.listeners.origins import AllowedOrigins
from stemmadb.server.serving.metrics import Metrics

LOG: Final = Log("health")
ROOT: Final = "/"
HEALTHZ: Final = "/healthz"
READYZ: Final = "/readyz"
METRICS: Final = "/metrics"

LOCAL_ONLY: Final = AllowedHosts(())
LOOPBACK_ONLY: Final = AllowedOrigins((), is_loopback=True)
STARTING: Final = "The store is not open yet."
STOPPING: Final = "The server is stopping."
MISDIRECTED: Final = "Metrics are not read under this host name. Add it to the setting 'hosts' of the server."

ROOM_BYTES: Final = 1024 * 1024
"""What a disk must still take for the server to be ready."""
LOOK_SECONDS: Final = 1.0
"""How long the answer of the disk holds: anybody may ask."""


class Readiness:
    """Whether new work should be sent here, and if not, why not."""

    def __init__(
        self,
        data: Path,
        *,
        now: Callable[[], float] = time.monotonic,
        trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`trouble` says what is wrong with other processes of the server."""
        self._trouble = trouble
        self._data = data
        self._now = now
        self._reason: str | None = STARTING
        self._looked: float | None = None
        self._disk: str | None = None

    def opened(self) -> None:
        self._reason = None

    def stopping(self) -> None:
        self._reason = STOPPING

    def why_not(self) -> str | None:
        """None if it is ready."""
        if self._reason is not None:
            return self._reason
        if self._looked is None or self._now() - self._looked >= LOOK_SECONDS:
            self._look()
        return self._disk or self._trouble()

    def _look(self) -> None:
        """Asks the disk; what it answers anew goes into the log, since no client may be writing."""
        self._looked, before = self._now(), self._disk
        self._disk = why_not_writable(self._data)
        if self._disk != before:
            if self._disk is None:
                LOG.info("disk_writable")
            else:
                LOG.warning("disk_not_writable", reason=self._disk)


def why_not_writable(directory: Path) -> str | None:
    """None if the disk takes `ROOM_BYTES`: reserves them in a file without a name, which sees quotas too."""
    if not os.access(directory, os.W_OK | os.X_OK):
        return "The data directory cannot be written."
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            os.posix_fallocate(file.fileno(), 0, ROOM_BYTES)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return "The disk of the data directory is full. Reads go on; make room."
        return "The data directory cannot be written."
    return None


class Health:
    """Answers the paths above, as a listener asks for it; None for any other path, and for metrics that are off."""

    def __init__(
        self,
        readiness: Readiness,
        metrics_: Metrics | None,
        *,
        hosts: AllowedHosts = LOCAL_ONLY,
        origins: AllowedOrigins = LOOPBACK_ONLY,
        is_tls: bool = False,
        has_console: bool = False,
        scrape_all: Callable[[], Awaitable[bytes]] | None = None,
    ) -> None:
        """`hosts` are the names for metrics, `origins` has those for the page.

        `scrape_all` answers for all processes of the server, where there are several.
        """
        self._scrape_all = scrape_all
        self._readiness = readiness
        self._metrics = metrics_
        self._hosts = hosts
        self._origins = origins
        self._is_tls = is_tls
        self._has_console = has_console
        self._paths = (HEALTHZ, READYZ) if metrics_ is None else (HEALTHZ, READYZ, METRICS)

    def __call__(self, request: HttpRequest) -> HttpAnswer | None:
        path = request.path
        if path != ROOT and path not in self._paths:
            return None
        if request.method not in ("GET", "HEAD"):
            return _said(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD are answered here.")
        if path == ROOT:
            if not self._origins.is_known_host(request.all("host")):
                return _said(HTTPStatus.MISDIRECTED_REQUEST, NOT_OURS)
            return front_page.answer(request, self._paths, is_tls=self._is_tls, has_console=self._has_console)
        if path == HEALTHZ:
            return _said(HTTPStatus.OK, "ok")
        if path == METRICS and self._metrics is not None:
            if not self._hosts.allow(request.all("host")):
                return _said(HTTPStatus.MISDIRECTED_REQUEST, MISDIRECTED)
            return _scraped(self._metrics.scrape())
        why_not = self._readiness.why_not()
        return _said(HTTPStatus.OK, "ok") if why_not is None else _said(HTTPStatus.SERVICE_UNAVAILABLE, why_not)

    def later(self, request: HttpRequest) -> Awaitable[HttpAnswer] | None:
        """The metrics of all processes, which takes up to a second; None for everything else."""
        is_theirs = request.path == METRICS and self._metrics is not None and self._hosts.allow(request.all("host"))
        return self._of_all(self._scrape_all) if is_theirs and self._scrape_all is not None else None

    async def _of_all(self, scrape_all: Callable[[], Awaitable[bytes]]) -> HttpAnswer:
        return _scraped(await scrape_all())


def _scraped(body: bytes) -> HttpAnswer:
    return HttpAnswer(status=HTTPStatus.OK, content_type=metrics.CONTENT_TYPE, body=body)


def _said(status: HTTPStatus, text: str) -> HttpAnswer:
    return HttpAnswer(status=status, content_type=TEXT, body=f"{text}\n".encode())
