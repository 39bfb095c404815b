"""/console in the server: headers, the nonce, other hosts, assets for ever, and what it says if it was not built."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from console_pages import SCRIPT, built
from http_worlds import HttpWorld, http_world
from stemmadb.server.http.base.console_files import ConsoleFiles, console_directory
from stemmadb.server.serving import build
from stemmadb.server.serving.settings.config import Config


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "built"
    monkeypatch.setattr(build, "console_directory", lambda: directory)
    return directory


@pytest.fixture
async def world(tmp_path: Path, files: Path) -> AsyncIterator[HttpWorld]:
    built(files)
    async with http_world(tmp_path / "world") as it:
        yield it


async def got(world: HttpWorld, path: str, method: str = "GET", **headers: str) -> Any:
    return await world.ask(method, f"/{path}", token="", **headers)


def policy_of(answer: Any) -> dict[str, str]:
    parts = (part.strip().partition(" ") for part in answer.headers["content-security-policy"].split(";"))
    return {name: rest for name, _, rest in parts}


@pytest.mark.rule("CONSOLE-4")
@pytest.mark.parametrize(
    "path", ["/console", "/console/", "/console/did:key:z6/entities?b=..&at=184", "/console/x.js"]
)
async def test_every_address_of_the_console_is_its_page(world: HttpWorld, path: str) -> None:
    answer = await got(world, path)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.body.decode().endswith("app")


@pytest.mark.rule("CONSOLE-4")
async def test_a_page_may_load_from_its_own_server_and_connect_to_nothing_else(world: HttpWorld) -> None:
    first, second = await got(world, "/console"), await got(world, "/console")
    policy = policy_of(first)
    nonce = re.search(r"'nonce-([A-Za-z0-9+/=]{24})'", policy["style-src"])
    assert nonce is not None
    assert first.body.decode().count(nonce[1]) == 2
    assert b"__CSP_NONCE__" not in first.body
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": f"'self' 'nonce-{nonce[1]}'",
        "img-src": "'self' blob:",
        "font-src": "'self'",
        "connect-src": f"'self' ws://127.0.0.1:{world.port}",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert nonce[1] not in second.body.decode()
    for name, value in (("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")):
        assert first.headers[name] == value


@pytest.mark.rule("CONSOLE-2", "CONSOLE-4")
async def test_only_the_page_of_pairing_may_reach_the_commands_port(world: HttpWorld) -> None:
    answer = await got(world, "/console/pair")
    assert answer.body.decode().endswith("pair")
    assert policy_of(answer)["connect-src"] == "'self' http://127.0.0.1:*"
    assert policy_of(answer)["frame-ancestors"] == "'none'"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.rule("CONSOLE-4")
async def test_an_asset_never_changes_and_comes_zipped_to_who_takes_that(world: HttpWorld) -> None:
    plain = await got(world, "/console/assets/main-ABC.js")
    assert plain.body == SCRIPT
    assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "content-encoding" not in plain.headers
    zipped = await got(world, "/console/assets/main-ABC.js", **{"Accept-Encoding": "br, gzip;q=0.5"})
    assert zipped.headers["content-encoding"] == "gzip"
    assert gzip.decompress(zipped.body) == SCRIPT
    assert len(zipped.body) < len(SCRIPT)
    refused = await got(world, "/console/assets/main-ABC.js", **{"Accept-Encoding": "gzip;q=0"})
    assert refused.body == SCRIPT
    head = await got(world, "/console/assets/main-ABC.js", "HEAD")
    assert (head.status, head.headers["content-length"]) == (200, str(len(SCRIPT)))


@pytest.mark.rule("CONSOLE-4")
@pytest.mark.parametrize(
    "name", ["", "none.js", "secret.txt", "../index.html", "..%2findex.html", "%2e%2e/pair.html", "//etc/passwd"]
)
async def test_only_built_files_of_known_types_are_given_out(world: HttpWorld, name: str) -> None:
    answer = await got(world, f"/console/assets/{name}")
    assert answer.status == 404
    assert "nonce" not in answer.body.decode()


@pytest.mark.rule("CONSOLE-4", "HTTP-3")
@pytest.mark.parametrize("path", ["/console", "/console/pair", "/console/assets/main-ABC.js", "/console/x/entities"])
async def test_under_another_host_name_there_is_no_console(world: HttpWorld, path: str) -> None:
    for host in ("evil.example", f"evil.example:{world.port}", "127.0.0.1.evil.example", "0.0.0.0"):  # noqa: S104
        answer = await got(world, path, Host=host)
        assert answer.status == 421
        assert "'public'" in answer.json()["detail"]
    assert (await got(world, path, Host=f"localhost:{world.port}")).status == 200


@pytest.mark.rule("CONSOLE-4")
async def test_a_page_of_another_origin_and_other_methods_get_nothing(world: HttpWorld) -> None:
    assert (await got(world, "/console", Origin="https://evil.example")).status == 403
    for method in ("POST", "PUT", "DELETE"):
        assert (await got(world, "/console", method)).status == 405


@pytest.mark.rule("CONSOLE-4")
async def test_without_the_built_files_it_says_how_to_build_it_and_finds_them_later(
    tmp_path: Path, files: Path
) -> None:
    async with http_world(tmp_path / "world") as it:
        for path in ("/console", "/console/pair", "/console/assets/main-ABC.js"):
            answer = await got(it, path)
            assert (answer.status, answer.body) == (503, b"The console was not built: run make console\n")
        built(files)
        assert (await got(it, "/console")).body.decode().endswith("app")
        built(files, "again")
        os.utime(files / "index.html", ns=(1, 1))
        assert (await got(it, "/console")).body.decode().endswith("again")


@pytest.mark.rule("CONSOLE-4")
async def test_where_it_is_off_there_is_nothing(tmp_path: Path, files: Path) -> None:
    built(files)
    async with http_world(tmp_path / "world", console="off") as it:
        answer = await got(it, "/console")
        assert answer.status == 404
        assert "console = on" in answer.json()["detail"]
        assert b"/console" not in (await got(it, "/", Accept="text/html")).body


@pytest.mark.rule("CONSOLE-4")
async def test_a_public_address_with_https_connects_by_wss(tmp_path: Path, files: Path) -> None:
    built(files)
    async with http_world(tmp_path / "world", console="on", public=("https://db.example",)) as it:
        answer = await got(it, "/console", Host="db.example")
        assert policy_of(answer)["connect-src"] == "'self' wss://db.example"


@pytest.mark.rule("CONSOLE-4")
@pytest.mark.parametrize(
    ("settings", "console"),
    [
        ({}, "on"),
        ({"host": "::1"}, "on"),
        ({"console": "off"}, "off"),
        ({"public": ("https://db.example",)}, "off"),
        ({"public": "https://db.example", "console": "on"}, "on"),
        ({"host": "192.0.2.1", "allow_remote": True}, "off"),
        ({"host": "192.0.2.1", "allow_remote": True, "console": "on"}, "on"),
    ],
)
def test_it_is_on_by_default_on_loopback_alone(tmp_path: Path, settings: dict[str, Any], console: str) -> None:
    assert Config(data=tmp_path, **settings).console == console


@pytest.mark.rule("CONSOLE-4")
async def test_the_front_page_links_to_it(world: HttpWorld) -> None:
    page = await got(world, "/", Accept="text/html")
    assert b'<a href="/console">' in page.body
    assert b"/console" in (await got(world, "/")).body


def test_the_files_of_this_tree_are_looked_for_where_make_console_puts_them() -> None:
    directory = console_directory()
    assert directory.parts[-2:] == ("build", "console")
    assert (directory.parents[1] / "pyproject.toml").exists()
    assert ConsoleFiles(directory / "nowhere").current() is None
