"""Worker processes that run seeds: one that hangs or dies is replaced, and what it did counts as a violation."""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

from scripts.soaking.kinds import Counts, Kind, Load

SEEDS_MAX: Final = 2_000
"""After so many a worker is replaced, so that no leak of a check grows for hours."""
MEMORY: Final = Path("/dev/shm")  # noqa: S108
MEMORY_MIN: Final = 2 * 1024**3
WARNING_SHARE: Final = 0.9
"""Of the time that a seed has."""


START_SECONDS_MAX: Final = 120.0
READY: Final = "ready"
STDERR: Final = 2
"""Also where a test catches what is printed."""


class Outcome(NamedTuple):
    """What came of one seed: counts, or the problem it showed."""

    kind: str
    seed: int
    counts: Counts | None
    problem: str
    begun: float
    ended: float


class Workers(Protocol):
    """Where seeds are run."""

    def has_room(self) -> bool: ...
    def start(self, kind: Kind, seed: int, begun: float) -> None: ...
    def wait(self, seconds: float) -> list[Outcome]:
        """What ended, as soon as something did, and at the latest after so many seconds."""
        ...


class Task(NamedTuple):
    kind: Kind
    seed: int
    begun: float

    def ended(self, counts: Counts | None, problem: str, now: float) -> Outcome:
        return Outcome(self.kind.name, self.seed, counts, problem, self.begun, now)


def tried(kind: Kind, seed: int, *, is_alone: bool = False) -> tuple[Counts | None, str]:
    """Runs one seed; whatever it raises is told as text, also what is no `Exception`, such as a failure of pytest.

    One that hangs shows where it is, before it is killed. Nobody kills a process that is alone: it ends itself.
    """
    seconds = kind.seconds_max * (1 if is_alone else WARNING_SHARE)
    faulthandler.dump_traceback_later(seconds, exit=is_alone, file=STDERR)
    try:
        return kind.run(seed), ""
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None, traceback.format_exc()
    finally:
        faulthandler.cancel_dump_traceback_later()


def serve(pipe: Connection, load: Load, scratch: str) -> None:
    """The life of a worker. It leads its own session, so that it is killed together with all that it started."""
    os.setsid()
    os.dup2(2, 1)  # what a check prints must not come between the lines of a summary
    os.environ["TMPDIR"] = tempfile.tempdir = scratch
    kinds = load()
    try:
        pipe.send(READY)
        while True:
            name, seed = pipe.recv()
            pipe.send(tried(kinds[name], seed))
    except (EOFError, BrokenPipeError):
        return  # whoever started it is gone


class _Worker:
    """A process and what it is at."""

    def __init__(self, load: Load, scratch: str) -> None:
        context = get_context("spawn")  # a fork would take over threads and locks in any state
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, load, scratch))
        self.process.start()
        theirs.close()
        self.task: Task | None = None
        self.seeds = 0

    def await_ready(self) -> None:
        """Making a worker is no part of the time of a seed."""
        try:
            is_ready = self.pipe.poll(START_SECONDS_MAX) and self.pipe.recv() == READY
        except EOFError:
            is_ready = False
        if not is_ready:
            raise RuntimeError("a worker process did not start")

    def start(self, task: Task) -> None:
        self.task, self.seeds = task, self.seeds + 1
        with suppress(BrokenPipeError):  # it died meanwhile; that is seen when its answer is waited for
            self.pipe.send((task.kind.name, task.seed))

    def end(self) -> int | None:
        """Kills it and all that it started; gives the code of a process that had ended by itself."""
        code = self.process.exitcode
        assert self.process.pid is not None
        with suppress(ProcessLookupError):  # one that has just been started has no group of its own yet
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        self.pipe.close()
        return code


class Processes:
    """So many workers at the same time, made at once, and again when one is gone."""

    def __init__(self, load: Load, *, jobs: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._jobs = jobs
        self._clock = clock
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []
        has_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_MIN
        self._scratch = tempfile.mkdtemp(prefix="soak-", dir=MEMORY if has_memory else None)

    def __enter__(self) -> Self:
        try:
            self._make(self._jobs)
        except BaseException:
            self.__exit__()
            raise
        return self

    def has_room(self) -> bool:
        return len(self._busy) < self._jobs

    def start(self, kind: Kind, seed: int, begun: float) -> None:
        assert self.has_room()
        if not self._idle:
            self._make(1)
        worker = self._idle.pop()
        self._busy.append(worker)
        worker.start(Task(kind, seed, begun))

    def _make(self, count: int) -> None:
        made = [_Worker(self._load, self._scratch) for _ in range(count)]
        self._idle += made
        for worker in made:
            worker.await_ready()

    def wait(self, seconds: float) -> list[Outcome]:
        deadline = min((self._deadline(worker) for worker in self._busy), default=0.0)
        timeout = max(0.0, min(seconds, deadline - self._clock()))
        ready = connection.wait([worker.pipe for worker in self._busy], timeout)
        now = self._clock()
        return [
            self._ended(worker, now, has_answer=worker.pipe in ready)
            for worker in list(self._busy)
            if worker.pipe in ready or now >= self._deadline(worker)
        ]

    def _deadline(self, worker: _Worker) -> float:
        assert worker.task is not None
        return worker.task.begun + worker.task.kind.seconds_max

    def _ended(self, worker: _Worker, now: float, *, has_answer: bool) -> Outcome:
        task = worker.task
        assert task is not None
        self._busy.remove(worker)
        if not has_answer:
            worker.end()
            return task.ended(None, f"it hangs: no end after {task.kind.seconds_max:g} s", now)
        try:
            counts, problem = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join(timeout=1)
            return task.ended(None, f"its process died with code {worker.end()}", now)
        if worker.seeds < SEEDS_MAX:
            self._idle.append(worker)
        else:
            worker.end()
        return task.ended(counts, problem, now)

    def __exit__(self, *_why: object) -> None:
        """Ends all of them, also in the middle of a seed, and removes what they left behind."""
        for worker in (*self._idle, *self._busy):
            worker.end()
        shutil.rmtree(self._scratch, ignore_errors=True)
