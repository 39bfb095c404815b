"""One blob sent by several requests at the same time, and one that a client broke off (HTTP-11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from blake3 import blake3

from http_worlds import Answer, HttpPeer, HttpWorld, http_world
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash

DATA = bytes(range(256)) * 16_384 + b"the end"
NAME = reference.write(Hash(blake3(DATA).digest()))
PIECE = 700_000
"""No divisor of the chunks that the server keeps."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HttpWorld]:
    async with http_world(tmp_path) as it:
        yield it


async def begun(world: HttpWorld) -> HttpPeer:
    """A connection that has sent the head of a PUT, and none of its body."""
    peer = await world.peer()
    peer.write(world.request("PUT", f"/blobs/{NAME}", DATA)[: -len(DATA)])
    return peer


async def stored(world: HttpWorld) -> bool:
    return (await world.get(f"/blobs/{NAME}")).body == DATA


@pytest.mark.rule("HTTP-11", "BLOB-1")
@pytest.mark.parametrize("ahead", [0, 1, 3])
async def test_requests_that_send_one_blob_at_the_same_time_are_all_answered(world: HttpWorld, ahead: int) -> None:
    """As when a client gives up waiting and sends it again: the first request is still being read."""
    pieces = [DATA[at : at + PIECE] for at in range(0, len(DATA), PIECE)]
    first, second = await begun(world), await begun(world)
    for number in range(len(pieces) + ahead):
        if number < len(pieces):
            first.write(pieces[number])
            await first.writer.drain()
        if number >= ahead:
            second.write(pieces[number - ahead])
            await second.writer.drain()
        await asyncio.sleep(0)
    posted = await world.ask("POST", "/blobs", DATA)
    answers: list[Answer] = [await first.answer(), await second.answer()]
    assert [one.status for one in answers] == [200, 200], [one.body for one in answers]
    assert (posted.status, posted.json()["blob"]) == (201, NAME)
    assert await stored(world)


@pytest.mark.rule("HTTP-11", "BLOB-1")
async def test_an_upload_that_broke_off_goes_on_while_the_server_still_reads_it(world: HttpWorld) -> None:
    cut = await begun(world)
    cut.write(DATA[: 3 * PIECE])
    await cut.writer.drain()
    cut.leave()
    assert (await world.ask("PUT", f"/blobs/{NAME}", DATA)).status == 200
    assert await stored(world)


@pytest.mark.rule("HTTP-11", "BLOB-1")
async def test_a_blob_under_a_wrong_name_is_refused_however_often_it_is_sent(world: HttpWorld) -> None:
    wrong = bytes(len(DATA))
    peer = await world.peer()
    for _ in range(2):
        peer.write(world.request("PUT", f"/blobs/{NAME}", wrong))
        answer = await peer.answer()
        assert (answer.status, answer.code) == (422, "blob_mismatch")
    assert (await world.get(f"/blobs/{NAME}")).status == 404
    assert (await world.ask("PUT", f"/blobs/{NAME}", DATA)).status == 200
    assert await stored(world)


@pytest.mark.rule("HTTP-11")
@pytest.mark.parametrize("is_second", [False, True])
async def test_a_stored_page_does_not_run_on_our_origin(world: HttpWorld, is_second: bool) -> None:
    page = b"<script>alert(1)</script>"
    name = (await world.ask("POST", "/blobs", page, Content_Type="text/html")).json()["blob"]
    peer = await world.peer()
    if is_second:
        peer.write(world.request("GET", "/log"))
        assert (await peer.answer()).status == 200
    for token in ("", None):  # as an <img> or a link of a page asks, without the header; and a program
        peer.write(world.request("GET", f"/blobs/{name}", token=token))
        answer = await peer.answer()
        assert answer.status == (401 if token == "" else 200)
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.body == page
    assert answer.headers["content-disposition"] == "attachment"
    assert answer.headers["content-security-policy"].startswith("sandbox")
