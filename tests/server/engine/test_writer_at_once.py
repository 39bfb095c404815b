"""Commits that memory has everything for are decided and written without a turn of the writer's task."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import pytest

from engines import LonelyStorage, engine
from space import set_
from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.server.engine.base.executors import Inline
from stemmadb.server.engine.write.decider import Decider
from stemmadb.server.engine.write.writer import Writer
from stemmadb.server.engine.write.writer_state import WriterState


async def _never(*_: Any) -> NoReturn:
    raise AssertionError("the task had a turn")


@pytest.mark.rule("COMMIT-1")
async def test_what_memory_has_everything_for_is_written_without_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(LonelyStorage()) as it:
        await it.must(set_("urn:x", 0, blind=True))
        monkeypatch.setattr(Writer, "_turn", _never)
        for number in range(1, 5):
            await it.must(set_("urn:x", number, blind=True))
        assert await it.value("urn:x") == 4


@pytest.mark.rule("COMMIT-10")
async def test_all_that_come_in_one_turn_of_the_loop_are_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    decide = Decider.at_once

    def counted(decider: Decider, batch: Any) -> Any:
        batches.append(len(batch))
        return decide(decider, batch)

    async with engine(LonelyStorage()) as it:
        await it.must(set_("urn:x", 0, blind=True))
        monkeypatch.setattr(Decider, "at_once", counted)
        waiting = [it.space.submit(it.propose(set_("urn:x", number, blind=True))) for number in range(20)]
        outcomes = await asyncio.gather(*waiting)
        assert all(isinstance(one, Accepted) for one in outcomes)
        assert batches == [20]


@pytest.mark.rule("COMMIT-10")
async def test_workers_that_take_nothing_more_leave_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)

    def refuse(*_: Any) -> NoReturn:
        raise RuntimeError

    async with engine(LonelyStorage()) as it:
        await it.must(set_("urn:x", 0, blind=True))
        with monkeypatch.context() as stopped:
            stopped.setattr(Inline, "run", refuse)
            with pytest.raises(Unavailable):
                await it.commit(set_("urn:x", 1, blind=True))
        await it.must(set_("urn:x", 2, blind=True))
        assert await it.value("urn:x") == 2


@pytest.mark.rule("COMMIT-10")
async def test_an_internal_error_on_that_way_is_met_by_the_task_which_tells_those_who_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(what))

    def fail(*_: Any) -> NoReturn:
        raise ZeroDivisionError

    async with engine(LonelyStorage()) as it:
        await it.must(set_("urn:x", 0, blind=True))
        with monkeypatch.context() as broken:
            broken.setattr(WriterState, "take", fail)
            with pytest.raises(Unavailable):
                await it.commit(set_("urn:x", 1, blind=True))
        assert [type(one["exception"]) for one in told] == [ZeroDivisionError]
        await it.must(set_("urn:x", 2, blind=True))
        assert await it.value("urn:x") == 2
