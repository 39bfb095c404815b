"""Rates and connections over real sockets: what is too much is deferred or refused, and nothing is lost by it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from websockets.exceptions import InvalidHandshake

from plain_client import Gone, PlainClient
from plain_content import increment, patch_, query_of, set_
from plain_world import ServedSpace, new_key

pytestmark = pytest.mark.asyncio(loop_scope="module")
CONNECTIONS = 6
COMMITS = 80


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    return {
        "commits_per_second": 40,
        "requests_per_second": 60,
        "connections_per_principal_max": CONNECTIONS,
        "opening_timeout_ms": 1_500,
        "heartbeat_ms": 500,
    }


@pytest.mark.rule("COMMIT-10")
async def test_commits_that_come_too_fast_are_deferred_in_order_and_none_is_lost(
    served_space: ServedSpace, text: bool
) -> None:
    client = await served_space.enter(text=text)
    await client.write_now(set_("urn:a:1", {"n": 0}))
    locals_ = [await client.commit(patch_("urn:a:1", increment("/n"))) for _ in range(COMMITS)]
    waits = 0
    while client.holding.pending:
        await client.until(
            lambda: len(client.deferred) + len(client.holding.verdicts) > COMMITS or not client.holding.pending
        )
        if not client.holding.pending:
            break
        deferred = client.deferred
        assert {item["code"] for item in deferred} == {"rate_limited"}
        assert [item["local"] for item in deferred] == sorted(local for _, local in client.holding.pending)
        waits += 1
        await asyncio.sleep(deferred[0].get("retry_after_ms", 0) / 1_000)
        client.deferred = []
        await client.send_again()
    assert waits
    versions = [client.holding.verdicts[client.holding.session, local]["version"] for local in locals_]
    assert versions == list(range(3, 3 + COMMITS))
    assert (await unhurried(client))["urn:a:1"][2] == {"n": COMMITS}


async def unhurried(client: PlainClient) -> dict[str, tuple[int, bytes, Any]]:
    return await client.query(query_of("urn:a:*"))


@pytest.mark.rule("WIRE-4")
async def test_requests_that_come_too_fast_are_refused_and_the_session_lives(
    served_space: ServedSpace, text: bool
) -> None:
    key = await served_space.let_in("read")
    client = await served_space.enter(key, text=text)
    numbers = [await client.ask("query", query=query_of("urn:a:1")) for _ in range(200)]
    codes = []
    for number in numbers:
        try:
            await client.answer(number)
        except Exception as refused:
            codes.append(getattr(refused, "code", ""))
            wait = getattr(refused, "details", {}).get("retry_after_ms", 0)
    assert codes
    assert set(codes) == {"rate_limited"}
    await asyncio.sleep(wait / 1_000)
    assert await client.query(query_of("urn:a:1")) == {}


@pytest.mark.rule("WIRE-2")
async def test_one_who_connects_too_often_is_told_to_come_back_later(served_space: ServedSpace) -> None:
    key = await served_space.let_in("read")
    clients = [await served_space.enter(key) for _ in range(CONNECTIONS)]
    one_more = served_space.client(key)
    await one_more.greet()
    await one_more.send(one_more.opening())
    gone = await one_more.farewell()
    assert gone.farewell["code"] in ("rate_limited", "limit_exceeded", "unavailable")
    await clients[0].close()
    other = await served_space.let_in("read")
    await (await served_space.enter(other)).request("ping")


@pytest.mark.rule("WIRE-2")
async def test_a_session_that_is_not_opened_in_time_is_ended(served_space: ServedSpace) -> None:
    client = served_space.client()
    await client.greet()
    gone = await client.farewell()
    assert gone.farewell.get("code", "timed_out") in ("timed_out", "unauthenticated")


@pytest.mark.rule("WIRE-2")
async def test_many_strangers_who_do_not_sign_keep_nobody_out(served_space: ServedSpace) -> None:
    strangers = [served_space.client(new_key()) for _ in range(50)]
    for stranger in strangers:
        try:
            await stranger.greet()
        except (InvalidHandshake, Gone):
            break
    owner = await served_space.enter()
    await owner.request("ping")


@pytest.mark.rule("RESUME-5")
async def test_a_dead_socket_is_found_and_an_idle_one_is_left_alone(served_space: ServedSpace) -> None:
    idle, dead = await served_space.enter(), await served_space.enter()
    assert dead._socket is not None
    dead._socket.transport.pause_reading()
    await asyncio.sleep(2.0)
    dead._socket.transport.resume_reading()
    await dead.farewell()
    assert await idle.request("ping") == {"version": 1}
