"""What a person finds at `/` of the port: what listens here, how a client connects, and what to type next. No I/O.

Anybody may read it: it names no space and no identity, and repeats nothing of the request but a valid host name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from http import HTTPStatus
from typing import Final

from stemmadb.server.serving.listeners.http import TEXT, HttpAnswer, HttpRequest

HTML: Final = "text/html; charset=utf-8"
HEADERS: Final = (
    ("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Vary", "Accept, Host"),
)
UNKNOWN_HOST: Final = "HOST:PORT"
"""For a request that does not say under which name it reached us."""

_HOST: Final = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")

_AS_TEXT: Final = """\
StemmaDB, a versioned JSON store.

Clients connect to this address by WebSocket:

{address}
{proxy}
Try it from a terminal:

{command}

or from Python, in `python -m asyncio`:

from stemmadb.client import connect
db = await connect("{address}")
space = await db.space("hello")

{console}Health and metrics: {paths}
Documentation: README.md and docs/ in the repository. `stemmadb --help` lists the commands.
"""

_CONSOLE_TEXT: Final = "Web console: /console; `stemmadb console --web --space NAME` opens it and lets it in.\n"
_CONSOLE_LINK: Final = (
    '<p><a href="/console">Web console</a>: <code>stemmadb console --web --space NAME</code> '
    "opens it and lets it in.</p>\n"
)
PROXY: Final = "Behind a proxy that ends TLS, write wss:// in place of ws://."

_AS_HTML: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>StemmaDB</title>
<h1>StemmaDB</h1>
<p>A versioned JSON store. Clients connect to this address by WebSocket:</p>
<pre>{address}</pre>
{proxy}<p>Try it from a terminal:</p>
<pre>{command}</pre>
<p>or from Python, in <code>python -m asyncio</code>:</p>
<pre>from stemmadb.client import connect
db = await connect("{address}")
space = await db.space("hello")</pre>
{console}<p>Health and metrics: {paths}</p>
<p>Documentation: <code>README.md</code> and <code>docs/</code> in the repository.
<code>stemmadb --help</code> lists the commands.</p>
</html>
"""


def answer(request: HttpRequest, paths: Sequence[str], *, is_tls: bool, has_console: bool = False) -> HttpAnswer:
    """The page, as HTML for a client that prefers it; `paths` are the other plain routes of the port."""
    address = f"{'wss' if is_tls else 'ws'}://{_host(request)}"
    command = f"stemmadb space create hello --url {address}"
    if prefers_html(request.listed("accept")):
        links = ", ".join(f'<a href="{path}">{path}</a>' for path in paths)
        text = _AS_HTML.format(
            address=escape(address),
            command=escape(command),
            paths=links,
            proxy="" if is_tls else f"<p>{PROXY}</p>\n",
            console=_CONSOLE_LINK if has_console else "",
        )
        return HttpAnswer(status=HTTPStatus.OK, content_type=HTML, body=text.encode(), headers=HEADERS)
    text = _AS_TEXT.format(
        address=address,
        command=command,
        paths=", ".join(paths),
        proxy="" if is_tls else f"\n{PROXY}\n",
        console=_CONSOLE_TEXT if has_console else "",
    )
    return HttpAnswer(status=HTTPStatus.OK, content_type=TEXT, body=text.encode(), headers=HEADERS)


def _host(request: HttpRequest) -> str:
    """The name that the person used, if it can be one: it is printed into a command to copy."""
    hosts = request.all("host")
    return hosts[0] if len(hosts) == 1 and _HOST.fullmatch(hosts[0]) else UNKNOWN_HOST


def prefers_html(accepted: Sequence[str]) -> bool:
    """True if a header Accept ranks text/html above text/plain (RFC 9110, 12.5.1). curl ranks them equal."""
    ranges = dict(_weighted(item) for item in accepted)
    return _weight(ranges, "text/html") > _weight(ranges, "text/plain")


def _weight(ranges: dict[str, float], kind: str) -> float:
    """The most specific range decides."""
    return next((ranges[name] for name in (kind, "text/*", "*/*") if name in ranges), 0.0)


def _weighted(item: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in item.split(";"))
    found = next((text[2:] for text in parameters if text.startswith("q=")), "1")
    return name, float(found) if re.fullmatch(r"[01](\.[0-9]{0,3})?", found) else 0.0
