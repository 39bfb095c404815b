"""Virtual time: it jumps, it is the same each time, and it says when nothing can happen any more."""

from __future__ import annotations

import asyncio
import random
import threading
import time

import pytest

from stemmadb.client.testing import Deadlock, run, virtual_loop


def test_an_hour_passes_at_once() -> None:
    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    before = time.monotonic()
    assert run(main) == pytest.approx(3600, abs=1e-6)
    assert time.monotonic() - before < 1


def test_time_stands_still_while_somebody_has_something_to_do() -> None:
    async def main() -> float:
        for _ in range(1_000):
            await asyncio.sleep(0)
        time.sleep(0.01)
        return asyncio.get_running_loop().time()

    assert run(main) < 1e-5


def test_timers_fire_in_order_and_at_their_time() -> None:
    async def main() -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        fired: list[tuple[str, float]] = []

        async def wait(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            fired.append((name, loop.time()))

        await asyncio.gather(wait("late", 86_400 * 3), wait("soon", 0.25), wait("next", 7))
        return fired

    names, times = zip(*run(main, patience=1e6), strict=True)
    assert names == ("soon", "next", "late")
    assert times == pytest.approx((0.25, 7, 86_400 * 3), abs=1e-6)


def test_who_waits_for_nothing_is_told_where() -> None:
    async def forgotten() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(forgotten(), name="the forgotten one")

    with pytest.raises(Deadlock, match=r"no timer") as stuck:
        run(main)
    assert "- the forgotten one at " in str(stuck.value)
    assert "in forgotten" in str(stuck.value)


def test_a_run_whose_timers_never_end_runs_out_of_patience() -> None:
    beats, left = 0, []

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(20)
            beats += 1

    async def main() -> None:
        beating = asyncio.create_task(beat())
        try:
            await asyncio.Event().wait()
        finally:
            beating.cancel()
            await asyncio.sleep(3000)
            left.append("cleaned up")

    with pytest.raises(Deadlock, match="after 3600 seconds"):
        run(main, patience=3600)
    assert 179 <= beats <= 180
    assert left == ["cleaned up"], "who cleans up has as much time again"


def test_a_run_that_goes_round_in_circles_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_loop, "TURNS_MAX", 500)

    async def main() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Deadlock, match="nobody waits for time"):
        run(main)


def test_a_timer_for_less_than_a_float_can_add_comes_to_an_end() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(260.458)
        until = loop.time() + 1e-12
        while (rest := until - loop.time()) > 0:
            await asyncio.sleep(rest)
        return loop.time()

    assert run(main) == pytest.approx(260.458, abs=1e-6)


def test_the_blocks_of_a_run_that_is_stuck_are_left_in_order() -> None:
    left: list[str] = []

    async def main() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            left.append("cleaned up")

    with pytest.raises(Deadlock):
        run(main)
    assert left == ["cleaned up"]


def test_work_in_an_executor_is_waited_for_without_time_passing() -> None:
    async def main() -> float:
        async with asyncio.timeout(0.001):
            await asyncio.to_thread(time.sleep, 0.05)
        return asyncio.get_running_loop().time()

    assert run(main) < 1e-5


def test_another_thread_can_wake_the_loop() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        told: asyncio.Future[str] = loop.create_future()

        def work() -> None:
            time.sleep(0.05)
            loop.call_soon_threadsafe(told.set_result, "done")

        thread = threading.Thread(target=work)
        thread.start()
        result = await told
        await asyncio.to_thread(thread.join)
        return result

    assert run(main) == "done"


def test_chance_is_the_same_for_the_same_seed_and_comes_back_afterwards() -> None:
    async def main() -> list[float]:
        return [random.random() for _ in range(3)]

    random.seed(99)
    state = random.getstate()
    assert run(main, seed=1) == run(main, seed=1) != run(main, seed=2)
    assert random.getstate() == state


def test_what_failed_without_anybody_being_told_fails_the_run() -> None:
    async def main() -> None:
        def fail() -> None:
            raise LookupError("nobody hears this")

        asyncio.get_running_loop().call_soon(fail)
        await asyncio.sleep(1)

    with pytest.raises(AssertionError, match="nobody hears this") as failed:
        run(main)
    assert isinstance(failed.value.__cause__, LookupError)


def test_the_error_of_the_run_itself_comes_through() -> None:
    async def main() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(main)
