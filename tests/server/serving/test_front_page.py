"""What a person finds at `/` of the port."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from listening import LISTENERS, Make, listening
from served import config_of, served
from stemmadb.client import Identity, connect
from stemmadb.server.serving import front_page
from stemmadb.server.serving.health import Health, Readiness
from stemmadb.server.serving.listeners.http import HttpAnswer, HttpRequest

PATHS = ("/healthz", "/readyz", "/metrics")
CHROME = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


def asked(*, is_tls: bool = False, **headers: str) -> HttpAnswer:
    named = {name: [value] for name, value in headers.items()}
    return front_page.answer(HttpRequest("GET", "/", "HTTP/1.1", named), PATHS, is_tls=is_tls)


def test_curl_gets_text_that_says_how_to_connect_and_what_to_type() -> None:
    page = asked(host="127.0.0.1:8420", accept="*/*")
    text = page.body.decode()
    assert (page.status, page.content_type) == (200, "text/plain; charset=utf-8")
    assert "\nws://127.0.0.1:8420\n" in text
    assert "\nstemmadb space create hello --url ws://127.0.0.1:8420\n" in text
    assert "/healthz, /readyz, /metrics" in text
    assert "docs/" in text


def test_a_browser_gets_html_that_loads_nothing() -> None:
    page = asked(host="db.example:443", accept=CHROME, is_tls=True)
    text = page.body.decode()
    assert page.content_type == "text/html; charset=utf-8"
    assert "<pre>wss://db.example:443</pre>" in text
    assert re.findall(r'(?:href|src)="([^"]*)"', text) == list(PATHS)
    assert "default-src 'none'" in dict(page.headers)["Content-Security-Policy"]
    assert dict(page.headers)["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("accept", "is_html"),
    [
        (CHROME, True),
        ("text/html", True),
        ("text/*;q=0.5, text/html;q=0.7", True),
        ("", False),
        ("*/*", False),
        ("text/*", False),
        ("application/json", False),
        ("text/plain, text/html;q=0.9", False),
        ("text/html;q=0", False),
        ("text/html;q=nan", False),
    ],
)
def test_html_is_for_those_who_prefer_it(accept: str, is_html: bool) -> None:
    assert asked(host="a", accept=accept).content_type.startswith("text/html") is is_html


@pytest.mark.parametrize("host", ["<script>", "a b", 'a"b', "a;reboot", "$(reboot)", "", "[::1", "a:b", "x" * 300])
def test_a_host_that_is_no_name_is_not_repeated(host: str) -> None:
    for accept in ("*/*", "text/html"):
        text = asked(host=host, accept=accept).body.decode()
        assert "ws://HOST:PORT" in text
        assert not host or f"ws://{host}" not in text


@pytest.mark.parametrize("host", ["localhost", "[::1]:8420", "db-1.example.org:443"])
def test_a_host_is_repeated_as_it_was_written(host: str) -> None:
    assert f"ws://{host}\n" in asked(host=host).body.decode()


def test_metrics_that_are_off_are_not_named(tmp_path: Path) -> None:
    page = Health(Readiness(tmp_path), None)(HttpRequest("GET", "/?from=here", "HTTP/1.1", {}))
    assert page is not None
    assert b"/healthz" in page.body
    assert b"/metrics" not in page.body


@pytest.mark.parametrize("make", LISTENERS)
async def test_both_listeners_serve_it_and_head_leaves_the_body_out(make: Make, tmp_path: Path) -> None:
    async with listening(make, http=Health(Readiness(tmp_path), None)) as it:
        peer = await it.raw()
        peer.write(b"GET / HTTP/1.1\r\nHost: localhost:1\r\n\r\n")
        status, headers = await peer.head()
        body = await peer.ended()
        assert status == 200
        assert (headers["cache-control"], headers["connection"]) == ("no-store", "close")
        assert len(body) == int(headers["content-length"])
        assert b"ws://localhost:1" in body
        peer = await it.raw()
        peer.write(b"HEAD / HTTP/1.1\r\nHost: localhost:1\r\n\r\n")
        assert await peer.head() == (status, headers)
        assert await peer.ended() == b""
        assert (await it.ask(b"POST / HTTP/1.1\r\nHost: localhost:1\r\n\r\n"))[0] == 405
        assert it.listener.refused == 1


async def test_it_names_neither_a_space_nor_an_identity(tmp_path: Path) -> None:
    async with served(config_of(tmp_path / "data")) as url:
        async with connect(url, identity=Identity.make(), config=tmp_path) as db:
            await db.space("secret")
        text = await fetched(url)
    assert f"\n{url}\n" in text
    assert "did:" not in text
    assert "secret" not in text


async def fetched(url: str) -> str:
    host, port = url.removeprefix("ws://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return text
