"""Rows of plain commits: those that the compiled lane makes are those that Python makes, cell by cell."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from logs import LogMaker
from space import SPACE, delete_, patch_, set_
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.compiled import Lane, native
from stemmadb.protocol.model.ids import MAIN
from stemmadb.server.storage.port import Destroyed, Entry
from stemmadb.server.storage.sqlite import SqliteStorage
from stemmadb.server.storage.sqlite.appending import Appender

COMPILED = native()
pytestmark = pytest.mark.skipif(COMPILED is None, reason="the compiled lane was not built here")
IDS = ("urn:a:1", "urn:a:2", "urn:b:1")


@pytest.fixture
def lane() -> Lane:
    assert COMPILED is not None
    return COMPILED


@pytest.fixture
def known(tmp_path: Path) -> Iterator[tuple[Appender, LogMaker]]:
    """One that has written all ids before, and remembers them."""
    storage, maker = SqliteStorage(tmp_path), LogMaker()
    log = storage.open(SPACE, create=True)
    log.append(maker.version, [maker.commit(*[set_(id_, {"n": 0}, blind=True) for id_ in IDS])])
    yield log._appender, maker
    storage.close()


def batch(maker: LogMaker, chance: random.Random, count: int) -> list[Entry]:
    made = []
    for _ in range(count):
        operations = [
            chance.choice(
                [
                    set_(id_, {"n": chance.randrange(99)}, blind=True),
                    patch_(id_, {"op": "add", "path": "/x", "value": 1}, blind=True),
                ]
            )
            for id_ in chance.choices(IDS, k=chance.randint(1, 4))
        ]
        if chance.random() < 0.2:
            operations = [delete_("urn:a:1", blind=True), set_("urn:a:1", {}, blind=True)]
        note = encode({"message": "m"}) if chance.random() < 0.3 else None
        made.append(maker.commit(*operations, note=note))
    return made


@pytest.mark.rule("FACT-2", "COMMIT-6")
def test_rows_are_those_that_python_makes(lane: Lane, known: tuple[Appender, LogMaker]) -> None:
    appender, maker = known
    for seed in range(60):
        entries = batch(maker, random.Random(seed), count=1 + seed % 5)
        in_python = appender._plain_rows(entries)
        assert in_python is not None
        assert appender._compiled_rows(entries, lane) == in_python
        appender._take_heads(in_python[1])


def test_what_is_not_plain_or_not_known_is_left_to_python(lane: Lane, known: tuple[Appender, LogMaker]) -> None:
    appender, maker = known
    entry = maker.commit(set_("urn:a:1", 1, blind=True))
    assert appender._compiled_rows([Entry(entry.commit, entry.facts, Destroyed())], lane) is None
    assert appender._compiled_rows([Entry(entry.commit, ())], lane) is None
    stranger = maker.commit(set_("urn:c:9", 1, blind=True))
    assert appender._compiled_rows([stranger], lane) is None
    torn = maker.commit(set_("urn:a:1", 2, blind=True))  # its parent was never appended
    assert appender._compiled_rows([torn], lane) is None
    elsewhere = maker.commit(set_("urn:a:1", 3, blind=True), session="other")
    assert appender._compiled_rows([elsewhere], lane) is None
    appender.forget()
    assert appender._compiled_rows([entry], lane) is None


def test_rows_of_anything_else_are_our_mistake(lane: Lane) -> None:
    with pytest.raises(TypeError, match="rows"):
        lane.rows([("commit",)], {}, {}, {}, {}, {})  # type: ignore[list-item]
    with pytest.raises(TypeError, match="rows"):
        lane.rows([], {}, {MAIN: 1}, {}, {}, ())  # type: ignore[arg-type]
