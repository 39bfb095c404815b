"""Every backend: which entities there are under a prefix, and which of them changed where."""

from __future__ import annotations

import pytest

from appends import append_to
from logs import LogMaker
from random_logs import IDS, PREFIXES, RandomLog
from space import delete_, set_
from stemmadb.protocol.model.log import branch_spans
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.server.storage.port import LogReader, SpaceLog

MANY = 1_000
SEEDS = range(300, 312)


def filled(log: SpaceLog, *ids: str) -> LogMaker:
    maker = LogMaker()
    append_to(log, Version(0), [maker.commit(set_(id_, 1, blind=True)) for id_ in ids])
    return maker


@pytest.mark.rule("QUERY-1")
def test_ids_are_listed_in_the_order_of_their_bytes(log: SpaceLog) -> None:
    filled(log, *IDS)
    expected = sorted(IDS, key=lambda id_: id_.encode())
    assert expected != sorted(IDS, key=lambda id_: id_.encode("utf-16-be"))
    with log.reader() as reader:
        assert reader.ids("", None, MANY) == expected
        for prefix in PREFIXES:
            assert reader.ids(prefix, None, MANY) == [id_ for id_ in expected if id_.startswith(prefix)]


@pytest.mark.rule("QUERY-1")
@pytest.mark.parametrize("size", [1, 2, 5])
def test_ids_are_listed_page_by_page(log: SpaceLog, size: int) -> None:
    filled(log, *IDS)
    with log.reader() as reader:
        for prefix in PREFIXES:
            assert pages(reader, prefix, size) == reader.ids(prefix, None, MANY)
        assert reader.ids("", None, 0) == []
        assert reader.ids("urn:a:", EntityId("urn:a:1x"), MANY) == ["urn:a:2"]
        assert reader.ids("urn:a:", EntityId("urn:Z"), MANY) == ["urn:a:1", "urn:a:2"]
        assert reader.ids("urn:a:", EntityId("urn:b"), MANY) == []


def pages(reader: LogReader, prefix: str, size: int) -> list[EntityId]:
    found: list[EntityId] = []
    while page := reader.ids(prefix, found[-1] if found else None, size):
        assert len(page) <= size
        found += page
        assert len(found) <= MANY, "the pages come to an end"
    return found


def test_an_id_that_was_ever_written_is_listed_on_whatever_branch_and_though_deleted(log: SpaceLog) -> None:
    maker = filled(log, "urn:a")
    entries = [maker.create_branch("draft"), maker.commit(set_("urn:b", 1, blind=True), branch="draft")]
    entries += [maker.commit(delete_("urn:a", blind=True)), maker.delete_branch("draft"), maker.erase("urn:b", [3])]
    append_to(log, Version(1), entries)
    with log.reader() as reader:
        assert reader.ids("urn:", None, MANY) == ["urn:a", "urn:b"]


def test_the_end_of_a_prefix_is_exact(log: SpaceLog) -> None:
    """An id that continues a prefix with the highest character there is is under it, and its neighbour is not."""
    highest, neighbour = "urn:a\U0010fffd\U0010fffd", "urn:b"
    filled(log, "urn:a", highest, neighbour, "urn:_")
    with log.reader() as reader:
        assert reader.ids("urn:a", None, MANY) == ["urn:a", highest]
        assert reader.ids("urn:a\U0010fffd", None, MANY) == [highest]
        assert reader.ids(highest, None, MANY) == [highest]
        assert set(reader.changed(LogMaker().spans(version=9), "urn:a")) == {"urn:a", highest}


@pytest.mark.rule("BRANCH-2")
@pytest.mark.parametrize("seed", SEEDS)
def test_what_changed_is_every_entity_with_a_fact_in_the_spans_and_each_once(log: SpaceLog, seed: int) -> None:
    making = RandomLog(seed, log)
    maker = making.run(12)
    with log.reader() as reader:
        for name in maker.branches:
            for version in range(0, maker.version + 1, 3):
                spans = maker.spans(name, version)
                apart = branch_spans.apart(spans, maker.spans("main", making.random.randint(0, maker.version)))
                for chosen in (spans, apart):
                    prefix = making.random.choice(PREFIXES)
                    found = list(reader.changed(chosen, prefix))
                    assert len(found) == len(set(found))
                    assert set(found) == {id_ for id_ in IDS if id_.startswith(prefix) and maker.seen(chosen, id_)}


@pytest.mark.rule("COMMIT-2")
@pytest.mark.parametrize("seed", SEEDS)
def test_what_changed_after_a_version_is_found_up_to_the_limit(log: SpaceLog, seed: int) -> None:
    making = RandomLog(seed, log)
    maker = making.run(12)
    with log.reader() as reader:
        for name in maker.branches:
            spans = maker.spans(name, making.random.randint(0, maker.version))
            for after in range(maker.version + 1):
                prefix, limit = making.random.choice(PREFIXES), making.random.choice([1, 2, MANY])
                expected = {id_ for id_ in IDS if id_.startswith(prefix) and is_later(maker, spans, id_, after)}
                found = reader.changed_after(spans, prefix, Version(after), limit)
                assert len(found) == len(set(found)) == min(limit, len(expected))
                assert set(found) <= expected


def is_later(maker: LogMaker, spans: tuple[branch_spans.Span, ...], id_: str, after: int) -> bool:
    return any(fact.version > after for fact in maker.seen(spans, id_))


def test_nothing_changed_where_there_are_no_spans(log: SpaceLog) -> None:
    filled(log, "urn:a")
    with log.reader() as reader:
        assert list(reader.changed(())) == reader.changed_after((), "", Version(0), MANY) == []


def test_a_fact_of_a_space_wide_write_is_a_change_of_the_branch_it_names(log: SpaceLog) -> None:
    maker = filled(log, "urn:a", "urn:b")
    entries = [maker.create_branch("draft"), maker.compact(2, checkpoints=[("draft", "urn:b")])]
    append_to(log, Version(2), entries)
    with log.reader() as reader:
        own = maker.spans("draft")[:1]
        assert list(reader.changed(own)) == ["urn:b"]
        assert reader.changed_after(maker.spans("draft"), "", Version(3), MANY) == ["urn:b"]
        assert reader.changed_after(maker.spans("main"), "", Version(3), MANY) == []
