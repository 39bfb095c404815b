"""Counts, children of prefixes and pages of ids equal what whole pages give, at every moment (QUERY-9..11)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from random_logs import IDS, PREFIXES
from read_worlds import HeldValues, World, at, every_page, random_world, readable_moments, whole_page
from space import delete_, set_
from stemmadb.protocol.errors import InvalidQuery
from stemmadb.protocol.model.query import query
from stemmadb.protocol.model.query.query import Prepared, Query, Root
from stemmadb.protocol.model.query.window import OrderBy
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.paging import anything
from stemmadb.server.engine.read import counting, id_pages
from stemmadb.server.engine.read.counting import ChildPrefix, Counted


def prepared(moment: ReadMoment, *roots: str | Root) -> Prepared:
    asked = tuple(root if isinstance(root, Root) else Root(root) for root in roots)
    return query.prepare(Query(asked, branch=moment.branch, version=moment.version), limits=DEFAULTS)


def whole(world: World, asked: Prepared, **how: Any) -> list[Any]:
    return every_page(lambda after: world.ask(lambda log: whole_page(log, asked, after=after, **how)))


def children(world: World, prefix: str, moment: ReadMoment, **how: Any) -> list[ChildPrefix]:
    given: dict[str, Any] = {"within": (prefix,), "separators": ":", "limit": 1_000} | how
    pages = every_page(
        lambda after: world.ask(lambda log: counting.children(log, prefix, moment, after=after, **given))
    )
    assert all(len(page.children) <= given["limit"] for page in pages)
    return [child for page in pages for child in page.children]


def naive_children(ids: list[str], prefix: str, separators: str) -> list[ChildPrefix]:
    """Every id cut after its first separator behind the prefix, and counted."""
    found: dict[str, int] = {}
    for id_ in ids:
        ends = [at for at in range(len(prefix), len(id_)) if id_[at] in separators]
        child = id_[: ends[0] + 1] if ends else id_
        found[child] = found.get(child, 0) + 1
    return [ChildPrefix(child, found[child], True) for child in sorted(found)]


@pytest.mark.rule("QUERY-9", "QUERY-10", "QUERY-11", "ACL-2")
@pytest.mark.parametrize("seed", range(12))
def test_overviews_of_a_random_log_equal_its_whole_pages(seed: int) -> None:
    world, chance = random_world(seed), Random(seed)
    for moment in readable_moments(world):
        roots = chance.sample([*(prefix + "*" for prefix in PREFIXES), *IDS, "urn:never"], chance.randint(1, 3))
        readable = set(chance.sample(IDS, chance.randint(0, len(IDS)))) if chance.random() < 0.5 else set(IDS)
        may_read = anything if readable == set(IDS) else readable.__contains__
        asked = prepared(moment, *roots)
        pages = whole(world, asked, may_read=may_read)
        entities = [one for page in pages for one in page.entities]
        counted = world.ask(lambda log: counting.count(log, asked, may_read=may_read))  # noqa: B023
        assert counted == Counted(pages[0].version, len(entities), True)
        short = every_page(
            lambda after: world.ask(
                lambda log: id_pages.page(log, asked, after=after, limit=2, may_read=may_read)  # noqa: B023
            )
        )
        assert [(one.id, one.version, one.hash) for page in short for one in page.entities] == [
            (one.id, one.version, one.hash) for one in entities
        ]
        for part in ("unresolved", "erased"):
            assert [one for page in short for one in getattr(page, part)] == [
                one for page in pages for one in getattr(page, part)
            ]
        prefix, separators = chance.choice(PREFIXES), chance.choice((":", "a:", "", "_%:"))
        there = [one.id for page in whole(world, prepared(moment, prefix + "*")) for one in page.entities]
        found = children(world, prefix, moment, separators=separators, limit=chance.randint(1, 4))
        assert found == naive_children(there, prefix, separators)


@pytest.mark.rule("QUERY-11", "ACL-2")
@pytest.mark.parametrize("seed", range(20))
def test_children_within_narrow_prefixes_count_only_what_is_under_them(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, world = Random(seed), World()
    monkeypatch.setattr(counting, "SEEK", chance.choice((1, 2, 7)))
    ids = sorted({"".join(chance.choices("ab:", k=chance.randint(1, 6))) for _ in range(60)})
    ids = [f"x:{id_}" for id_ in ids]
    world.commit(*(set_(id_, 1, blind=True) for id_ in ids))
    gone = set(chance.sample(ids, 10))
    world.commit(*(delete_(id_, blind=True) for id_ in gone))
    left = [id_ for id_ in ids if id_ not in gone]
    for prefix in ("", "x:", "x:a", "x:b:", "x:ab"):
        narrow = tuple(one for one in ("x:a:", "x:ab", "x:ba") if one.startswith(prefix)) or (prefix,)
        within = [id_ for id_ in left if id_.startswith(narrow)]
        found = children(world, prefix, at(), within=narrow, limit=chance.randint(1, 5))
        assert found == naive_children(within, prefix, ":")


@pytest.mark.rule("QUERY-10", "QUERY-11")
def test_past_its_bound_a_count_is_a_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.commit(*(set_(f"u:a:{n:02}", n, blind=True) for n in range(20)), set_("u:b:1", 1, blind=True))
    world.commit(*(delete_(f"u:a:{n:02}", blind=True) for n in range(5)))
    asked = prepared(at(), "u:*")
    monkeypatch.setattr(counting, "COUNTED_MAX", 10)
    assert world.ask(lambda log: counting.count(log, asked)) == Counted(world.maker.version, 5, False)
    odd = lambda id_: id_[-1] in "13579"  # noqa: E731  # what may not be read counts for nothing
    assert world.ask(lambda log: counting.count(log, asked, may_read=odd)).exact is False
    monkeypatch.setattr(counting, "COUNTED_MAX", 11)
    assert world.ask(lambda log: counting.count(log, asked, may_read=odd)) == Counted(world.maker.version, 9, True)
    monkeypatch.setattr(counting, "CHILD_MAX", 10)
    expected = [ChildPrefix("u:a:", 5, False), ChildPrefix("u:b:", 1, True)]
    assert children(world, "u:", at()) == expected
    monkeypatch.setattr(counting, "CHILDREN_LOOKED_AT_MAX", 1)
    assert children(world, "u:", at()) == expected


@pytest.mark.rule("QUERY-10")
def test_a_count_of_roots_with_a_path_is_by_the_values() -> None:
    world = World()
    world.commit(*(set_(f"u:{n}", {"a": 1} if n % 3 else {"b": 1}, blind=True) for n in range(9)))
    asked = prepared(at(), Root("u:*", "/a"))
    assert world.ask(lambda log: counting.count(log, asked)) == Counted(world.maker.version, 6, True)
    pages = whole(world, asked)
    assert [len(page.entities) for page in pages] == [6]


@pytest.mark.rule("QUERY-10")
def test_a_count_by_values_ends_at_its_bound_and_holds_one_value_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.commit(*(set_(f"u:{n:02}", {"a": n}, blind=True) for n in range(40)), delete_("u:00", blind=True))
    asked, held = prepared(at(), Root("u:*", "/a")), HeldValues(monkeypatch)
    assert world.ask(lambda log: counting.count(log, asked)) == Counted(world.maker.version, 39, True)
    assert (len(held.made), held.most) == (39, 2), "that before is let go when the next one is there"
    for bound, exact in ((40, True), (39, False)):
        monkeypatch.setattr(counting, "LOOKED_AT_MAX", bound)
        counted = world.ask(lambda log: counting.count(log, asked))
        assert counted == Counted(world.maker.version, bound - 1, exact)


@pytest.mark.rule("QUERY-10")
def test_only_what_has_pages_is_counted() -> None:
    world = World()
    for asked in (Query((Root("*", schema=True),)), Query((Root("*"),), order=(OrderBy("/n"),))):
        ready = query.prepare(asked, limits=DEFAULTS)
        with pytest.raises(InvalidQuery):
            world.ask(lambda log: counting.count(log, ready))  # noqa: B023
