"""Random lives of clients: they commit, watch, come and go, read slowly and take each other over."""

from __future__ import annotations

import msgspec
import pytest

from engines import Wandering
from service_machine import Machine
from service_peers import service_harness
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.service.base.settings import ServiceSettings

SMALL_PARTS = msgspec.structs.replace(DEFAULTS, part_bytes_max=600)
SHORT_MEMORY = ServiceSettings(feed_batches_max=3)


@pytest.mark.rule("WATCH-1", "SYNC-1", "SYNC-2", "SYNC-3", "SYNC-6", "RESUME-1", "RESUME-2")
@pytest.mark.parametrize("seed", range(30))
async def test_what_a_watcher_holds_equals_the_query_afresh_and_every_commit_is_decided_once(seed: int) -> None:
    limits = SMALL_PARTS if seed % 2 else DEFAULTS
    settings = SHORT_MEMORY if seed % 3 else ServiceSettings()
    async with service_harness(limits=limits, settings=settings) as home:
        machine = Machine(home, seed)
        await machine.run(60)
        assert machine.checked


@pytest.mark.rule("WATCH-1", "SYNC-7")
@pytest.mark.parametrize("seed", range(8))
async def test_the_same_holds_whatever_order_reads_and_writes_end_in(seed: int) -> None:
    workers = Executors(Wandering(seed), Wandering(seed + 1, 12))
    async with service_harness(limits=SMALL_PARTS if seed % 2 else DEFAULTS, workers=workers) as home:
        await Machine(home, seed).run(50)


@pytest.mark.rule("SYNC-7")
async def test_a_page_may_ask_for_what_has_left_its_group_meanwhile() -> None:
    """Found by this seed: the watch ended by an internal error."""
    async with service_harness(settings=SHORT_MEMORY) as home:
        await Machine(home, 2_000_646).run(60)
