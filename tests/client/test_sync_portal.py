"""The portal: blocking calls into an event loop of its own, from any thread, with clean ends."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from stemmadb.client.sync.callbacks import CallbackThread
from stemmadb.client.sync.calls import INTERRUPT_SECONDS, Errands
from stemmadb.client.sync.patience import within
from stemmadb.client.sync.portal import Portal
from stemmadb.client.sync.streams import BlockingStream
from stemmadb.protocol.errors import NotFound, OutOfOrder, TimedOut

PATIENCE = 10.0


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal()
    yield portal
    portal.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "stemmadb"]


async def thread_name() -> str:
    return threading.current_thread().name


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


# ---------------------------------------------------------------- calls


def test_a_call_returns_what_the_coroutine_returns(portal: Portal) -> None:
    assert portal.call(asyncio.sleep, 0, "done") == "done"
    assert portal.call(thread_name) == "stemmadb"


def test_a_call_raises_what_the_coroutine_raises(portal: Portal) -> None:
    failure = NotFound(id="urn:x", branch="main")

    async def fail() -> None:
        raise failure

    with pytest.raises(NotFound) as raised:
        portal.call(fail)
    assert raised.value is failure


def test_a_plain_function_runs_where_the_loop_runs(portal: Portal) -> None:
    assert portal.touch(lambda: threading.current_thread().name) == "stemmadb"
    assert portal.touch(asyncio.get_running_loop) is portal.touch(asyncio.get_running_loop)


async def test_a_call_works_inside_a_notebook_whose_own_loop_runs(portal: Portal) -> None:
    assert portal.call(asyncio.sleep, 0, "done") == "done"


def test_many_threads_call_at_once(portal: Portal) -> None:
    answers: list[int] = []

    def ask(number: int) -> None:
        answers.append(portal.call(asyncio.sleep, 0.001 * (number % 3), number))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == list(range(30))


def test_the_callers_context_goes_along(portal: Portal) -> None:
    request: contextvars.ContextVar[str] = contextvars.ContextVar("request")
    request.set("r1")

    async def read() -> str:
        return request.get()

    assert portal.call(read) == "r1"


def test_waiting_for_a_while_ends_in_a_typed_error_and_lets_others_through(portal: Portal) -> None:
    async def fail() -> None:
        raise TimeoutError("mine")

    assert portal.call(lambda: within(None, asyncio.sleep(0, "done"))) == "done"
    with pytest.raises(TimedOut, match="within 10 ms"):
        portal.call(lambda: within(0.01, for_ever()))
    with pytest.raises(TimeoutError, match="mine"):
        portal.call(lambda: within(PATIENCE, fail()))


# ---------------------------------------------------------------- interruptions


def interrupt_when(begun: threading.Event) -> threading.Thread:
    """Presses Ctrl-C once the call has begun."""

    def press() -> None:
        assert begun.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


def test_ctrl_c_cancels_the_coroutine_and_waits_for_its_end(portal: Portal) -> None:
    begun, steps = threading.Event(), list[str]()

    async def work() -> None:
        begun.set()
        try:
            await for_ever()
        except asyncio.CancelledError:
            steps.append("cancelled")
            await asyncio.sleep(0.02)
            steps.append("cleaned up")
            raise

    thread = interrupt_when(begun)
    with pytest.raises(KeyboardInterrupt):
        portal.call(work)
    thread.join()
    assert steps == ["cancelled", "cleaned up"]
    assert portal.call(asyncio.sleep, 0, "goes on") == "goes on"


def test_ctrl_c_before_anything_began_ends_the_call_at_once(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(portal, "_submit", interrupted)
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        portal.call(for_ever)
    assert time.monotonic() - before < INTERRUPT_SECONDS
    monkeypatch.undo()
    assert portal.call(asyncio.sleep, 0, "goes on") == "goes on"


def test_a_long_call_is_waited_for(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stemmadb.client.sync.calls.NOTICE_SECONDS", 0.001)
    assert portal.call(asyncio.sleep, 0.02, "done") == "done"


def test_ctrl_c_in_the_apps_own_function_ends_the_call(portal: Portal) -> None:
    begun, ended = threading.Event(), threading.Event()

    def own() -> None:
        begun.set()
        while not ended.wait(0.02):  # a longer wait might not notice a signal that comes as it begins
            pass

    async def work(errands: Errands) -> None:
        try:
            await errands.run(own)
        finally:
            ended.set()

    thread = interrupt_when(begun)
    with pytest.raises(KeyboardInterrupt):
        portal.converse(work)
    thread.join()
    assert ended.is_set()


def test_a_coroutine_that_will_not_be_cancelled_does_not_hold_the_interruption_for_ever(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stemmadb.client.sync.calls.INTERRUPT_SECONDS", 0.01)
    begun, release = threading.Event(), threading.Event()

    async def stubborn() -> None:
        begun.set()
        while not release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    thread = interrupt_when(begun)
    with pytest.raises(KeyboardInterrupt):
        portal.call(stubborn)
    thread.join()
    release.set()


# ---------------------------------------------------------------- errands


def test_the_apps_functions_run_on_the_calling_thread(portal: Portal) -> None:
    async def work(errands: Errands) -> list[str]:
        return [(await errands.run(threading.current_thread)).name for _ in range(2)]

    assert portal.converse(work) == [threading.current_thread().name] * 2


def test_an_errand_may_itself_call_in(portal: Portal) -> None:
    async def work(errands: Errands) -> str:
        return await errands.run(lambda: portal.call(asyncio.sleep, 0, "inner"))

    assert portal.converse(work) == "inner"


def test_what_an_errand_raises_is_raised_in_the_coroutine_first(portal: Portal) -> None:
    seen: list[str] = []

    def own() -> None:
        raise LookupError("mine")

    async def work(errands: Errands) -> None:
        try:
            await errands.run(own)
        except LookupError as error:
            seen.append(str(error))
            raise

    with pytest.raises(LookupError, match="mine"):
        portal.converse(work)
    assert seen == ["mine"]


def test_an_errand_that_comes_back_too_late_disturbs_nobody(portal: Portal, caplog: pytest.LogCaptureFixture) -> None:
    gave_up = threading.Event()

    async def work(errands: Errands) -> str:
        try:
            async with asyncio.timeout(0.01):
                await errands.run(gave_up.wait, PATIENCE)
        except TimeoutError:
            gave_up.set()
        return await errands.run(lambda: "next")

    assert portal.converse(work) == "next"
    portal.close()
    assert not caplog.records


def test_what_is_posted_is_called_here_before_the_call_returns(portal: Portal) -> None:
    told: list[tuple[int, str]] = []

    def note(number: int) -> None:
        told.append((number, threading.current_thread().name))

    async def work(errands: Errands) -> None:
        for number in range(3):
            errands.post(note, number)

    portal.converse(work)
    assert told == [(number, threading.current_thread().name) for number in range(3)]


def test_a_posted_function_that_fails_ends_the_call(portal: Portal) -> None:
    ended = threading.Event()

    def fail() -> None:
        raise LookupError("mine")

    async def work(errands: Errands) -> None:
        try:
            errands.post(fail)
            await for_ever()
        finally:
            ended.set()

    with pytest.raises(LookupError, match="mine"):
        portal.converse(work)
    assert ended.is_set()


# ---------------------------------------------------------------- the end


def test_calls_after_the_end_are_refused_with_a_hint(portal: Portal) -> None:
    portal.close()
    portal.close()
    assert portal.is_closed
    with pytest.raises(OutOfOrder, match="The database was closed"):
        portal.call(for_ever)


def test_a_call_under_way_ends_when_the_portal_is_closed(portal: Portal) -> None:
    begun, raised = threading.Event(), list[BaseException]()

    async def work() -> None:
        begun.set()
        await for_ever()

    def call() -> None:
        try:
            portal.call(work)
        except OutOfOrder as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert begun.wait(PATIENCE)
    portal.close()
    thread.join(PATIENCE)
    assert len(raised) == 1


def test_no_call_hangs_that_races_with_the_end() -> None:
    for _ in range(20):
        portal, outcomes = Portal(), list[str]()

        def call(portal: Portal = portal, outcomes: list[str] = outcomes) -> None:
            try:
                while True:
                    portal.call(asyncio.sleep, 0)
            except OutOfOrder:
                outcomes.append("refused")

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        portal.close()
        for thread in threads:
            thread.join(PATIENCE)
        assert outcomes == ["refused"] * 4


def test_an_errand_that_outlives_the_portal_does_not_hang(portal: Portal) -> None:
    async def work(errands: Errands) -> None:
        await errands.run(portal.close)

    with pytest.raises(OutOfOrder, match="closed"):
        portal.converse(work)


def test_a_portal_that_is_forgotten_ends_its_thread() -> None:
    portal = Portal()
    thread = portal._thread
    portal.call(asyncio.sleep, 0)
    del portal
    gc.collect()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_python_ends_although_a_portal_was_not_closed() -> None:
    script = (
        "import asyncio\n"
        "from stemmadb.client.sync.portal import Portal\n"
        "async def work():\n"
        "    try:\n"
        "        await asyncio.sleep(100)\n"
        "    finally:\n"
        "        print('cleaned up')\n"
        "async def begin():\n"
        "    global task\n"
        "    task = asyncio.create_task(work())\n"
        "    await asyncio.sleep(0)\n"
        "portal = Portal()\n"
        "portal.call(begin)\n"
    )
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)  # noqa: S603
    assert (done.returncode, done.stdout, done.stderr) == (0, "cleaned up\n", "")


# ---------------------------------------------------------------- streams


class Numbers:
    """0, 1, 2, ... up to an end; closed is closed."""

    def __init__(self, end: int) -> None:
        self.next, self.end, self.is_closed = 0, end, threading.Event()

    def __aiter__(self) -> Numbers:
        return self

    async def __anext__(self) -> int:
        if self.next == self.end:
            raise StopAsyncIteration
        self.next += 1
        return self.next - 1

    async def aclose(self) -> None:
        self.is_closed.set()


def test_a_stream_is_iterated_to_its_end(portal: Portal) -> None:
    stream = BlockingStream(portal, Numbers(3))
    assert list(stream) == [0, 1, 2]
    assert list(stream) == []


def test_a_loop_that_is_left_early_closes_the_stream(portal: Portal) -> None:
    closed = threading.Event()

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(100):
                yield number
        finally:
            closed.set()

    for number in BlockingStream(portal, numbers()):
        if number == 2:
            break
    assert closed.wait(PATIENCE)


def test_a_stream_is_closed_by_its_block_and_then_over(portal: Portal) -> None:
    numbers = Numbers(100)
    with BlockingStream(portal, numbers) as stream:
        assert next(stream) == 0
    assert numbers.is_closed.is_set()
    stream.close()
    assert list(stream) == []


def test_a_stream_raises_what_its_source_raises(portal: Portal) -> None:
    async def fail() -> AsyncIterator[int]:
        yield 1
        raise NotFound(id="urn:x", branch="main")

    stream = BlockingStream(portal, fail())
    assert next(stream) == 1
    with pytest.raises(NotFound):
        next(stream)


def test_a_stream_without_a_way_to_close_is_left_alone(portal: Portal) -> None:
    class Plain:
        def __aiter__(self) -> Plain:
            return self

        async def __anext__(self) -> int:
            return 7

    stream = BlockingStream(portal, Plain())
    assert next(stream) == 7
    stream.close()
    assert list(stream) == []


def test_a_stream_may_outlive_its_portal(portal: Portal) -> None:
    stream = BlockingStream(portal, Numbers(3))
    portal.close()
    with pytest.raises(OutOfOrder, match="closed"):
        next(stream)
    stream.close()


# ---------------------------------------------------------------- callbacks


def test_callbacks_are_called_in_order_on_one_thread_that_may_call_in(portal: Portal) -> None:
    callbacks, told, names = CallbackThread(), list[int](), set[str]()

    def note(number: int) -> None:
        told.append(portal.call(asyncio.sleep, 0, number))
        names.add(threading.current_thread().name)

    for number in range(20):
        portal.touch(callbacks.call, note, number)
    callbacks.close()
    assert told == list(range(20))
    assert len(names) == 1
    assert not names & {"stemmadb", threading.current_thread().name}


def test_a_callback_that_fails_is_logged_and_the_next_is_called(caplog: pytest.LogCaptureFixture) -> None:
    callbacks, told = CallbackThread(), list[str]()

    def fail() -> None:
        raise LookupError("mine")

    with caplog.at_level(logging.ERROR):
        callbacks.call(fail)
        callbacks.call(told.append, "next")
        callbacks.close()
    assert told == ["next"]
    assert "a callback failed" in caplog.text
    assert "LookupError: mine" in caplog.text


def test_a_callback_may_close() -> None:
    callbacks, done = CallbackThread(), threading.Event()

    def close() -> None:
        callbacks.close()
        done.set()

    callbacks.call(close)
    assert done.wait(PATIENCE)
    callbacks.close()
