"""A real server behind a proxy that ends TLS: `public` names its pages, and no log has a part of a token (HTTP-3)."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from http_worlds import Answer, HttpWorld
from listening import certificate
from served import Process
from stemmadb.client import Identity, connect
from stemmadb.protocol.model.access import access_token, delegation
from stemmadb.protocol.model.access.delegation import Delegation
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.protocol.wire.version import JSON
from tls_proxy import TlsProxy, tls_proxy

NAME = "db.example"
WINDOW = 10
"""So many characters of a token in a row are no accident."""


class Proxied(HttpWorld):
    """A server that is reached through a proxy; requests name the proxy's host, unless they say otherwise."""

    public = ""

    async def page(self, method: str, path: str, *, origin: str | None = None, **how: str) -> Answer:
        given = {"Host": self.public.partition("//")[2], "Origin": origin or self.public} | how
        return await self.ask(method, path, **given)


@asynccontextmanager
async def proxied(tmp_path: Path, *, is_public: bool, level: str = "info") -> AsyncIterator[Proxied]:
    context, trusted = certificate(tmp_path, NAME)
    async with tls_proxy(context) as proxy:
        flags = ["--log-level", level, "--log-format", "json", *(_public(proxy) if is_public else ())]
        process = Process(tmp_path / "data", *flags, log=tmp_path / "log")
        await asyncio.to_thread(process.start)
        try:
            async with connect(process.address, config=tmp_path / "config") as db:
                world = Proxied(process.address, tmp_path / "data", tmp_path / "config", db, await db.space("todo"))
                proxy.upstream, world.port = world.port, proxy.port
                world.context, world.server_name = trusted, NAME
                world.public = f"https://{NAME}:{proxy.port}"
                try:
                    yield world
                finally:
                    world.end()
        finally:
            await asyncio.to_thread(process.stop)


def _public(proxy: TlsProxy) -> tuple[str, str]:
    return "--public", f"https://{NAME}:{proxy.port}"


@pytest.mark.rule("HTTP-3", "HTTP-4")
async def test_a_page_behind_a_proxy_works_where_its_address_is_public(tmp_path: Path) -> None:
    async with proxied(tmp_path, is_public=True) as world:
        assert (await world.put("urn:a:1", 5)).status == 200
        page = await world.page("GET", "/entity?id=urn:a:1")
        assert (page.status, page.json()) == (200, 5)
        assert page.headers["access-control-allow-origin"] == world.public
        assert page.headers["cross-origin-resource-policy"] == "same-origin"
        preflight = await world.page("OPTIONS", "/entity?id=urn:a:1", token="")
        assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (204, world.public)
        for path in ("//v1/openapi.json", "//"):
            assert (await world.page("GET", path, token="")).status == 200, path
        assert await upgraded(world, world.public) == 101
        for origin in (f"http://{NAME}:{world.port}", "https://forwarded.example", "http://localhost:3000"):
            answer = await world.page("GET", "/entity?id=urn:a:1", origin=origin)
            assert (answer.status, answer.code) == (403, "forbidden"), origin
            assert await upgraded(world, origin) == 403
        for path in ("//v1/openapi.json", "//", "//metrics"):
            assert (await world.get(path, token="", Host="forwarded.example")).status == 421, path


@pytest.mark.rule("HTTP-3")
async def test_a_page_behind_a_proxy_is_refused_where_no_address_is_public(tmp_path: Path) -> None:
    async with proxied(tmp_path, is_public=False) as world:
        for origin in (world.public, "http://localhost:3000"):
            answer = await world.page("GET", "/entity?id=urn:a:1", origin=origin)
            assert (answer.status, answer.code) == (403, "forbidden")
            assert "access-control-allow-origin" not in answer.headers
            assert await upgraded(world, origin) == 403
        for path in ("//v1/openapi.json", "//", "//metrics"):
            assert (await world.page("GET", path, token="", Origin="")).status in (403, 421), path
            host = world.public.partition("//")[2]
            assert (await world.get(path, token="", Host=host)).status == 421, path
        assert (await world.put("urn:a:1", 5)).status == 200, "a program that is no page is not refused"


