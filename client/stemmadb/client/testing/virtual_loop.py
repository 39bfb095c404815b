"""An event loop with virtual time: when nothing is ready it jumps to the next timer. An hour takes milliseconds."""

from __future__ import annotations

import asyncio
import random
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple

from stemmadb.client.testing.waiting import Deadlock, whereabouts

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PATIENCE_SECONDS: Final = 24 * 3600.0
"""Virtual seconds after which a run is stuck: heartbeats tick for ever, so a loop is hardly ever without a timer."""
TURNS_MAX: Final = 1_000_000
"""Turns of the loop without a wait between them, after which it is going round in circles."""
TURN_SECONDS: Final = 1e-9
"""What a turn of the loop takes. Were it nothing, a timer for less than a float can add would never be over."""
THREAD_SECONDS: Final = 0.005
"""Real seconds that other threads get before the time jumps."""
THREAD_SILENCE_SECONDS: Final = 1.0
"""Real seconds after which other threads are not expected to say anything any more."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time begins at 0 and passes only while everybody waits, but for a nanosecond each turn.

    It is made for code on one thread. Work that was given to an executor is waited for; other threads that began
    since get a moment before the time jumps, but what they do is not repeatable. Real sockets do not fit in.
    """

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._now = 0.0
        self._patience = patience
        self._until = patience
        self._turns = 0
        self._jobs = 0
        self._threads = frozenset(threading.enumerate())
        super().__init__(_Jumping(self._idle))

    def time(self) -> float:
        return self._now

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """As ever; the time stands still until it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._jobs += 1
        future.add_done_callback(self._job_done)
        return future

    def _job_done(self, _: asyncio.Future[Any]) -> None:
        self._jobs -= 1

    # ------------------------------------------------------------ when there is nothing to do

    def _idle(self, timeout: float | None, wait: Callable[[float | None], bool]) -> None:
        """Called each turn: jumps `timeout` seconds ahead, if nothing happens outside; None is without a timer."""
        if timeout == 0:
            self._go_round()
        elif self._jobs:
            wait(None)
        elif not wait(self._grace(timeout)):
            self._jump(timeout)

    def _grace(self, timeout: float | None) -> float:
        if self._threads.issuperset(threading.enumerate()):
            return 0.0
        return THREAD_SILENCE_SECONDS if timeout is None else THREAD_SECONDS

    def _go_round(self) -> None:
        self._now += TURN_SECONDS
        self._turns += 1
        if self._turns > TURNS_MAX:
            self._turns = 0
            raise self._stuck(f"the loop has turned {TURNS_MAX} times, and nobody waits for time to pass")

    def _jump(self, seconds: float | None) -> None:
        if seconds is None:
            raise self._stuck("nothing is ready, and there is no timer")
        if self._now + seconds > self._until:
            raise self._stuck(f"it has not come to an end after {self._patience:g} seconds")
        self._turns = 0
        self._now += seconds

    def _stuck(self, why: str) -> Deadlock:
        self._until = self._now + self._patience  # those who clean up have time again
        return Deadlock(f"At {self._now:.6f} virtual seconds: {why}. Who waits:\n{whereabouts(self)}")


class _Jumping(selectors.BaseSelector):
    """A selector that never sleeps: it looks what is there, and leaves the waiting to the loop's time."""

    def __init__(self, idle: Callable[[float | None, Callable[[float | None], bool]], None]) -> None:
        self._real = selectors.DefaultSelector()
        self._idle = idle
        self._found: list[tuple[selectors.SelectorKey, int]] = []

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._found = self._real.select(0)
        if not self._found:
            self._idle(None if timeout is None else max(0.0, timeout), self._wait)
        return self._found

    def _wait(self, seconds: float | None) -> bool:
        """Whether something came from outside, from another thread, within so many real seconds.

        It looks also if there are none: a thread that was just seen to be gone may have said something before.
        """
        self._found = self._real.select(seconds)
        return bool(self._found)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


def run(main: Callable[[], Coroutine[Any, Any, T]], *, seed: int = 0, patience: float = PATIENCE_SECONDS) -> T:
    """Runs a coroutine function on a loop with virtual time, and closes the loop.

    `random` is seeded meanwhile, so that a seed repeats the run. A run that is stuck raises `Deadlock`, which says
    who waits where. What failed without anybody being told fails the run.

    >>> import asyncio
    >>> run(lambda: asyncio.sleep(3600, "an hour later"))
    'an hour later'
    """
    internal_errors: list[dict[str, Any]] = []
    with _seeded(seed), asyncio.Runner(loop_factory=partial(VirtualLoop, patience)) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: internal_errors.append(context))
        result = runner.run(main())
    if internal_errors:
        raise AssertionError(_report(internal_errors)) from internal_errors[0].get("exception")
    return result


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


def _report(internal_errors: list[dict[str, Any]]) -> str:
    lines = [f"- {one['message']}: {one.get('exception')!r}" for one in internal_errors]
    return "Something failed, and nobody was told:\n" + "\n".join(lines)
