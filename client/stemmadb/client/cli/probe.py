"""Asking a server whether it is ready, over the port it listens on, before anything is opened there."""

from __future__ import annotations

import asyncio
import http.client
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from stemmadb.client.dialing.tls import context_for
from stemmadb.client.dialing.urls import ServerUrl, server_url
from stemmadb.protocol.errors import Unreachable

PROBE_SECONDS: Final = 5.0
ANSWER_BYTES_MAX: Final = 4 * 1024
READY: Final = "/readyz"


async def probe(url: str) -> tuple[bool, str]:
    """Whether it is ready, and what it says; `Unreachable` if nobody answers."""
    server = server_url(url)
    try:
        return await asyncio.to_thread(_asked, server)
    except (OSError, http.client.HTTPException) as failed:
        why = getattr(failed, "strerror", None) or str(failed) or type(failed).__name__
        raise Unreachable(url=server, why=why) from failed


def _asked(server: ServerUrl) -> tuple[bool, str]:
    parts = urlsplit(server)
    assert parts.hostname is not None, "it was checked"
    context = context_for(server, None)
    connection = (
        http.client.HTTPConnection(parts.hostname, parts.port, timeout=PROBE_SECONDS)
        if context is None
        else http.client.HTTPSConnection(parts.hostname, parts.port, timeout=PROBE_SECONDS, context=context)
    )
    try:
        connection.request("GET", f"{parts.path}{READY}")
        answer = connection.getresponse()
        return answer.status == HTTPStatus.OK, answer.read(ANSWER_BYTES_MAX).decode(errors="replace").strip()
    finally:
        connection.close()
