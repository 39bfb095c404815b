"""Memory of the client for each watched entity of 200 bytes, beside its decoded value in a plain dict."""

from __future__ import annotations

import asyncio
import gc
import statistics
import tracemalloc
from collections import defaultdict
from typing import NamedTuple

import msgspec

from benchmarks import _children, _client, _engine, _service
from benchmarks._client import PREFIX
from stemmadb.client import Watch
from stemmadb.protocol.model.body import encode

SIZES = (10_000, 100_000)
OF_A_WATCH = 10_000
"""The most that one answer has, and so one watch, unless the server is told otherwise."""
FILL_SECONDS = 600.0
"""How long a child may take; one whose objects are traced is slow."""
SCENARIO = "client: memory for each of {:,} watched entities of 200 B"
OURS, PLAIN = "stemmadb", "decoded values in a plain dict"
DOCUMENT = _service.DOCUMENT | {"text": f"{_service.DOCUMENT['text']} It is kept, and told, as it is: once......."}


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
        return tracemalloc.get_traced_memory()[0] if self._is_traced else _engine.rss_bytes()


# ------------------------------------------------------------ in processes of their own


def watched(pipe: _children.Pipe, there: _client.Place, *, entities: int, is_traced: bool) -> None:
    asyncio.run(_watched(pipe, there, entities=entities, is_traced=is_traced))


async def _watched(pipe: _children.Pipe, there: _client.Place, *, entities: int, is_traced: bool) -> None:
    """What the app is told is the app's own, and not counted."""
    async with _client.opened(there) as client:
        gauge = Gauge(is_traced=is_traced)
        watches = [await _filled(client, group) for group in range(-(-entities // OF_A_WATCH))]
        pipe.send(gauge.read())
        for watch in watches:
            watch.close()


async def _filled(client: _client.Client, group: int) -> Watch:
    watch, change = await client.watch(f"{PREFIX}{group}:*")
    assert change, "something is there"
    return watch


def plain(pipe: _children.Pipe, *, entities: int, is_traced: bool) -> None:
    decode, body = msgspec.msgpack.Decoder().decode, encode(DOCUMENT)
    gauge = Gauge(is_traced=is_traced)
    values = {_id(number): decode(body) for number in range(entities)}
    pipe.send(gauge.read())
    del values


def _id(number: int) -> str:
    return f"{PREFIX}{number // OF_A_WATCH}:{number}"


# ------------------------------------------------------------ all of it


def measure_watched(there: _client.Place, entities: int) -> Bytes:
    found = []
    for is_traced in (False, True):
        with _children.child(watched, there, entities=entities, is_traced=is_traced) as pipe:
            found.append(_children.told(pipe, patience=FILL_SECONDS))
    return Bytes(*found)


def measure_plain(entities: int) -> Bytes:
    found = []
    for is_traced in (False, True):
        with _children.child(plain, entities=entities, is_traced=is_traced) as pipe:
            found.append(_children.told(pipe, patience=FILL_SECONDS))
    return Bytes(*found)


def run(quick: bool = False) -> list[_client.Row]:
    sizes, reps = ((2_000,), 1) if quick else (SIZES, 4)
    found: dict[tuple[int, str], list[Bytes]] = defaultdict(list)
    with _service.served() as server:
        for entities in sizes:
            space = _service.Space(server.port)
            space.fill({_id(number): DOCUMENT for number in range(entities)})
            for _ in range(reps):
                found[entities, OURS].append(measure_watched(_client.place(space), entities))
                found[entities, PLAIN].append(measure_plain(entities))
    return [_row(entities, system, runs, found[entities, PLAIN]) for (entities, system), runs in found.items()]


def _row(entities: int, system: str, runs: list[Bytes], plain_: list[Bytes]) -> _client.Row:
    row: _client.Row = {"scenario": SCENARIO.format(entities), "system": system}
    row |= _client.spread("rss_bytes_each", [run.resident / entities for run in runs])
    row |= _client.spread("object_bytes_each", [run.objects / entities for run in runs])
    if system == OURS:
        pairs = list(zip(runs, plain_, strict=True))
        row["rss_to_plain"] = statistics.median(a.resident / b.resident for a, b in pairs)
        row["objects_to_plain"] = statistics.median(a.objects / b.objects for a, b in pairs)
    return row | {"body_bytes": len(encode(DOCUMENT)), "n": entities, "reps": len(runs)}
