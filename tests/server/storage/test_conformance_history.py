"""Every backend: commits, facts and the history, with every filter, order and page, against naive filters."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from appends import append_to
from backends import Backend
from logs import LogMaker, place_of
from random_logs import IDS, PREFIXES, SESSIONS, RandomLog
from space import ALICE, BOB, SPACE, session_of, set_
from stemmadb.protocol.model.log import branch_spans, chain
from stemmadb.protocol.model.log.commit_record import Commit, LocalIdentity
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs, Version
from stemmadb.server.storage.port import FactPosition, LogFilter, LogReader, SpaceLog

MANY = 1_000
SEEDS = range(200, 215)


# ------------------------------------------------------------ the log of commits


def naive_log(maker: LogMaker, wanted: LogFilter) -> list[Commit]:
    """Every commit is asked for each thing that is wanted; pages are not looked at."""
    facts: dict[Version, list[Fact]] = {record.version: [] for record in maker.commits}
    for fact in maker.facts:
        facts[fact.version].append(fact)
    asked: list[tuple[object, Callable[[Commit], bool]]] = [
        (wanted.branch, lambda one: one.branch == wanted.branch or wanted.branch in one.fact_branches),
        (wanted.author, lambda one: one.identity.principal == wanted.author),
        (wanted.session, lambda one: getattr(one.identity, "session", None) == wanted.session),
        (wanted.prefix, lambda one: any(fact.id.startswith(str(wanted.prefix)) for fact in facts[one.version])),
        (wanted.since, lambda one: one.time >= (wanted.since or 0)),
        (wanted.until, lambda one: one.time <= (wanted.until or 0)),
        (wanted.upto, lambda one: one.version <= (wanted.upto or 0)),
        (wanted.structural or None, lambda one: one.details is not None),
    ]
    tests = [test for given, test in asked if given is not None]
    found = [record for record in maker.commits if all(test(record) for test in tests)]
    return found if wanted.order == "oldest" else found[::-1]


def random_filter(random: Random, maker: LogMaker) -> LogFilter:
    times = range(995, maker.now + 5)
    choices: dict[str, list[Any]] = {
        "branch": [*sorted(maker.branches), "nowhere"],
        "author": [ALICE, BOB, SPACE],
        "session": [*[session_of(name) for _, name in SESSIONS], session_of("other")],
        "prefix": PREFIXES,
        "since": list(times),
        "until": list(times),
        "upto": list(range(maker.version + 2)),
        "structural": [True],
    }
    names = random.sample(sorted(choices), random.choice([0, 1, 1, 2, 2, 3]))
    return LogFilter(
        order=random.choice(["newest", "oldest"]), **{name: random.choice(choices[name]) for name in names}
    )


def paged(reader: LogReader, wanted: LogFilter, size: int) -> list[Commit]:
    """All pages, each after the last version of the one before."""
    found: list[Commit] = []
    while page := reader.log(wanted, size):
        assert len(page) <= size
        found += page
        assert len(found) <= MANY, "the pages come to an end"
        wanted = msgspec.structs.replace(wanted, after=page[-1].version)
    return found


@pytest.mark.rule("HISTORY-1")
@pytest.mark.parametrize("seed", SEEDS)
def test_the_log_lists_what_passes_the_filter_in_its_order(log: SpaceLog, seed: int) -> None:
    making = RandomLog(seed, log)
    maker = making.run(12)
    with log.reader() as reader:
        for _ in range(40):
            wanted = random_filter(making.random, maker)
            expected = naive_log(maker, wanted)
            assert reader.log(wanted, MANY) == expected, wanted
            assert paged(reader, wanted, making.random.choice([1, 2, 7])) == expected, wanted


@pytest.mark.rule("HISTORY-1")
def test_each_filter_alone_finds_what_it_names(log: SpaceLog) -> None:
    maker = LogMaker()
    entries = [maker.commit(set_("urn:x", 1, blind=True), set_("urn:y", 1, blind=True), session="s1")]
    maker.now = 2_000
    entries += [maker.create_branch("draft")]
    entries += [maker.commit(set_("urn:y", 2, blind=True), branch="draft", author=BOB, session="s2")]
    maker.now = 3_000
    entries += [maker.compact(1, checkpoints=[("draft", "urn:x")])]
    append_to(log, Version(0), entries)
    with log.reader() as reader:

        def found(**wanted: Any) -> list[int]:
            return [record.version for record in reader.log(LogFilter(**wanted), MANY)]

        assert found() == [4, 3, 2, 1]
        assert found(order="oldest") == [1, 2, 3, 4]
        assert found(branch=BranchName("main")) == [1]
        assert found(branch=BranchName("draft")) == [4, 3]
        assert found(author=BOB) == [3]
        assert found(session=session_of("s1")) == [1]
        assert found(prefix="urn:x") == [4, 1]
        assert found(prefix="") == [4, 3, 1]
        assert found(since=TimeMs(2_000)) == [4, 3, 2]
        assert found(until=TimeMs(2_000)) == [3, 2, 1]
        assert found(upto=Version(2)) == [2, 1]
        assert found(after=Version(3)) == [2, 1]
        assert found(after=Version(3), order="oldest") == [4]
        assert found(structural=True) == [4, 2]
        assert reader.log(LogFilter(), 0) == []


# ------------------------------------------------------------ records and facts


@pytest.mark.rule("FACT-3", "MODEL-4")
@pytest.mark.parametrize("seed", SEEDS)
def test_records_and_facts_come_back_as_they_were_appended(backend: Backend, seed: int) -> None:
    maker = RandomLog(seed, backend.open()).run(12)
    by_version: dict[Version, tuple[Fact, ...]] = {}
    for fact in maker.facts:
        by_version[fact.version] = (*by_version.get(fact.version, ()), fact)
    asked = [Version(version) for version in (*range(maker.version, -1, -3), *range(maker.version + 3))]
    with backend.reopen().reader() as reader:
        assert reader.commits(asked) == {record.version: record for record in maker.commits}
        assert reader.authors(asked) == {record.version: record.author for record in maker.commits}
        assert reader.facts(asked) == by_version
        history = list(reader.history())
        assert history == [(record, by_version.get(record.version, ())) for record in maker.commits]
        assert list(reader.history(Version(5))) == history[5:]
        assert list(reader.history(maker.version)) == []
        assert [reader.commits([]), reader.authors([]), reader.facts([])] == [{}, {}, {}]


@pytest.mark.rule("FACT-2", "FACT-3", "ERASE-1", "COMPACT-1")
@pytest.mark.parametrize("seed", SEEDS)
def test_the_history_of_a_random_log_verifies(backend: Backend, seed: int) -> None:
    maker = RandomLog(seed, backend.open()).run(12)
    with backend.reopen().reader() as reader:
        last = list(chain.verify(SPACE, reader.history()))[-1]
    assert (last.version, last.hash, last.facts) == (maker.version, maker.tip.hash, len(maker.facts))


def test_a_long_history_is_whole_across_its_pages(log: SpaceLog) -> None:
    maker = LogMaker()
    ids = [f"urn:many:{number}" for number in range(60)]
    for _ in range(40):
        at = maker.version
        append_to(
            log,
            at,
            [maker.commit(*[set_(id_, 1, blind=True) for id_ in ids]), maker.commit(set_("urn:x", 1, blind=True))],
        )
    with log.reader() as reader:
        history = list(reader.history())
        assert [record for record, _ in history] == maker.commits
        assert [fact for _, facts in history for fact in facts] == maker.facts
        assert set(reader.facts(record.version for record in maker.commits)) == {one.version for one in maker.commits}


def test_arguments_notes_and_identities_of_every_kind_come_back(backend: Backend) -> None:
    maker = LogMaker()
    entries = [
        maker.commit(set_("urn:x", 1, blind=True), note=b"\xa3why", session="s1", local=2**62),
        maker.commit(set_("urn:x", 1, blind=True), note=b"\xa0"),
        maker.create_branch("draft"),
        maker.create_tag("v1", "draft"),
        maker.merge("draft", "main", ["urn:x"]),
        maker.revoke(b"r" * 32),
        maker.erase("urn:x", [1], survivor=2),
    ]
    append_to(backend.open(), Version(0), entries)
    with backend.reopen().reader() as reader:
        found = reader.commits(Version(version) for version in range(1, 8))
    assert list(found.values()) == maker.commits
    assert isinstance(found[Version(1)].identity, LocalIdentity)
    assert (found[Version(1)].note, found[Version(2)].note) == (None, b"\xa0")


# ------------------------------------------------------------ the facts of an entity


@pytest.mark.rule("HISTORY-1")
@pytest.mark.parametrize("seed", SEEDS)
def test_the_facts_of_an_entity_are_those_of_the_spans_or_of_all_branches(log: SpaceLog, seed: int) -> None:
    making = RandomLog(seed, log)
    maker = making.run(12)
    with log.reader() as reader:
        for name in maker.branches:
            spans = maker.spans(name, making.random.randint(0, maker.version))
            apart = branch_spans.apart(spans, maker.spans("main", making.random.randint(0, maker.version)))
            for id_ in map(EntityId, IDS):
                for chosen in (None, spans, apart, ()):
                    check_facts_of(reader, making, id_, chosen)


def check_facts_of(
    reader: LogReader, making: RandomLog, id_: EntityId, spans: tuple[branch_spans.Span, ...] | None
) -> None:
    """Both orders, whole and in pages."""
    every = [fact for fact in making.maker.facts if fact.id == id_]
    oldest = every if spans is None else making.maker.seen(spans, id_)
    assert reader.facts_of(id_, spans) == oldest
    assert reader.facts_of(id_, spans, order="newest") == oldest[::-1]
    size = making.random.choice([1, 2, 3])
    assert _pages(reader, id_, spans, size, newest=False) == oldest
    assert _pages(reader, id_, spans, size, newest=True) == oldest[::-1]


def _pages(
    reader: LogReader, id_: EntityId, spans: tuple[branch_spans.Span, ...] | None, size: int, *, newest: bool
) -> list[Fact]:
    found: list[Fact] = []
    after: FactPosition | None = None
    while page := reader.facts_of(id_, spans, order="newest" if newest else "oldest", after=after, limit=size):
        assert len(page) <= size
        found += page
        assert len(found) <= MANY, "the pages come to an end"
        after = place_of(page[-1])
    return found


def test_a_page_of_facts_can_end_within_a_commit(log: SpaceLog) -> None:
    maker = LogMaker()
    x = EntityId("urn:x")
    append_to(log, Version(0), [maker.commit(*[set_(x, number, blind=True) for number in range(4)])])
    with log.reader() as reader:
        found = reader.facts_of(x, after=FactPosition(Version(1), 1), limit=1)
        assert [fact.index for fact in found] == [2]
        found = reader.facts_of(x, after=FactPosition(Version(1), 1), order="newest")
        assert [fact.index for fact in found] == [0]
        assert reader.facts_of(EntityId("urn:y")) == []
        assert reader.facts_of(x, limit=0) == []
