"""Threads beside an event loop: work that was given begins although the loop is busy."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from stemmadb.server import thread_pool
from stemmadb.server.thread_pool import Threads


@pytest.fixture
def workers() -> Iterator[Threads]:
    made = Threads(1, "test")
    yield made
    made.close()


async def test_give_way_lets_work_begin_before_the_loop_goes_on(
    workers: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_pool, "GIVE_WAY_SECONDS", 60.0)
    await workers.run(lambda: None)
    begun = threading.Event()
    before = sys.getswitchinterval()
    sys.setswitchinterval(60.0)  # nobody is given the interpreter who has to wait for it to be taken away
    try:
        future = workers.run(begun.set)
        workers.give_way()
        assert begun.is_set()
    finally:
        sys.setswitchinterval(before)
    await future


async def test_where_all_threads_are_at_work_nothing_is_waited_for(
    workers: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_pool, "GIVE_WAY_SECONDS", 60.0)
    release = threading.Event()
    first, second = workers.run(release.wait), workers.run(lambda: 2)
    workers.give_way()
    assert not second.done()
    release.set()
    assert [await first, await second] == [True, 2]


async def test_a_thread_that_is_late_keeps_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Threads, "_start", lambda _: None)  # which takes its time
    late = Threads(1, "test")
    late.run(lambda: None)
    started = time.monotonic()
    late.give_way()
    assert time.monotonic() - started >= thread_pool.GIVE_WAY_SECONDS


async def test_there_may_be_nothing_to_give_way_to(workers: Threads) -> None:
    workers.give_way()
    assert await workers.run(lambda: 1) == 1
    workers.give_way()
    await asyncio.sleep(0)
