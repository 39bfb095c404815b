"""A console at work: it goes on after errors, stops what goes on, and sums up for programs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

from console_worlds import TypedConsole, console, in_a_console, in_the_story, put
from stemmadb.client.cli.context import CliContext
from stemmadb.client.console.session import LOST, STOPPED, ConsoleSession
from stemmadb.client.testing import World


def session_of(console: TypedConsole, *, is_json: bool = False) -> ConsoleSession:
    return ConsoleSession(console.state, CliContext(is_json=is_json))


def test_a_console_goes_on_after_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario(console: TypedConsole) -> None:
        session = session_of(console)
        for line in (
            "get urn:nope",
            "",
            "at 2",
            "get urn:todo:1 /done",
            "merge fix --dry-run --strategy fail",
            "nope",
        ):
            assert await session.line(line)
        assert not await session.line("exit")
        assert (session.count, session.failed, session.state.place) == (6, 3, "main@2")
        assert session.first_error is not None
        assert session.first_error.code == "not_found"
        assert "urn:todo:1" in session.remembered.under("urn:")

    in_the_story(scenario)
    out, err = capsys.readouterr()
    assert "false\n" in out
    assert "oat milk" in out
    assert [line.split(":")[0] for line in err.splitlines()] == ["Error"] * 3


def test_every_answer_is_a_line_of_json_for_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario(console: TypedConsole) -> None:
        session = session_of(console, is_json=True)
        for line in ("get urn:todo:1 /done", "at 3", "get urn:nope", "watch urn:todo:1 --changes 1", ""):
            await session.line(line)

    in_the_story(scenario)
    out, err = capsys.readouterr()
    got, moved, failed, _refused = map(json.loads, out.splitlines())
    assert got["value"] is True
    assert moved == {"branch": "main", "version": 3}
    assert failed["error"]["code"] == "not_found"
    assert err == ""


async def until_said(capsys: pytest.CaptureFixture[str], text: str) -> None:
    said = ""
    while text not in said:
        await asyncio.sleep(0.01)
        said += capsys.readouterr().out


def interrupted(
    capsys: pytest.CaptureFixture[str], act: Callable[[TypedConsole, ConsoleSession], Awaitable[None]]
) -> None:
    """In real time: a signal comes from outside."""

    async def run() -> None:
        async with World(seed=5) as world, console(world) as made:
            await put_quickly(made)
            await act(made, session_of(made))

    asyncio.run(run())


async def put_quickly(made: TypedConsole) -> None:
    async with made.state.space.transaction() as tx:
        tx.set("urn:todo:1", {"done": True})
    await tx.confirmed()


def test_ctrl_c_ends_a_watch_and_not_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    async def act(_made: TypedConsole, session: ConsoleSession) -> None:
        watching = asyncio.create_task(session.line("watch urn:todo:"))
        await until_said(capsys, "urn:todo:1")
        os.kill(os.getpid(), signal.SIGINT)
        assert await watching
        assert STOPPED in capsys.readouterr().err
        assert await session.line("get urn:todo:1 /done")
        assert capsys.readouterr().out == "true\n"

    interrupted(capsys, act)


def test_ctrl_c_ends_a_question_that_is_not_answered(capsys: pytest.CaptureFixture[str]) -> None:
    async def act(made: TypedConsole, session: ConsoleSession) -> None:
        made.world.network["alice"].stop_reading()
        asking = asyncio.create_task(session.line("ls urn:todo:"))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)
        assert await asking
        assert STOPPED in capsys.readouterr().err
        made.world.network["alice"].read_on()

    interrupted(capsys, act)


def test_a_key_stops_what_goes_on() -> None:
    stops: list[Callable[[], object]] = []

    @contextmanager
    def keys(stop: Callable[[], object]) -> Iterator[None]:
        stops.append(stop)
        yield

    async def scenario(console: TypedConsole) -> None:
        session = ConsoleSession(console.state, CliContext(is_json=True), stopping=keys)
        watching = asyncio.create_task(session.line("watch urn:todo:"))
        while not stops:
            await asyncio.sleep(0.01)
        stops[0]()
        assert await watching
        assert session.failed == 0

    in_the_story(scenario)


def test_the_end_of_the_console_is_not_taken_for_the_end_of_a_line() -> None:
    async def scenario(console: TypedConsole) -> None:
        watching = asyncio.create_task(session_of(console, is_json=True).line("watch urn:todo:"))
        await asyncio.sleep(1)
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching

    in_the_story(scenario)


def test_whoever_waits_is_told_that_the_connection_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario(console: TypedConsole) -> None:
        session = session_of(console)
        await put(console.state.space, _1=1)
        watching = asyncio.create_task(session.line("watch urn:todo: --changes 2"))
        await asyncio.sleep(2)
        console.world.network["alice"].offline()
        await asyncio.sleep(30)
        assert capsys.readouterr().err == f"{LOST}\n"
        console.world.network["alice"].online()
        await asyncio.sleep(60)
        assert capsys.readouterr().err == "Connected again.\n"
        await put(console.state.space, _1=2)
        assert await watching

    in_a_console(scenario)


def test_a_server_that_stays_away_is_told_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario(console: TypedConsole) -> None:
        session = session_of(console)
        console.world.network["alice"].offline()
        assert await session.line("ls urn:todo:")
        assert session.first_error is not None
        assert session.first_error.retriable
        console.world.network["alice"].online()
        await asyncio.sleep(60)
        assert await session.line("ls urn:todo:")
        assert session.failed == 1

    in_a_console(scenario)
    assert "Nothing is under 'urn:todo:*'" in capsys.readouterr().out
