"""Checks of the store on a disk: killed, without power, with errors, full."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pytest
import test_disk_full
import test_fsync_errors
import test_power_loss
from scripts.soaking.kinds import Counts

import engine_machine
import engines
import killing
from faulty_vfs import DiskCapacity, FailNth, Operation, faulty
from merge_schedules import CompactedSchedule, ErasedSchedule
from merge_twins import Twins
from power_images import after_marks
from stemmadb.protocol.errors import StorageFull
from stemmadb.server.storage.sqlite import SqliteStorage, connection

MACHINE_STEPS: Final = 200
KILLS: Final = 3
WAL_PAGES_FULL: Final = 40
CAPACITY: Final = range(187_000, 750_000)
"""Bytes that a disk has at first: enough to open a space, and fewer than the commits that follow need."""
OPERATIONS: Final[tuple[Operation, ...]] = ("sync", "write", "truncate", "delete")


def engine(seed: int) -> Counts:
    """Whatever a user can do to a space, in any order, on files and in memory by turns."""
    machine = engine_machine.SqliteMachine if seed % 2 else engine_machine.EngineMachine
    engine_machine.Steps(machine, seed).run(MACHINE_STEPS)
    return Counts(MACHINE_STEPS)


def compacted_merges(seed: int) -> Counts:
    """One history with merges and compactions, in every other one with erasures too; counts the merges."""
    return asyncio.run(_merge_compacted(seed))


async def _merge_compacted(seed: int) -> Counts:
    async with engines.engine() as it:
        schedule = (ErasedSchedule if seed % 2 else CompactedSchedule)(seed, it)
        await schedule.run()
        return Counts(schedule.merges, schedule.compactions + schedule.erasures)


def twin_merges(seed: int) -> Counts:
    """One history on two spaces, one of them compacted; counts the merges and reverts."""
    return asyncio.run(_compare_twins(seed))


async def _compare_twins(seed: int) -> Counts:
    async with engines.engine() as plain, engines.engine() as compacted:
        twins = Twins(seed, plain, compacted)
        await twins.run()
        return Counts(twins.merges + twins.reverts, twins.compactions + twins.erasures)


def kills(seed: int) -> Counts:
    """A process that appends is killed three times on one directory."""
    acknowledged: killing.Acknowledged = {}
    with tempfile.TemporaryDirectory() as name:
        heard = sum(killing.cycle(Path(name), KILLS * seed + number, acknowledged) for number in range(KILLS))
    return Counts(heard, KILLS)


def power(seed: int) -> Counts:
    """Images of one life of a log, each with some of what was not synced gone or torn."""
    small = patch.object(connection, "WAL_PAGES_MAX", test_power_loss.WAL_PAGES)
    with small, tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        images = test_power_loss.lose_power(seed, Path(one), Path(other))
    return Counts(test_power_loss.BATCHES, images)


def fsync_errors(seed: int) -> Counts:
    """One operation of the disk fails, and maybe those after it; then power fails whenever something was told."""
    chance = random.Random(seed)
    operation, times = chance.choice(OPERATIONS), chance.choice([1, 2, 4])
    small = patch.object(connection, "WAL_PAGES_MAX", test_fsync_errors.WAL_PAGES)
    with small, tempfile.TemporaryDirectory() as name, faulty() as vfs:
        there = test_fsync_errors.count_operations(Path(name, "none fails"), operation)
        nth = chance.randint(1, there)
        vfs.before = failing = FailNth(operation, nth, times=times)
        told = test_fsync_errors.Told()
        asyncio.run(test_fsync_errors.work(vfs, Path(name, "all"), told))
        assert test_fsync_errors.check(Path(name, "all"), test_fsync_errors.COMMITS) == test_fsync_errors.COMMITS
        assert sorted(told.versions.values()) == list(range(1, test_fsync_errors.COMMITS + 1))
        test_fsync_errors.check_power_loss(Path(name, "image"), vfs.events, seed)
    failed = min(times, failing.seen - nth + 1)
    return Counts(test_fsync_errors.COMMITS, failed + 2 * len(after_marks(vfs.events)))


def disk_full(seed: int) -> Counts:
    """A disk has room for some bytes and then for none, until there is room again."""
    small = patch.object(connection, "WAL_PAGES_MAX", WAL_PAGES_FULL)
    with small, tempfile.TemporaryDirectory() as name, faulty() as vfs:
        vfs.before = capacity = DiskCapacity(random.Random(seed).choice(CAPACITY))
        return asyncio.run(_fill_and_go_on(SqliteStorage(Path(name), vfs=vfs.name), capacity))


async def _fill_and_go_on(storage: SqliteStorage, capacity: DiskCapacity) -> Counts:
    async with engines.engine(storage) as it:
        count, refused = await test_disk_full.fill(it)
        with pytest.raises(StorageFull):
            await it.space.decide(refused)
        await test_disk_full.check_reads(it, count)
        capacity.add(10 * test_disk_full.DISK_BYTES)
        await test_disk_full.check_all(it, refused, count)
    return Counts(count + 2, 1)
