"""Memory of the SDK for each watched entity of 200 bytes, beside its decoded value in a plain dict."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import NamedTuple

import msgspec

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.load import children, document
from benchmarks.ours import service
from benchmarks.ours.client import PREFIX, Client, Place, opened, place
from benchmarks.ours.engine import rss_bytes
from benchmarks.ours.sessions import Space
from stemmadb.client import Watch
from stemmadb.protocol.model.values.body import encode

NAME = "client_memory"
TITLE = "memory of the SDK for each watched entity of 200 B, beside the decoded values in a plain dict"
SIZES = (10_000, 50_000)
OF_A_WATCH = 10_000
"""The most that one answer has, and so one watch, unless the server is told otherwise."""
FILL_SECONDS = 600.0
"""How long a child may take; one whose objects are traced is slow."""
DOCUMENT = document.DOCUMENT | {"text": f"{document.DOCUMENT['text']} It is kept, and told, as it is: once......."}


class Bytes(NamedTuple):
    """What all of it took: of the process, and of the interpreter's objects, each in a process of its own."""

    resident: int
    objects: int


class Gauge:
    """Memory from its making on."""

    def __init__(self, *, is_traced: bool) -> None:
        gc.collect()
        if is_traced:
            tracemalloc.start()
        self._is_traced = is_traced
        self._before = self._now()

    def read(self) -> int:
        gc.collect()
        return self._now() - self._before

    def _now(self) -> int:
        return tracemalloc.get_traced_memory()[0] if self._is_traced else rss_bytes()


# ------------------------------------------------------------ in processes of their own


def watched(pipe: children.Pipe, there: Place, *, entities: int, is_traced: bool) -> None:
    asyncio.run(_watched(pipe, there, entities=entities, is_traced=is_traced))


async def _watched(pipe: children.Pipe, there: Place, *, entities: int, is_traced: bool) -> None:
    """What the app is told is the app's own, and not counted."""
    async with opened(there) as client:
        gauge = Gauge(is_traced=is_traced)
        watches = [await _filled(client, group) for group in range(-(-entities // OF_A_WATCH))]
        pipe.send(gauge.read())
        for watch in watches:
            watch.close()


async def _filled(client: Client, group: int) -> Watch:
    watch, change = await client.watch(f"{PREFIX}{group}:*")
    assert change, "something is there"
    return watch


def plain(pipe: children.Pipe, *, entities: int, is_traced: bool) -> None:
    decode, body = msgspec.msgpack.Decoder().decode, encode(DOCUMENT)
    gauge = Gauge(is_traced=is_traced)
    values = {_id(number): decode(body) for number in range(entities)}
    pipe.send(gauge.read())
    del values


def _id(number: int) -> str:
    return f"{PREFIX}{number // OF_A_WATCH}:{number}"


# ------------------------------------------------------------ all of it


def measure_watched(there: Place, entities: int) -> Bytes:
    found = []
    for is_traced in (False, True):
        with children.child(watched, there, entities=entities, is_traced=is_traced) as pipe:
            found.append(children.told(pipe, patience=FILL_SECONDS))
    return Bytes(*found)


def measure_plain(entities: int) -> Bytes:
    found = []
    for is_traced in (False, True):
        with children.child(plain, entities=entities, is_traced=is_traced) as pipe:
            found.append(children.told(pipe, patience=FILL_SECONDS))
    return Bytes(*found)


def run(plan: Plan) -> list[Row]:
    turns, reps = Turns(), plan.pick(quick=1, usual=2)
    with service.served() as server:
        for entities in plan.pick(quick=(2_000,), usual=SIZES):
            space = Space.made(server.port)
            space.fill({_id(number): DOCUMENT for number in range(entities)})
            for _ in range(reps):
                ours, beside = measure_watched(place(space), entities), measure_plain(entities)
                turn = _each("", ours, entities) | _each("dict_", beside, entities)
                turns.add(Key(f"{NAME}: {entities:,} watched", rows.OURS, 1), turn, n=entities, durable=False)
    return turns.rows()


def _each(prefix: str, found: Bytes, entities: int) -> dict[str, float]:
    return {
        f"{prefix}rss_bytes_each": found.resident / entities,
        f"{prefix}object_bytes_each": found.objects / entities,
    }
