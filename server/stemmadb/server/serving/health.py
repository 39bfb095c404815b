"""The plain HTTP routes of a server: its front page, whether it lives, whether it is ready, and its metrics."""

from __future__ import annotations

import os
from http import HTTPStatus
from pathlib import Path
from typing import Final

from stemmadb.server.serving import front_page, metrics
from stemmadb.server.serving.listeners.hosts import AllowedHosts
from stemmadb.server.serving.listeners.http import TEXT, HttpAnswer, HttpRequest
from stemmadb.server.serving.metrics import Metrics

ROOT: Final = "/"
HEALTHZ: Final = "/healthz"
READYZ: Final = "/readyz"
METRICS: Final = "/metrics"

LOCAL_ONLY: Final = AllowedHosts(())
STARTING: Final = "The store is not open yet."
STOPPING: Final = "The server is stopping."
MISDIRECTED: Final = "Metrics are not read under this host name. Add it to the setting 'hosts' of the server."


class Readiness:
    """Whether new work should be sent here, and if not, why not."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._reason: str | None = STARTING

    def opened(self) -> None:
        self._reason = None

    def stopping(self) -> None:
        self._reason = STOPPING

    def why_not(self) -> str | None:
        """None if it is ready."""
        if self._reason is None and not os.access(self._data, os.W_OK | os.X_OK):
            return "The data directory cannot be written."
        return self._reason


class Health:
    """Answers the paths above, as a listener asks for it; None for any other path, and for metrics that are off."""

    def __init__(
        self,
        readiness: Readiness,
        metrics_: Metrics | None,
        *,
        hosts: AllowedHosts = LOCAL_ONLY,
        is_tls: bool = False,
    ) -> None:
        self._readiness = readiness
        self._metrics = metrics_
        self._hosts = hosts
        self._is_tls = is_tls
        self._paths = (HEALTHZ, READYZ) if metrics_ is None else (HEALTHZ, READYZ, METRICS)

    def __call__(self, request: HttpRequest) -> HttpAnswer | None:
        path = request.path
        if path != ROOT and path not in self._paths:
            return None
        if request.method not in ("GET", "HEAD"):
            return _said(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD are answered here.")
        if path == ROOT:
            return front_page.answer(request, self._paths, is_tls=self._is_tls)
        if path == HEALTHZ:
            return _said(HTTPStatus.OK, "ok")
        if path == METRICS and self._metrics is not None:
            if not self._hosts.allow(request.all("host")):
                return _said(HTTPStatus.MISDIRECTED_REQUEST, MISDIRECTED)
            body = self._metrics.scrape()
            return HttpAnswer(status=HTTPStatus.OK, content_type=metrics.CONTENT_TYPE, body=body)
        why_not = self._readiness.why_not()
        return _said(HTTPStatus.OK, "ok") if why_not is None else _said(HTTPStatus.SERVICE_UNAVAILABLE, why_not)


def _said(status: HTTPStatus, text: str) -> HttpAnswer:
    return HttpAnswer(status=status, content_type=TEXT, body=f"{text}\n".encode())
