"""What is read does not depend on where the log is kept (QUERY-1, HISTORY-1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from backends import Backend
from random_logs import IDS, PREFIXES, RandomLog
from read_worlds import World, every_page, random_world, readable_moments
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.query.query import Query, Root, prepare
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.read import blame, commit_log, differences, entities, history, listing, store_queries
from stemmadb.server.storage.port import LogFilter, LogReader, SpaceLog

ROUNDS = 12


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SpaceLog]:
    backend = Backend("sqlite", tmp_path)
    yield backend.open()
    backend.close()


def answers(log: LogReader, random: Random, moments: list[ReadMoment]) -> Iterator[Any]:
    """Questions of every kind; equal seeds ask the same."""
    for moment in moments:
        id_, other = EntityId(random.choice(IDS)), random.choice(moments)
        prefix, limit = random.choice(PREFIXES), random.randint(1, 4)
        yield entities.get_many(log, [EntityId(one) for one in IDS], moment)
        yield every_page(lambda after: listing.page(log, prefix, moment, after=after, limit=limit))  # noqa: B023
        yield every_page(lambda after: differences.page(log, moment, other, prefix, after=after, limit=limit))  # noqa: B023
        wanted = LogFilter(branch=moment.branch, prefix=prefix, upto=moment.version)
        yield every_page(
            lambda after: commit_log.page(log, wanted, with_facts=True, after=after, limit=limit)  # noqa: B023
        )
        query = Query(roots=(Root(id=prefix + "*", schema=True),), branch=moment.branch, version=moment.version)
        yield store_queries.run(log, prepare(query))
        yield every_page(lambda after: history.page(log, id_, moment, after=after, limit=limit))  # noqa: B023
        yield every_page(lambda after: blame.page(log, id_, moment, after=after or 0, limit=limit))  # noqa: B023


def told(log: LogReader, seed: int, moments: list[ReadMoment]) -> list[Any]:
    found: list[Any] = []
    for moment in moments:
        random = Random(f"{seed} {moment}")
        asked = answers(log, random, [moment, random.choice(moments)])
        try:
            found.extend(asked)
        except StemmaError as error:
            found.append((type(error), error.facts))
    return found


@pytest.mark.rule("QUERY-1", "HISTORY-1", "HISTORY-2")
@pytest.mark.parametrize("seed", range(6))
def test_every_question_has_the_same_answer_in_memory_and_on_sqlite(seed: int, sqlite: SpaceLog) -> None:
    world: World = random_world(seed, ROUNDS)
    RandomLog(seed, sqlite).run(ROUNDS)
    moments = readable_moments(world)[::3]
    expected = world.ask(lambda log: told(log, seed, moments))
    with sqlite.reader() as log:
        assert told(log, seed, moments) == expected
