"""An answer that comes in parts: one that was cut in the middle of them begins where it was whole last (HTTP-10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from event_reader import EventReader
from http_worlds import PATIENCE, HttpWorld, http_world

COUNT = 9
BYTES = 20_000
"""Of one value: a frame holds a few of them."""
PART_BYTES = 65_536


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HttpWorld]:
    async with http_world(tmp_path, part_bytes_max=PART_BYTES) as it:
        yield it


async def written(world: HttpWorld, letter: str) -> dict[str, str]:
    values = {f"urn:p:{number}": letter for number in range(COUNT)}
    for id_ in values:
        assert (await world.put(id_, letter * BYTES)).status == 200
    return values


def shown(reader: EventReader) -> dict[str, str]:
    """The first letter of each value, which is all that differs."""
    return {id_: value[0] for id_, value in reader.map.items()}


@pytest.mark.rule("HTTP-10")
async def test_a_cut_between_the_parts_of_an_answer_loses_none_of_them(world: HttpWorld) -> None:
    reader = EventReader(world, "urn:p:*")
    for letter in "ab":  # the whole answer, then all that was missed
        values, before = await written(world, letter), reader.last
        await reader.connect()
        await reader.until("change")
        assert shown(reader) != values, "there are more parts"
        assert reader.last == before, "a part has no id"
        reader.cut()
        await reader.connect()
        await reader.until("ready")
        assert shown(reader) == values
        reader.cut()


@pytest.mark.rule("HTTP-10", "SYNC-6")
async def test_a_slow_reader_that_a_compaction_overtakes_forgets_what_is_gone(world: HttpWorld) -> None:
    """What was deleted meanwhile is named nowhere any more: only a `reset` says that it is gone."""
    for number in range(3):
        await world.put(f"urn:p:{number}", "a")
    reader = EventReader(world, "urn:p:*")
    await reader.connect()
    await reader.until("ready")
    reader.pause()
    for number in range(40):  # more than the server and the sockets keep for a client that does not read
        await world.put(f"urn:p:{number % 3}", "b" * 900_000)
    await world.ask("DELETE", "/entity?id=urn:p:0&blind=true")
    await world.space.compact((await world.get("")).json()["version"])
    reader.resume()
    async with asyncio.timeout(3 * PATIENCE):
        assert (await reader.until("reset")) == {"why": "floor"}
        await reader.until("ready")
    assert shown(reader) == {"urn:p:1": "b", "urn:p:2": "b"}
    await world.put("urn:p:1", "z")
    await reader.until("change")
    assert shown(reader) == {"urn:p:1": "z", "urn:p:2": "b"}
