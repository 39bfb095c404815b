"""Rows of fast-path commits: those that the compiled fast path makes are those that Python makes, cell by cell."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from appends import append_to
from logs import LogMaker
from space import SPACE, delete_, patch_, set_
from stemmadb.protocol.model.commit.native import FastPath, native
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN
from stemmadb.server.storage.port import AcceptedWrite, Destroyed
from stemmadb.server.storage.sqlite import SqliteStorage
from stemmadb.server.storage.sqlite.append import Appender

COMPILED = native()
pytestmark = pytest.mark.skipif(COMPILED is None, reason="the compiled fast path was not built here")
IDS = ("urn:a:1", "urn:a:2", "urn:b:1")


@pytest.fixture
def fast_path() -> FastPath:
    assert COMPILED is not None
    return COMPILED


@pytest.fixture
def known(tmp_path: Path) -> Iterator[tuple[Appender, LogMaker]]:
    """One that has written all ids before, and remembers them."""
    storage, maker = SqliteStorage(tmp_path), LogMaker()
    log = storage.open(SPACE, create=True)
    append_to(log, maker.version, [maker.commit(*[set_(id_, {"n": 0}, blind=True) for id_ in IDS])])
    yield log._appender, maker
    storage.close()


def batch(maker: LogMaker, chance: random.Random, count: int) -> list[AcceptedWrite]:
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
def test_rows_are_those_that_python_makes(fast_path: FastPath, known: tuple[Appender, LogMaker]) -> None:
    appender, maker = known
    for seed in range(60):
        entries = batch(maker, random.Random(seed), count=1 + seed % 5)
        in_python = appender._python_rows(entries)
        assert in_python is not None
        assert appender._native_rows(entries, fast_path) == in_python
        appender._take_heads(in_python[1])


def test_what_is_not_fast_path_or_unknown_is_left_to_python(
    fast_path: FastPath, known: tuple[Appender, LogMaker]
) -> None:
    appender, maker = known
    entry = maker.commit(set_("urn:a:1", 1, blind=True))
    assert appender.rows_from_memory([AcceptedWrite(entry.commit, entry.facts, Destroyed())]) is None
    assert appender._native_rows([AcceptedWrite(entry.commit, ())], fast_path) is None
    stranger = maker.commit(set_("urn:c:9", 1, blind=True))
    assert appender._native_rows([stranger], fast_path) is None
    torn = maker.commit(set_("urn:a:1", 2, blind=True))  # its parent was never appended
    assert appender._native_rows([torn], fast_path) is None
    elsewhere = maker.commit(set_("urn:a:1", 3, blind=True), session="other")
    assert appender._native_rows([elsewhere], fast_path) is None
    appender.forget()
    assert appender._native_rows([entry], fast_path) is None


def test_rows_of_anything_else_are_internal_errors(fast_path: FastPath) -> None:
    with pytest.raises(TypeError, match="rows"):
        fast_path.rows([("commit",)], {}, {}, {}, {}, {})  # type: ignore[list-item]
    with pytest.raises(TypeError, match="rows"):
        fast_path.rows([], {}, {MAIN: 1}, {}, {}, ())  # type: ignore[arg-type]
