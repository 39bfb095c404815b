"""The index against a naive oracle: all commits replayed, all texts looked at."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import apsw
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stemmadb.memory.index import words
from stemmadb.memory.index.documents import document_of
from stemmadb.memory.index.index_file import drop_index, open_index
from stemmadb.memory.index.rows import (
    DocumentState,
    ErasedVersions,
    IndexedCommit,
    VectorState,
    add_commits,
    position,
    scrub,
)
from stemmadb.memory.index.search import HEAD, IndexSearch, Question
from stemmadb.memory.rules import ids, records
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.records import Memory

NAMES = ("org:a", "org:b")
WORDS = ("zebra", "lion", "tiger", "walrus", "ibex")
UUIDS = [MemoryId(f"00000000-0000-4000-8000-{number:012d}") for number in range(6)]
ENTITIES = [ids.memory_entity(ids.namespace_hash(NAMES[number % 2]), uuid) for number, uuid in enumerate(UUIDS)]


def memory(name: str, text: str, **fields: object) -> Memory:
    return Memory(**({"ns": name, "kind": "fact", "text": text, "via": "http", "created_at": Millis(1)} | fields))  # type: ignore[arg-type]


def state_of(entity: str, state: Memory | None) -> DocumentState:
    value = None if state is None else records.stored(state)
    return DocumentState(entity, document_of(entity, value))


class Write(NamedTuple):
    number: int
    text: str | None
    kind: str
    expires: int | None


class Erase(NamedTuple):
    number: int
    first: int


TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
WRITES = st.builds(
    Write,
    st.integers(0, 5),
    st.none() | TEXTS,
    st.sampled_from(("fact", "summary")),
    st.none() | st.integers(1, 20),
)
HISTORIES = st.lists(WRITES | st.builds(Erase, st.integers(0, 5), st.integers(0, 30)), min_size=1, max_size=30)


class Oracle:
    """What every memory was at every version, and nothing cleverer."""

    def __init__(self) -> None:
        self.states: list[tuple[int, str, Memory | None]] = []

    def at(self, version: int) -> dict[str, Memory]:
        found = {entity: state for since, entity, state in self.states if since <= version}
        return {entity: state for entity, state in found.items() if state is not None}

    def erase(self, entity: str, versions: list[int]) -> None:
        self.states = [
            (since, one, None if one == entity and since in versions else state) for since, one, state in self.states
        ]


def commit_of(version: int, step: Write | Erase, oracle: Oracle) -> IndexedCommit:
    entity, name = ENTITIES[step.number], NAMES[step.number % 2]
    if isinstance(step, Erase):
        versions = [since for since, one, _ in oracle.states if one == entity and since >= step.first]
        oracle.erase(entity, versions)
        return IndexedCommit(version, version, f"h{version}", erased=[ErasedVersions(entity, versions)])
    state = None
    if step.text is not None:
        expires = None if step.expires is None else Millis(step.expires)
        state = memory(name, step.text, kind=step.kind, expires_at=expires, created_at=Millis(version))
    oracle.states.append((version, entity, state))
    return IndexedCommit(version, version, f"h{version}", states=[state_of(entity, state)])


@pytest.mark.rule("MEM-5", "MEM-6")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    HISTORIES, st.lists(st.sampled_from(WORDS), min_size=1, max_size=2, unique=True), st.integers(0, 20), st.data()
)
def test_the_index_finds_what_a_scan_of_the_replayed_log_finds(
    tmp_path: Path, history: list[Write | Erase], asked: list[str], now: int, data: st.DataObject
) -> None:
    path = tmp_path / "index.db"
    drop_index(path)
    connection, oracle = open_index(path), Oracle()
    for version, step in enumerate(history, start=1):
        add_commits(connection, [commit_of(version, step, oracle)])
    version = data.draw(st.integers(0, len(history)) | st.just(HEAD))
    names = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    kinds = data.draw(st.sampled_from([(), ("fact",), ("summary",)]))
    question = Question(
        [ids.namespace_hash(name) for name in names], kinds=kinds, now=now, version=version, limit=100
    )
    search = IndexSearch(connection)
    alive = {
        entity: state
        for entity, state in oracle.at(version).items()
        if state.ns in names
        and (not kinds or state.kind in kinds)
        and (state.expires_at is None or state.expires_at > now)
    }
    by_words = search.search(question._replace(text=" ".join(asked)))
    assert {hit.entity for hit in by_words.hits} == {
        entity for entity, state in alive.items() if set(state.text.split()) & set(asked)
    }
    newest = [hit.entity for hit in search.search(question).hits]
    assert newest == sorted(alive, key=lambda entity: (-alive[entity].created_at, entity.rpartition(":")[2]))
    assert position(connection).version == len(history)
    connection.close()


@pytest.fixture
def connection(tmp_path: Path) -> apsw.Connection:
    return open_index(tmp_path / "index.db")


def add(connection: apsw.Connection, version: int, number: int, text: str, **fields: object) -> None:
    state = state_of(ENTITIES[number], memory(NAMES[number % 2], text, **fields))
    add_commits(connection, [IndexedCommit(version, version, f"h{version}", states=[state])])


ASKED = Question([ids.namespace_hash(name) for name in NAMES])


def found(connection: apsw.Connection, **fields: object) -> list[int]:
    hits = IndexSearch(connection).search(ASKED._replace(**fields)).hits  # type: ignore[arg-type]
    return [ENTITIES.index(hit.entity) for hit in hits]


@pytest.mark.parametrize(
    "text",
    ['"', "*", "a NEAR b", "-zebra", "zebra AND", 'zebra" OR "', "text:zebra", "zebra*", "(zebra", "ns:n1 zebra"],
)  # fmt: skip
def test_operators_in_a_query_are_words_like_any_other(connection: apsw.Connection, text: str) -> None:
    add(connection, 1, 0, "a zebra crossing")
    add(connection, 2, 1, 'quoted " star * and near')
    assert (0 in found(connection, text=text)) == ("zebra" in text)


def test_a_query_without_words_is_a_substring(connection: apsw.Connection) -> None:
    add(connection, 1, 0, "5 % of all")
    add(connection, 2, 1, "nothing")
    assert found(connection, text=" % ") == [0]


def test_pinned_memories_come_first_where_nothing_ranks(connection: apsw.Connection) -> None:
    add(connection, 1, 0, "old", pin=True, created_at=Millis(1))
    add(connection, 2, 1, "newer", created_at=Millis(2))
    assert found(connection) == [0, 1]


def test_vectors_rank_by_cosine_and_others_follow_by_words(connection: apsw.Connection) -> None:
    for number, numbers in enumerate([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]):
        add(connection, number + 1, number, "zebra")
        vector = records.read_embedding(numbers)
        nsh = ids.namespace_hash(NAMES[number % 2])
        add_commits(
            connection,
            [IndexedCommit(number + 1, 1, "h", vectors=[VectorState(nsh, UUIDS[number], vector)])],
        )
    add(connection, 4, 3, "zebra without a vector")
    wanted = np.array([0.0, 1.0], dtype="<f4").tobytes()
    assert found(connection, embedding=wanted) == [2, 1, 0]
    assert found(connection, embedding=wanted, text="zebra") == [2, 1, 0, 3]
    assert found(connection, embedding=np.array([1, 2, 3], dtype="<f4").tobytes()) == []


def test_a_query_of_common_words_alone_says_that_it_is_partial(connection: apsw.Connection) -> None:
    for number in range(5):
        add(connection, number + 1, number, f"zebra number {WORDS[number]}")
    search = IndexSearch(connection, common_rows_min=1)
    common = search.search(ASKED._replace(text="zebra unknownword"))
    assert common.is_partial
    assert len(common.hits) == 5
    rare = search.search(ASKED._replace(text="zebra ibex"))
    assert not rare.is_partial
    assert [ENTITIES.index(hit.entity) for hit in rare.hits] == [4]
    assert len(IndexSearch(connection).search(ASKED._replace(text="zebra ibex")).hits) == 5


@pytest.mark.rule("MEM-8")
def test_no_byte_of_an_erased_memory_stays_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    connection = open_index(path)
    for number in range(6):
        add(connection, number + 1, number, f"common words and ZEBRA-4711 secretword{number}")
    scrub(connection)
    assert b"secretword3" in path.read_bytes()
    gone = [ErasedVersions(ENTITIES[3], [4])]
    add_commits(connection, [IndexedCommit(7, 7, "h7", erased=gone)])
    for file in tmp_path.iterdir():
        assert b"secretword3" not in file.read_bytes(), file
    assert sorted(found(connection, text="zebra")) == [0, 1, 2, 4, 5]


def test_a_damaged_file_or_one_of_another_format_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    path.write_bytes(b"no database at all" * 100)
    connection = open_index(path)
    assert position(connection) == (0, 0, "")
    connection.execute("PRAGMA user_version=99")
    connection.close()
    assert position(open_index(path)) == (0, 0, "")


def test_stop_words_are_looked_for_only_if_there_is_nothing_else() -> None:
    assert words.words_of("what is the Zebra doing?") == ("zebra",)
    assert words.words_of("to be or not to be") == ("to", "be", "or", "not")
    assert words.words_of("! x") == ()


@given(st.text(), st.lists(st.sampled_from(["n1", "n2"]), min_size=1))
def test_every_text_makes_an_expression_that_sqlite_reads(text: str, namespaces: list[str]) -> None:
    found = words.words_of(text)
    if found:
        connection = apsw.Connection(":memory:")
        connection.execute("CREATE VIRTUAL TABLE fts USING fts5(ns, text)")
        connection.execute("SELECT * FROM fts WHERE fts MATCH ?", (words.expression(found, namespaces),)).fetchall()
    assert all(re.fullmatch(r"\w{2,}", word) for word in found)
