"""Errors of the disk at every point of a life of a space: no verdict is told that does not hold (COMMIT-10).

The same work is done once for each sync, write, truncation and deletion it takes, and that one fails. Clients that
are told `unavailable` send the same again, as they do in the field.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import msgspec
import pytest

from engines import Engine, engine
from faulty_vfs import Event, FailNth, FaultyVfs, Operation, faulty
from power_images import after_marks, images, put
from space import SPACE, patch_, set_
from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.commit.admission import Accepted, Outcome, Repeated
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.server.engine.base import moments, states
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.storage.port import LogReader
from stemmadb.server.storage.sqlite import SqliteStorage, connection
from stemmadb.server.storage.sqlite.storage import SPACES

CLIENTS = 3
ROUNDS = 4
COMMITS = CLIENTS * ROUNDS + 2
"""With the access list, and the commit that sets all to nothing."""
ATTEMPTS_MAX = 10
WAL_PAGES = 8
COUNT = EntityId("urn:count")


class Told(msgspec.Struct):
    """What clients were told."""

    versions: dict[tuple[int, int], Version] = {}
    """The version of each commit, by client and round."""
    unavailable: int = 0


def list_of(client: int) -> EntityId:
    return EntityId(f"urn:list:{client}")


async def work(vfs: FaultyVfs, directory: Path, told: Told) -> None:
    """Clients commit at the same time, round by round, until all of it is accepted; then the space is closed."""
    storage = SqliteStorage(directory, vfs=vfs.name)
    async with opened(storage) as it:
        founding = it.propose(set_(SPACE, {SPACE: "own"}, blind=True), author=SPACE, session="list")
        await agree(vfs, it, {(-2, -1): founding}, told)
        lists = [set_(list_of(client), [], blind=True) for client in range(CLIENTS)]
        first = it.propose(set_(COUNT, {"n": 0}, blind=True), *lists, author=SPACE)
        await agree(vfs, it, {(-1, -1): first}, told)
        for number in range(ROUNDS):
            await agree(vfs, it, {(client, number): commit(it, client, number) for client in range(CLIENTS)}, told)


@asynccontextmanager
async def opened(storage: SqliteStorage) -> AsyncIterator[Engine]:
    """A space that cannot be opened is tried again."""
    for _ in range(ATTEMPTS_MAX):
        async with AsyncExitStack() as stack:
            try:
                it = await stack.enter_async_context(engine(storage, access=None))
            except Unavailable:
                continue
            yield it
            return
    raise AssertionError("the space could not be opened")


def commit(it: Engine, client: int, number: int) -> Proposal:
    counting = patch_(COUNT, {"op": "increment", "path": "/n", "by": 1}, blind=True)
    adding = patch_(list_of(client), {"op": "add", "path": "/-", "value": number}, blind=True)
    return it.propose(counting, adding, author=SPACE, session=f"client {client}")


async def agree(vfs: FaultyVfs, it: Engine, open_: dict[tuple[int, int], Proposal], told: Told) -> None:
    """Sends the same until there is a verdict for each."""
    for _ in range(ATTEMPTS_MAX):
        answers = await asyncio.gather(*map(it.space.decide, open_.values()), return_exceptions=True)
        for key, answer in zip(list(open_), answers, strict=True):
            if isinstance(answer, Unavailable):
                told.unavailable += 1
            else:
                told.versions[key] = version_of(answer)
                del open_[key]
        vfs.mark(max(told.versions.values(), default=0))
        if not open_:
            return
    raise AssertionError("the space did not come back")


def version_of(answer: Outcome | BaseException) -> Version:
    assert isinstance(answer, Accepted | Repeated), answer
    return answer.commit.version if isinstance(answer, Accepted) else answer.version


def check(directory: Path, acknowledged: int) -> Version:
    """What was acknowledged is there, nothing is there twice, and all of it is whole; gives where the log ends."""
    storage = SqliteStorage(directory)
    log = storage.open(SPACE, create=True)
    try:
        with log.reader() as reader:
            tip = reader.tip().version
            assert acknowledged <= tip, "an acknowledged commit is lost"
            list(chain.verify(SPACE, reader.history()))
            check_states(reader, tip)
        assert log.integrity() == []
    finally:
        storage.close()
    return tip


def check_states(reader: LogReader, tip: Version) -> None:
    ids = [COUNT, *map(list_of, range(CLIENTS))]
    found = {
        id_: one.value for id_, one in states.load(reader, moments.resolve(reader, ReadMoment()).spans, ids).items()
    }
    lists = [cast(list[int], found.get(id_, [])) for id_ in ids[1:]]
    assert all(values == list(range(len(values))) for values in lists), "a commit of a client is lost or doubled"
    assert sum(map(len, lists)) == max(tip - 2, 0)
    assert found.get(COUNT) == ({"n": tip - 2} if tip > 1 else None)


def count_operations(directory: Path, operation: Operation) -> int:
    """How many there are when nothing fails."""
    with faulty() as vfs:
        vfs.before = counter = FailNth(operation, 0)
        asyncio.run(work(vfs, directory, Told()))
        return counter.seen


@pytest.fixture(autouse=True)
def _small_write_ahead_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WAL_PAGES_MAX", WAL_PAGES)


def sweep(scratch: Path, operation: Operation, *, times: int, step: int = 1, power_step: int = 1) -> int:
    """Everything again for each operation of a kind: that one fails, and for some of them power fails later too.

    How often a client was told that there is no verdict.
    """
    unavailable = 0
    for nth in range(1, count_operations(scratch / "none fails", operation) + 1, step):
        told = Told()
        with faulty() as vfs:
            vfs.before = FailNth(operation, nth, times=times)
            asyncio.run(work(vfs, scratch / "all", told))
        assert check(scratch / "all", COMMITS) == COMMITS
        assert sorted(told.versions.values()) == list(range(1, COMMITS + 1))
        if nth % power_step == 0:
            check_power_loss(scratch / "image", vfs.events, nth)
        shutil.rmtree(scratch / "all")
        unavailable += told.unavailable
    return unavailable


def check_power_loss(directory: Path, events: Sequence[Event], seed: int) -> None:
    """Whenever something was acknowledged, after the error too, it is there if the power fails right then."""
    for acknowledged, files in images(events, after_marks(events) * 2, seed):
        put(directory / SPACES / SPACE, files)
        check(directory, acknowledged)


@pytest.mark.rule("COMMIT-1", "COMMIT-5", "COMMIT-10")
@pytest.mark.parametrize("times", [1, 2, 4])
def test_a_sync_that_fails_costs_no_acknowledged_commit_and_makes_none_twice(scratch: Path, times: int) -> None:
    assert sweep(scratch, "sync", times=times) > COMMITS, "whoever waits is told when a sync fails"


@pytest.mark.rule("COMMIT-1", "COMMIT-5", "COMMIT-10")
@pytest.mark.parametrize(("times", "step"), [(1, 1), (4, 4)])
def test_a_write_that_fails_costs_no_acknowledged_commit_and_makes_none_twice(
    scratch: Path, times: int, step: int
) -> None:
    assert sweep(scratch, "write", times=times, step=step, power_step=10) > COMMITS


@pytest.mark.rule("COMMIT-1", "COMMIT-5", "COMMIT-10")
@pytest.mark.parametrize("operation", ["truncate", "delete"])
def test_whatever_else_fails_costs_nothing_either(scratch: Path, operation: Operation) -> None:
    sweep(scratch, operation, times=1)
