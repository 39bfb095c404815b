"""Slow readers over real sockets: nobody waits for them, and they get one frame that catches up."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from plain_client import PlainClient
from plain_content import increment, patch_, query_of, set_
from plain_world import ServedSpace, agree
from served import Process

pytestmark = pytest.mark.asyncio(loop_scope="module")
TEXT_BYTES = 200_000
COMMITS = 150
SLOW = 20
UNSENT_BYTES_MAX = 4 * 1024 * 1024


@pytest.fixture(scope="module", params=["picows", "websockets"])
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Every transport does the same."""
    return {"listener": request.param}


async def flood(writer: PlainClient) -> float:
    """Commits far more bytes than may wait for one reader; the longest time that one of them took."""
    longest = 0.0
    for number in range(COMMITS):
        began = time.monotonic()
        await writer.write_now(set_("urn:slow:1", {"n": number, "text": "x" * TEXT_BYTES}))
        longest = max(longest, time.monotonic() - began)
    return longest


@pytest.mark.rule("SYNC-6")
async def test_a_slow_reader_holds_up_nobody_and_catches_up_with_what_is_true_now(served_space: ServedSpace) -> None:
    writer, quick = await served_space.enter(), await served_space.enter()
    slow = served_space.client()
    await slow.open(slow=True)
    for client in (quick, slow):
        await client.watch_filled(1, query_of("urn:slow:*"))
    keeping_up = asyncio.ensure_future(quick.until(lambda: quick.holding.to >= COMMITS + 1))
    assert await flood(writer) < 2.0
    await keeping_up
    before = slow.heard_bytes
    await slow.reach(COMMITS + 1)
    assert slow.holding.value("urn:slow:1")["n"] == COMMITS - 1
    assert slow.heard_bytes - before < COMMITS * TEXT_BYTES // 2
    await agree(slow)
    await agree(quick)


@pytest.mark.rule("SYNC-6", "SYNC-2")
async def test_a_slow_reader_that_writes_gets_all_its_verdicts(served_space: ServedSpace) -> None:
    writer, slow = await served_space.enter(), served_space.client()
    await slow.open(slow=True)
    await slow.watch_filled(1, query_of("urn:slow:*"))
    await slow.write_now(set_("urn:slow:2", {"n": 0}))
    locals_ = [await slow.commit(patch_("urn:slow:2", increment("/n"))) for _ in range(5)]
    await flood(writer)
    locals_ += [await slow.commit(patch_("urn:slow:2", increment("/n"))) for _ in range(5)]
    versions = [(await slow.verdict(local))["version"] for local in locals_]
    assert versions == sorted(set(versions))
    assert slow.holding.value("urn:slow:2") == {"n": 10}
    await agree(slow)


@pytest.mark.rule("SYNC-6")
async def test_a_slow_reader_that_goes_away_leaves_nothing_behind(served_space: ServedSpace) -> None:
    writer, slow = await served_space.enter(), served_space.client()
    await slow.open(slow=True)
    await slow.watch_filled(1, query_of("urn:slow:*"))
    await flood(writer)
    slow.abort()
    await slow.resume()
    await agree(slow)


@pytest.mark.rule("SYNC-6")
async def test_many_slow_readers_take_bounded_memory(tmp_path: Path) -> None:
    process = Process(tmp_path / "data")
    process.start()
    served_space = ServedSpace(process.address)
    await served_space.found()
    writer, slow = await served_space.enter(), [served_space.client() for _ in range(SLOW)]
    for client in slow:
        await client.open(slow=True)
        await client.watch_filled(1, query_of("urn:slow:*"))
    await flood(writer)
    before = process.resident_bytes()
    await flood(writer)
    assert process.resident_bytes() - before < SLOW * UNSENT_BYTES_MAX // 2
    for client in slow:
        await client.reach(2 * COMMITS + 1)
        await agree(client)
    await served_space.close()
    process.kill()
