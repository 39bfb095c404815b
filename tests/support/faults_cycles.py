"""Cycles of faults on a real server with SDK clients, each a seed: `cycle(seed) -> Report`, or `Violated`.

All of them do the same work on lists and check the same promises; they differ in the faults.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, cast

import uvloop

from check_chain import broken_chain
from check_log import Entry, doubled, gone_back, lost, resurrected, strangers
from check_reads import stale
from check_states import diverged
from client_app import mark_of
from client_processes import PATIENCE_SECONDS
from client_stage import Seen
from command_line import here
from faults_lists import LISTS, Recorded, Writer, listed, read_on
from faults_report import Report
from faults_retrying import Retrier
from faults_site import Site, opened
from faults_storm import KINDS, Kind
from list_cycles import anomalies
from list_history import Read, Transaction
from stemmadb.protocol.model.values.json_values import Value
from violations import expect_none


class Weather(NamedTuple):
    """How much is done, and how many faults of which kinds come meanwhile."""

    commits: int
    faults: int
    kinds: tuple[Kind, ...]
    workers: int = 1


CYCLE_SECONDS: Final = 900.0
"""After so long a cycle is stuck, also on a machine that does much else."""
CHAIN_MAX: Final = 5_000
"""Up to so many commits the chain is verified by its specification too, not only by the command."""
LIST_APPEND: Final = Weather(commits=20_000, faults=24, kinds=KINDS)
SERVER_KILLS: Final = Weather(commits=3_000, faults=20, kinds=("kill",))
PAUSES: Final = Weather(commits=1_500, faults=8, kinds=("pause",))
TORN_FRAMES: Final = Weather(commits=1_500, faults=16, kinds=("tear", "sever", "delay", "hold"))


WORKER_KILLS: Final = Weather(commits=3_000, faults=20, kinds=("worker",), workers=3)
WORKER_CHANGES: Final = Weather(commits=2_000, faults=6, kinds=("change", "kill"), workers=4)


def worker_kills(seed: int, weather: Weather = WORKER_KILLS) -> Report:
    """Kill -9 of workers under load; their parent starts them again."""
    return _run(seed, weather)


def worker_changes(seed: int, weather: Weather = WORKER_CHANGES) -> Report:
    """Kill -9 of parent and workers, and a next life with another number of workers."""
    return _run(seed, weather)


def list_append(seed: int, weather: Weather = LIST_APPEND) -> Report:
    """Every kind of fault while lists grow: the history has no cycle."""
    return _run(seed, weather)


def server_kills(seed: int, weather: Weather = SERVER_KILLS) -> Report:
    """Kill -9 of the server under load, again and again."""
    return _run(seed, weather)


def pauses(seed: int, weather: Weather = PAUSES) -> Report:
    """SIGSTOP of the server: no read after it is older than what was acknowledged before."""
    return _run(seed, weather)


def torn_frames(seed: int, weather: Weather = TORN_FRAMES) -> Report:
    """A line that tears, delays, holds and cuts at any byte."""
    return _run(seed, weather)


def _run(seed: int, weather: Weather) -> Report:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_cycle(seed, weather))


async def _cycle(seed: int, weather: Weather) -> Report:
    with tempfile.TemporaryDirectory() as directory:
        async with (
            asyncio.timeout(CYCLE_SECONDS),
            opened(Path(directory), seed=seed, commits=weather.commits, workers=weather.workers) as site,
        ):
            recorded = await _work(site, weather, seed)
            await _settle(site, recorded)
            await _check(site, recorded)
        return site.storm.report


async def _work(site: Site, weather: Weather, seed: int) -> Recorded:
    """All clients work until there are enough commits; the faults are spread over that."""
    recorded, storm = Recorded(), site.storm
    reading = [
        asyncio.create_task(read_on(f"reader {number}", space, recorded, seed=seed * 100 + number))
        for number, space in enumerate(site.readers)
    ]
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(storm.rage(storm.choose(weather.faults, weather.kinds), operations=weather.commits))
            for writer in _writers(site, recorded, seed):
                group.create_task(writer.write(weather.commits))
    finally:
        failed = [task.exception() for task in reading if task.done()]
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    assert not failed, failed
    return recorded


def _writers(site: Site, recorded: Recorded, seed: int) -> Iterator[Writer | Retrier]:
    worked = site.storm.worked
    for number, space in enumerate(site.writers):
        yield Writer(f"writer {number}", space, recorded, seed=seed * 100 + number, worked=worked)
    yield Retrier("retrier", site.plain_client(site.line.url), recorded, seed=seed, worked=worked)


async def _settle(site: Site, recorded: Recorded) -> None:
    """Everything is decided; who looks last sees all lists, and the watcher comes to the same."""
    began = time.monotonic()
    async with asyncio.timeout(PATIENCE_SECONDS):
        found = await site.outside.query(f"{LISTS}*")
    last = tuple(Read(key, listed(value)) for key, value in found.items())
    recorded.transactions.append(Transaction("last", began, time.monotonic(), "ok", last, "the last look"))
    truth: dict[str, Value] = dict(found)
    seen = Seen(site.watch)
    await seen.until(truth)
    views = {"the watcher": cast(dict[str, Value], seen.shown)}
    for number, space in enumerate(site.writers):
        views[f"writer {number}"] = await space.list(f"{LISTS}*")
    expect_none(diverged(views, truth))


async def _check(site: Site, recorded: Recorded) -> None:
    """The promises, over all that was recorded and what is durable now."""
    log = [
        Entry(int(one.version), mark_of(one.note), int(one.time_ms))
        for one in await site.outside.log(order="oldest").all()
        if one.note and mark_of(one.note) != "lists"
    ]
    made = [one.name for one in recorded.transactions]
    expect_none(lost(recorded.acknowledged, log), doubled(log), gone_back(log))
    expect_none(strangers(log, made), resurrected(log, recorded.refused))
    expect_none(stale(recorded.told, recorded.reads), anomalies(recorded.transactions))
    verified = await asyncio.to_thread(here, "verify", "--data", site.server.data, "--json")
    assert verified.code == 0, verified.out + verified.err
    if len(log) <= CHAIN_MAX:
        expect_none(broken_chain(site.outside.did, await site.log_as_told()))
