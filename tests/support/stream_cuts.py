"""A stream that is cut again and again while everything under it changes, over servers that are restored.

Between two cuts links move, entities are deleted, erased and written again, the log is compacted beyond the last id,
and the reader loses its right to read and gets it back. Each life but the last ends in a restore of a backup from its
middle, and the reader goes on with the id of an event that no longer happened.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

from command_line import here
from event_reader import EventReader
from graphs import link
from http_worlds import HttpWorld, http_world, reopened
from stemmadb.client import Identity

SCHEMA: Final = {"properties": {"next": {"$ref": "#"}}}
ROOT: Final = "urn:l:0"
IDS: Final = tuple(f"urn:l:{number}" for number in range(8))
PATCH_KIND: Final = {"Content_Type": "application/json-patch+json"}


class CutsSeen(NamedTuple):
    """What happened to the stream; after every `ready` its map was the answer of the query."""

    cuts: int
    resets: Counter[str]
    most: int
    """Entities in the map at one time: more than one if links were followed."""


async def cut_and_restored(folder: Path, *, seed: int, cuts: int, lives: int) -> CutsSeen:
    """So many cuts in each life of the server."""
    reader, copy, last = StreamCuts(seed), folder / "copy", lives - 1
    async with http_world(folder) as world:
        for id_ in IDS:
            await world.put(id_, {"n": 0})
        await reader.live(world, cuts, copy / "0" if last else None)
    for life in range(1, lives):
        again = folder / f"life{life}"
        again.mkdir()
        done = await asyncio.to_thread(here, "restore", copy / str(life - 1), "--data", again / "data")
        assert done.code == 0, done
        async with reopened(again, world) as world:
            await reader.live(world, cuts, copy / str(life) if life < last else None)
    return CutsSeen(cuts * lives, reader.resets, reader.most)


class StreamCuts:
    """The one reader of all lives."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._guest = Identity.make()
        self._reader: EventReader | None = None
        self._turn = 0
        self.resets = Counter[str]()
        self.most = 0

    async def live(self, world: HttpWorld, cuts: int, copy: Path | None) -> None:
        await world.space.acl.set(self._guest.did, "read")
        reader = EventReader(world, ROOT, schema=json.dumps(SCHEMA))
        if self._reader is not None:
            reader.goes_on_from(self._reader)
            await self._overtake(world, reader)
        self._reader = reader
        for number in range(cuts):
            if copy is not None and number == cuts // 2:
                copy.parent.mkdir(exist_ok=True)
                done = await asyncio.to_thread(here, "backup", copy, "--data", world.data)
                assert done.code == 0, done
                await world.put(ROOT, {"n": "after the backup"})
            await self._cut(world, reader)
        self.resets += Counter(data["why"] for name, data in reader.events if name == "reset")

    async def _overtake(self, world: HttpWorld, reader: EventReader) -> None:
        """The version that the reader has is there in the new history too, with other facts."""
        assert reader.last is not None
        last = int(reader.last.split(".")[0])
        while (await world.get("")).json()["version"] <= last:
            await self._change(world)

    async def _cut(self, world: HttpWorld, reader: EventReader) -> None:
        """One connection: the whole answer, changes beside it, and the end."""
        self._turn += 1
        await reader.connect(world.token_of(self._guest))
        version = (await reader.until("ready"))["version"]
        assert reader.map == await answer_at(world, version), f"turn {self._turn}"
        self.most = max(self.most, len(reader.map))
        for _ in range(self._chance.randrange(4)):
            await self._change(world)
        match self._turn % 13:
            case 5:
                done = (await world.put(ROOT, {"n": "old"})).json()["version"]
                await world.put(ROOT, {"n": self._turn, "next": link(IDS[1])})
                await world.space.erase(ROOT, versions=[done])
            case 7:
                await self._without_rights(world, reader)
            case 9:
                unread = (await world.put(ROOT, {"n": self._turn, "next": link(IDS[2])})).json()["version"]
                await world.space.compact(unread)
        if self._chance.randrange(2):
            await asyncio.sleep(0.01)
        reader.cut()

    async def _change(self, world: HttpWorld) -> None:
        id_ = self._chance.choice(IDS)
        match self._chance.randrange(6):
            case 0:
                await world.ask("DELETE", f"/entity?id={self._chance.choice(IDS[1:])}&blind=true")
            case 1:
                patch = json.dumps([{"op": "add", "path": "/n", "value": self._turn}]).encode()
                await world.ask("PATCH", f"/entity?id={id_}&blind=true", patch, **PATCH_KIND)
            case _:
                await world.put(id_, {"n": self._turn, "next": link(self._chance.choice(IDS))})

    async def _without_rights(self, world: HttpWorld, reader: EventReader) -> None:
        await world.space.acl.remove(self._guest.did)
        assert (await reader.until("ended"))["code"] == "forbidden"
        assert (await world.get(f"/watch?select={ROOT}", token=world.token_of(self._guest))).status == 404
        await world.put(ROOT, {"n": "unseen"})
        await world.space.acl.set(self._guest.did, "read")


async def answer_at(world: HttpWorld, version: int) -> dict[str, Any]:
    """The query run afresh, by the owner."""
    roots = [{"id": ROOT, "schema": SCHEMA}]
    got = await world.ask("POST", "/query", {"roots": roots, "version": version})
    assert got.status == 200, got.body
    return {one["id"]: one["body"] for one in got.json().get("entities", [])}