@pytest.mark.rule("TOKEN-3", "TOKEN-2")
async def test_no_part_of_a_token_is_in_the_log_of_a_server_at_level_debug(tmp_path: Path) -> None:
    async with proxied(tmp_path, is_public=True, level="debug") as world:
        me, guest = world.db.identity, Identity.make()
        link = shared_with(world, guest)
        past = TimeMs(int(time.time() * 1_000) - 5_000)
        revoked = world.token_of(me, role="read")
        tokens = {
            "good": world.token,
            "revoked": revoked,
            "narrow": world.token_of(me, role="read", prefixes=("urn:a:",)),
            "with a delegation": world.token_of(guest, delegations=[link]),
            "expired": world.token_of(me, not_before=TimeMs(past - 1), expires=past),
            "of another server": world.token_of(me, server=guest.did),
            "wrong": access_token.write_text(world.token_bytes(me)[:-1] + b"x"),
        }
        statuses = {name: (await world.get("/log", token=token)).status for name, token in tokens.items()}
        assert [name for name, status in statuses.items() if status == 200] == [
            "good", "revoked", "narrow", "with a delegation",
        ]  # fmt: skip
        await world.space.revoke(revoked)
        assert (await world.get("/log", token=revoked)).status == 401
        for token in tokens.values():
            await misplaced(world, token)
        await world.put("urn:a:1", 1)
        assert (await world.ask("POST", "/watch", {})).status == 405
    said = (tmp_path / "log").read_text()
    assert '"listening"' in said
    assert '"level": "debug"' in said, "the level is debug, and something was logged at it"
    for name, token in tokens.items():
        assert parts_of(token) & windows(said) == set(), name


async def misplaced(world: HttpWorld, token: str) -> None:
    """The token where it has no business: refused, and not repeated."""
    for path in (f"/log?access_token={token}", f"/log?after={token}", f"/{token}", f"/entity?id={token}"):
        assert (await world.get(path)).status in (400, 404), path
    assert (await world.get("/log", Idempotency_Key=token)).status == 200
    assert (await world.get("/log", Host=token[:200])).status in (200, 400)
    peer = await world.peer()
    peer.write(f"GET /v1/me HTTP/1.1\r\nAuthorization: Bearer {token}\nX: y\r\n\r\n".encode())
    assert (await peer.answer()).status == 400
    cut = await world.peer()
    cut.write(world.request("PUT", "/entity?id=urn:a:1&blind=true", 1, token=token)[:-1])
    cut.leave()
    assert (await world.ask("PUT", "/entity?id=urn:a:1&blind=true", token.encode())).status == 400


def shared_with(world: HttpWorld, audience: Identity) -> bytes:
    now = int(time.time() * 1_000)
    said = Delegation(
        issuer=world.db.identity.did,
        audience=audience.did,
        space=world.did,
        role="write",
        prefixes=("urn:a:",),
        not_before=TimeMs(now - 60_000),
        expires=TimeMs(now + 3_600_000),
        nonce=bytes(16),
    )
    return delegation.issue(said, world.db.identity.sign)


def parts_of(token: str) -> set[str]:
    """Of the token and of what its bytes are in hex and in other alphabets, without the names that anybody knows."""
    found = set[str]()
    for part in token.removeprefix(access_token.PREFIX).split("."):
        data = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        found |= windows(part) | windows(data.hex()) | windows(base64.b64encode(data).decode())
    return found


def windows(text: str) -> set[str]:
    return {text[at : at + WINDOW] for at in range(len(text) - WINDOW + 1)}


async def upgraded(world: Proxied, origin: str) -> int:
    """The status of a WebSocket that a page of this origin opens."""
    peer = await world.peer()
    how = {
        "Host": world.public.partition("//")[2],
        "Origin": origin,
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec_WebSocket_Protocol": JSON,
    }
    peer.write(world.request("GET", "", token="", **how))
    return (await peer.answer(is_head=True)).status
