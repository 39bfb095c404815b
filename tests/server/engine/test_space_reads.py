"""Batched reads of a space: one executor call, one read view, each caller its own answer."""

from __future__ import annotations

import asyncio

import pytest

from engines import Held, LonelyStorage, engine, turns
from space import set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.engine.read.batched_reads import TOGETHER_MIN
from stemmadb.server.storage.port import LogReader
from verdicts import X


def version(reader: LogReader) -> Version:
    return reader.tip().version


async def test_questions_that_come_together_are_answered_on_one_read_view() -> None:
    seen: list[str] = []
    async with engine(LonelyStorage(seen.append)) as it:
        seen.clear()
        assert await asyncio.gather(*[it.space.read(version) for _ in range(10)]) == [1] * 10
        assert seen == ["reader"]


async def test_an_executor_call_answers_a_bounded_number_and_a_space_has_a_bounded_number_of_executor_calls() -> None:
    reading = Held()
    sizes = Settings(reads_max=3, readers_max=2)
    async with engine(LonelyStorage(), workers=Executors(executors.Inline(), reading), sizes=sizes) as it:
        reading.is_held = True
        reads = [asyncio.ensure_future(it.space.read(version)) for _ in range(8)]
        await turns()
        assert len(reading) == 2
        assert it.space.is_in_use
        reading.step()
        await turns()
        assert [one.done() for one in reads] == [True] * 3 + [False] * 5
        assert len(reading) == 2
        late = asyncio.ensure_future(it.space.read(version))
        await turns()
        assert len(reading) == 2
        reading.release()
        assert await asyncio.gather(*reads, late) == [1] * 9
        await turns()
        assert not it.space.is_in_use


async def test_a_read_has_everything_that_was_acknowledged_before_it_began() -> None:
    reading = Held()
    async with engine(LonelyStorage(), workers=Executors(executors.Inline(), reading)) as it:
        reading.is_held = True
        early = asyncio.ensure_future(it.space.read(version))
        await turns()
        acknowledged = await it.must(set_(X, 1, blind=True))
        late = asyncio.ensure_future(it.space.read(version))
        await turns()
        reading.release()
        assert await early >= 1
        assert await late == acknowledged


async def test_an_exception_of_one_question_reaches_only_its_caller() -> None:
    async with engine() as it:

        def wrong(_reader: LogReader) -> None:
            raise errors.NotFound(id="urn:x", branch="main")

        def stop(_reader: LogReader) -> None:
            raise StopIteration

        told = await asyncio.gather(
            it.space.read(version), it.space.read(wrong), it.space.read(stop), it.space.read(version),
            return_exceptions=True,
        )  # fmt: skip
        assert [type(one) for one in told] == [int, errors.NotFound, RuntimeError, int]


async def test_a_reader_who_gives_up_disturbs_nobody() -> None:
    reading = Held()
    async with engine(LonelyStorage(), workers=Executors(executors.Inline(), reading)) as it:
        reading.is_held = True
        reads = [asyncio.ensure_future(it.space.read(version)) for _ in range(3)]
        await turns()
        reads[1].cancel()
        await turns()
        reading.release()
        assert await reads[0] == await reads[2] == 1
        with pytest.raises(asyncio.CancelledError):
            await reads[1]


async def test_a_closing_space_answers_those_who_asked_before() -> None:
    reading = Held()
    sizes = Settings(reads_max=1, readers_max=1)
    async with engine(LonelyStorage(), workers=Executors(executors.Inline(), reading), sizes=sizes) as it:
        reading.is_held = True
        reads = [asyncio.ensure_future(it.space.read(version)) for _ in range(3)]
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(it.space.close())
        await turns()
        assert not closing.done()
        reading.is_held = False
        reading.release()
        assert await asyncio.gather(*reads) == [1, 1, 1]
        await closing
        with pytest.raises(errors.Unavailable):
            await it.space.read(version)


async def test_questions_that_come_while_an_executor_call_is_under_way_share_the_next_one() -> None:
    reading = Held()
    async with engine(LonelyStorage(), workers=Executors(executors.Inline(), reading)) as it:
        reading.is_held = True
        first = asyncio.ensure_future(it.space.read(version))
        await turns()
        others = [asyncio.ensure_future(it.space.read(version)) for _ in range(5)]
        await turns()
        assert len(reading) == 1
        reading.step()
        await turns()
        assert first.done()
        assert len(reading) == 1
        reading.release()
        assert await asyncio.gather(*others) == [1] * 5


async def test_an_executor_call_that_takes_long_keeps_nobody_waiting() -> None:
    reading = Held()
    async with engine(LonelyStorage(), workers=Executors(executors.Inline(), reading)) as it:
        reading.is_held = True
        long = asyncio.ensure_future(it.space.read(version))
        await turns()
        short = asyncio.ensure_future(it.space.read(version))
        while len(reading) < 2:  # after `LATE_SECONDS`
            await asyncio.sleep(0.001)
        assert not long.done()
        reading.release()
        assert await asyncio.gather(*[long, short]) == [1, 1]


async def test_many_that_wait_have_an_executor_call_of_their_own_at_once() -> None:
    reading = Held()
    async with engine(LonelyStorage(), workers=Executors(executors.Inline(), reading)) as it:
        reading.is_held = True
        reads = [asyncio.ensure_future(it.space.read(version))]
        await turns()
        reads += [asyncio.ensure_future(it.space.read(version)) for _ in range(TOGETHER_MIN)]
        await turns()
        assert len(reading) == 2
        reading.release()
        assert await asyncio.gather(*reads) == [1] * (TOGETHER_MIN + 1)
