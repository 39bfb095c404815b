"""Executors: bounded threads, and the same work on the thread of the loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from functools import partial

import pytest

from engines import inline_executors
from stemmadb.server.engine.base import executors
from stemmadb.server.thread_pool import Threads


async def test_threads_run_work_away_from_the_loop_and_no_more_at_a_time_than_they_are() -> None:
    workers = Threads(2, "test")
    started = threading.Semaphore(0)
    release = threading.Event()
    seen: list[int] = []

    def work() -> int:
        started.release()
        release.wait(10)
        seen.append(threading.get_ident())
        return len(seen)

    jobs = [asyncio.ensure_future(workers.run(work)) for _ in range(4)]
    await asyncio.to_thread(lambda: (started.acquire(timeout=10), started.acquire(timeout=10)))
    assert not started.acquire(blocking=False)  # the third waits for a thread
    release.set()
    assert sorted(await asyncio.gather(*jobs)) == [1, 2, 3, 4]
    assert threading.get_ident() not in seen
    assert len(set(seen)) <= 2
    workers.close()


async def test_an_exception_comes_back_to_who_asked_for_the_work() -> None:
    for workers in (Threads(1, "test"), executors.Inline()):
        with pytest.raises(ZeroDivisionError):
            await workers.run(lambda: 1 // 0)
        workers.close()


async def test_inline_work_runs_on_the_thread_of_the_loop() -> None:
    both = inline_executors()
    assert await both.writing.run(threading.get_ident) == threading.get_ident()
    assert await both.reading.run(threading.get_ident) == threading.get_ident()
    both.close()


async def test_writers_and_readers_have_threads_of_their_own() -> None:
    both = executors.threads(writers=1, readers=1)
    release = threading.Event()
    reading = asyncio.ensure_future(both.reading.run(lambda: release.wait(10)))
    assert await both.writing.run(lambda: "written") == "written"
    release.set()
    assert await reading
    both.close()


async def test_what_waits_its_turn_and_is_given_up_is_not_done() -> None:
    workers = Threads(1, "test")
    release = threading.Event()
    done: list[str] = []
    first = workers.run(lambda: release.wait(10))
    second = workers.run(lambda: done.append("second"))
    third = workers.run(lambda: done.append("third"))
    second.cancel()
    release.set()
    assert await first
    await third
    assert done == ["third"]
    workers.close()


async def test_closing_waits_for_what_was_given() -> None:
    workers = Threads(2, "test")
    done: list[int] = []
    jobs = [workers.run(partial(done.append, number)) for number in range(20)]
    await asyncio.to_thread(workers.close)
    assert sorted(done) == list(range(20))
    await asyncio.gather(*jobs)


async def test_a_thread_is_started_only_when_all_others_are_busy() -> None:
    workers = Threads(8, "test-idle")
    for _ in range(5):
        await workers.run(lambda: None)
    assert sum(thread.name.startswith("test-idle") for thread in threading.enumerate()) == 1
    workers.close()


async def test_a_thread_that_cannot_be_started_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    workers = Threads(2, "test")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            workers.run(lambda: 1)
    assert await workers.run(lambda: 2) == 2
    release = threading.Event()
    busy = workers.run(lambda: release.wait(10))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        waiting = workers.run(lambda: 3)
    release.set()
    assert await waiting == 3
    assert await busy
    workers.close()
    with pytest.raises(RuntimeError):
        workers.run(lambda: 4)


def test_a_process_ends_although_its_threads_were_not_stopped() -> None:
    script = (
        "import asyncio\n"
        "from stemmadb.server.thread_pool import Threads\n"
        "async def main():\n"
        "    print(await Threads(2, 'left').run(lambda: 'done'))\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=30
    )
    assert (ended.returncode, ended.stdout) == (0, "done\n")
