"""Checks of the service and its clients: random lives, connections that are lost, apps that are killed."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from scripts.soaking.kinds import Counts
from simulation.run import run as simulate

import memory_storm
import nursery_machine
from engines import Wandering
from service_machine import Machine
from service_peers import service_harness
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.service.base.settings import ServiceSettings

SERVICE_STEPS: Final = 60
CLIENT_SECONDS: Final = 12.0
"""Of virtual time."""


def service(seed: int) -> Counts:
    """Clients come, go, read slowly and are lost; a seed in two works in steps of a wandering length."""

    async def run() -> int:
        workers = Executors(Wandering(seed), Wandering(seed + 1, 12)) if seed % 2 else None
        limits = msgspec.structs.replace(DEFAULTS, part_bytes_max=600) if seed % 3 else DEFAULTS
        settings = ServiceSettings(feed_batches_max=3) if seed % 5 else ServiceSettings()
        async with service_harness(limits=limits, settings=settings, workers=workers) as home:
            machine = Machine(home, seed)
            await machine.run(SERVICE_STEPS)
            return machine.checked

    return Counts(asyncio.run(run()))


def memory(seed: int) -> Counts:
    """Agents decide while the server dies, loses connections and is restored."""
    return Counts(*memory_storm.storm(seed))


def nursery(seed: int) -> Counts:
    """Nurseries on a real service, stacked and cut off."""
    return Counts(nursery_machine.live(seed).checks)


def client(seed: int) -> Counts:
    """A run of the simulation that is longer than those of the kind of that name."""
    report = simulate(seed, CLIENT_SECONDS)
    return Counts(report.operations, report.injected)
