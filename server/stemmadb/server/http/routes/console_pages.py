"""/console: the page of the app, the page of pairing and their assets, each with the headers it needs (CONSOLE-4)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Final

from stemmadb.server.http.base.console_files import BuiltConsole, ConsoleFiles
from stemmadb.server.http.base.context import HttpContext
from stemmadb.server.http.base.error_table import HttpProblem
from stemmadb.server.http.base.replies import NO_STORE, HttpReply
from stemmadb.server.http.callers.calls import RequestHead

CONSOLE: Final = "/console"
PAIR: Final = "/console/pair"
ASSETS: Final = "/console/assets/"
NONCE: Final = "__CSP_NONCE__"
"""Stands in the pages where the nonce of a response goes."""
NONCE_BYTES: Final = 16
HTML: Final = "text/html; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"
IMMUTABLE: Final = ("Cache-Control", "public, max-age=31536000, immutable")
NOT_BUILT: Final = "The console was not built: run make console\n"
OFF: Final = "The web console is off here. Set console = on to have it."
NO_ASSET: Final = "The console has no such file. Load its page again: it may have been built anew."
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' blob:; font-src 'self'; "
    "connect-src {connect}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_ASSET_POLICY: Final = ("Content-Security-Policy", "default-src 'none'; sandbox")
_PAIRING: Final = "http://127.0.0.1:*"


def is_console(path: str) -> bool:
    """Whether a path belongs to the console; every other is none of its business."""
    return path == CONSOLE or path.startswith(CONSOLE + "/")


class ConsolePages:
    """Answers what is at and below /console. `files` is None where the setting `console` is off."""

    def __init__(self, context: HttpContext, files: ConsoleFiles | None) -> None:
        self._context = context
        self._files = files

    async def answer(self, head: RequestHead) -> HttpReply:
        """A GET or HEAD under a name of the server."""
        if self._files is None:
            raise HttpProblem(404, OFF)
        built = await asyncio.to_thread(self._files.current)
        if built is None:
            return HttpReply(status=503, body=NOT_BUILT.encode(), content_type=TEXT, headers=(NO_STORE,))
        if head.path.startswith(ASSETS):
            return _asset(head, built)
        if head.path == PAIR:
            return self._page(built.pair, ("'self'", _PAIRING))
        return self._page(built.index, ("'self'", *self._web_socket(head.all("host"))))

    def _page(self, text: str, connect: Sequence[str]) -> HttpReply:
        nonce = base64.b64encode(self._context.random(NONCE_BYTES)).decode()
        policy = _POLICY.format(nonce=nonce, connect=" ".join(connect))
        headers = (NO_STORE, ("Content-Security-Policy", policy))
        return HttpReply(body=text.replace(NONCE, nonce).encode(), content_type=HTML, headers=headers)

    def _web_socket(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """The origin of the WebSocket: `'self'` does not mean it in every browser. The name was checked before."""
        if not hosts:
            return ()
        is_tls = self._context.is_tls or self._context.origins.is_https(hosts)
        return (f"{'wss' if is_tls else 'ws'}://{hosts[0].strip().lower()}",)


def _asset(head: RequestHead, built: BuiltConsole) -> HttpReply:
    asset = built.assets.get(head.path[len(ASSETS) :])
    if asset is None:
        raise HttpProblem(404, NO_ASSET)
    headers: tuple[tuple[str, str], ...] = (IMMUTABLE, _ASSET_POLICY, ("Vary", "Accept-Encoding"))
    if asset.zipped is not None and _takes_gzip(head.all("accept-encoding")):
        headers = (*headers, ("Content-Encoding", "gzip"))
        return HttpReply(body=asset.zipped, content_type=asset.content_type, headers=headers)
    return HttpReply(body=asset.plain, content_type=asset.content_type, headers=headers)


def _takes_gzip(accepted: Sequence[str]) -> bool:
    """Whether gzip is listed, and not with a weight of 0."""
    listed = [item.replace(" ", "").lower() for text in accepted for item in text.split(",")]
    return any(item == "gzip" or (item.startswith("gzip;q=") and item.strip("0.") != "gzip;q=") for item in listed)
