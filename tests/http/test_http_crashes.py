"""HTTP on a server that is killed, and behind TLS: nothing is written twice, and nothing is weaker (HTTP-9)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from http_worlds import HttpWorld, http_world
from listening import certificate
from served import Process
from stemmadb.client import connect


@pytest.mark.rule("HTTP-9")
async def test_a_key_that_is_sent_again_after_a_kill_is_one_commit(tmp_path: Path) -> None:
    process = Process(tmp_path / "data")
    seen: list[tuple[Any, Any]] = []
    for turn in range(3):
        await asyncio.to_thread(process.start)
        async with connect(process.address, config=tmp_path / "config") as db:
            # The port is another one after each start: names belong to an address.
            space = await db.space("todo" if not turn else seen[0][0])
            world = HttpWorld(process.address, tmp_path / "data", tmp_path / "config", db, space)
            how = {"If_None_Match": "*", "Idempotency_Key": "k1"}
            if turn == 0:
                peer = await world.peer()
                peer.write(world.request("PUT", "/entity?id=urn:k:1", {"n": 1}, **how))
                for _ in range(200):  # killed when it is durable and before anybody has read the answer
                    if (await world.get("")).json()["version"] == 2:
                        break
                    await asyncio.sleep(0.01)
            answer = await world.put("urn:k:1", {"n": 1}, **how) if turn else None
            seen.append((space.did, answer))
            if turn:
                log = (await world.get("/log")).json()["entries"]
                assert [one["version"] for one in log] == [2, 1]
            world.end()
        await asyncio.to_thread(process.kill)
    first, second = seen[1][1], seen[2][1]
    assert first is not None
    assert second is not None
    assert (first.status, first.body) == (200, second.body)
    assert json.loads(first.body)["version"] == 2


@pytest.mark.rule("HTTP-1", "HTTP-4")
async def test_the_same_over_tls(tmp_path: Path) -> None:
    _, trusted = certificate(tmp_path)
    (tmp_path / "key.pem").chmod(0o600)
    files = {"tls_cert": tmp_path / "cert.pem", "tls_key": tmp_path / "key.pem", "http_body_timeout_ms": 300}
    async with http_world(tmp_path, ssl=trusted, **files) as world:
        world.context = trusted
        peer = await world.peer()
        peer.write(
            world.request("PUT", "/entity?id=urn:a:1&blind=true", 5) + world.request("GET", "/entity?id=urn:a:1")
        )
        assert (await peer.answer()).status == 200
        answer = await peer.answer()
        assert (answer.json(), "strict-transport-security" in answer.headers) == (5, True)
        peer.write(b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n")
        assert (await peer.answer()).status == 400
        slow = await world.peer()
        slow.write(world.request("PUT", "/entity?id=urn:a:1&blind=true", 6)[:-1])
        assert (await slow.answer()).status == 408
