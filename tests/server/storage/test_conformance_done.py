"""Every backend: an append calls `done` once, on the loop of its caller, when the batch is durable or has failed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from appends import append_to
from backends import Backend
from logs import LogMaker
from random_logs import RandomLog
from space import patch_, set_
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.storage.port import AppendBatch, LogMoved, SpaceLog
from stemmadb.server.thread_pool import Threads

ZERO = Version(0)


@pytest.fixture
def workers() -> Iterator[Threads]:
    threads = Threads(1, "conformance")
    yield threads
    threads.close()


def verified(log: SpaceLog) -> int:
    with log.reader() as reader:
        return max((one.version for one in chain.verify(log.space, reader.history())), default=0)


async def ended(log: SpaceLog, batch: AppendBatch) -> list[tuple[BaseException | None, int, int]]:
    """Each call of `done`: with what, in which thread, and what a new reader sees then."""
    calls: list[tuple[BaseException | None, int, int]] = []
    is_done = asyncio.Event()

    def done(failure: BaseException | None) -> None:
        calls.append((failure, threading.get_ident(), verified(log)))
        is_done.set()

    log.append(batch, done)
    assert calls == [], "it returns before anything has blocked"
    async with asyncio.timeout(20):
        await is_done.wait()
    await asyncio.sleep(0.01)
    return calls


@pytest.mark.rule("COMMIT-1", "STORE-1")
async def test_done_is_called_once_on_the_loop_when_every_reader_sees_the_batch(
    backend: Backend, workers: Threads
) -> None:
    maker, log = LogMaker(), backend.open(workers=workers)
    for number in range(3):
        batch = AppendBatch(maker.version, [maker.commit(set_("urn:x", number, blind=True))])
        assert await ended(log, batch) == [(None, threading.get_ident(), number + 1)]


@pytest.mark.rule("COMMIT-1", "STORE-1")
async def test_done_is_called_with_what_the_append_failed_with(backend: Backend, workers: Threads) -> None:
    maker, log = LogMaker(), backend.open(workers=workers)
    first = [maker.commit(set_("urn:x", 1, blind=True))]
    ((failure, thread, version),) = await ended(log, AppendBatch(Version(1), first))
    assert isinstance(failure, LogMoved)
    assert (thread, version) == (threading.get_ident(), 0)
    ((failure, _, version),) = await ended(log, AppendBatch(ZERO, first))
    assert (failure, version) == (None, 1)


@pytest.mark.rule("COMMIT-10")
async def test_done_is_called_also_when_the_workers_are_stopped(backend: Backend) -> None:
    stopped = Threads(1, "conformance")
    stopped.close()
    maker, log = LogMaker(), backend.open(workers=stopped)
    ((failure, _, version),) = await ended(log, AppendBatch(ZERO, [maker.commit(set_("urn:x", 1, blind=True))]))
    if backend.kind == "postgres":  # which appends in threads of its own
        assert (failure, version) == (None, 1)
    else:
        assert isinstance(failure, RuntimeError)
        assert version == 0


def test_without_workers_an_append_has_ended_when_it_returns(backend: Backend) -> None:
    maker, log = LogMaker(), backend.open()
    calls: list[BaseException | None] = []
    with ThreadPoolExecutor(1) as other:
        other.submit(
            log.append, AppendBatch(ZERO, [maker.commit(set_("urn:x", 1, blind=True))]), calls.append
        ).result()
    assert calls == [None]
    assert verified(log) == 1


@pytest.mark.rule("COMMIT-1")
@pytest.mark.parametrize("seed", range(6))
def test_a_log_of_random_batches_is_the_same_log(backend: Backend, seed: int) -> None:
    log = backend.open()
    maker = RandomLog(seed, log).run(30)
    with log.reader() as reader:
        assert [commit.hash for commit, _ in reader.history()] == [commit.hash for commit in maker.commits]
    assert verified(log) == maker.version


@pytest.mark.rule("COMMIT-1")
def test_a_batch_that_found_the_log_elsewhere_leaves_nothing_behind(backend: Backend) -> None:
    maker = LogMaker()
    log = backend.open()
    append_to(log, ZERO, [maker.commit(set_("urn:x", 1, blind=True))])
    second = [maker.commit(set_("urn:x", 2, blind=True))]
    with pytest.raises(LogMoved):
        append_to(log, ZERO, second)
    with pytest.raises(LogMoved):
        append_to(log, Version(2), second)
    append_to(log, Version(1), second)
    append_to(log, Version(2), [maker.commit(patch_("urn:x", {"op": "replace", "path": "", "value": 3}, blind=True))])
    assert verified(log) == 3
