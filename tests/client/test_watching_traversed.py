"""Watches with schemas, paths and links: the server's word, and our own evaluation once pending work is shown."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import graphs
from graphs import OPEN, chain, link
from stemmadb.client.nursery.entities import ABSENT, Nothing
from stemmadb.client.watching.traversed import TraversedAnswers
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import BranchName, EntityId
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import Limits
from watch_overlays import (
    App,
    Cupboard,
    delete,
    patch,
    put,
    random_commit,
    random_cupboard,
    random_edits,
    random_query,
    told,
    watching,
)

TODO = {"title": "write", "done": False}
DONE = {"title": "write", "done": True}
ONE, TWO = EntityId("urn:todo:1"), EntityId("urn:todo:2")
OPEN_TODOS = Root(id="urn:todo:*", schema=OPEN)
SCHEDULES = 250
ACTIONS = 20


def is_evaluating(app: App) -> bool:
    answers = app.watcher._answers
    assert isinstance(answers, TraversedAnswers)
    return answers._watch is not None


# ---------------------------------------------------------------- what is shown


@pytest.mark.rule("WATCH-1", "NURSERY-4")
def test_an_own_write_enters_and_leaves_by_what_the_schema_says_of_it() -> None:
    cupboard, app = watching({ONE: TODO}, OPEN_TODOS)
    cupboard.write({TWO: put(TODO), "urn:todo:3": put(DONE)})
    assert told(app.take()) == ([TWO], [], [])
    name = cupboard.write({ONE: patch(done=True)})
    assert told(app.take()) == ([], [], [ONE])
    cupboard.reject(name)
    assert told(app.take()) == ([ONE], [], [])


@pytest.mark.rule("WATCH-1", "NURSERY-4")
def test_an_own_link_brings_what_is_known_and_takes_it_away_again() -> None:
    cupboard, app = watching(
        {"urn:list:1": {}, ONE: {"next": link(TWO)}, TWO: TODO}, Root(id="urn:list:1", schema=True)
    )
    other = cupboard.watch(Query(roots=(Root(id="urn:todo:*"),)))
    cupboard.page(other.number)
    assert app.take() is None
    name = cupboard.write({"urn:list:1": patch(first=link(ONE))})
    assert told(app.take()) == ([ONE, TWO], ["urn:list:1"], [])
    cupboard.commit({ONE: {"next": None}})
    assert told(app.take()) == ([], [ONE], [TWO])
    cupboard.reject(name)
    assert told(app.take()) == ([], ["urn:list:1"], [ONE])


@pytest.mark.rule("WATCH-1")
def test_what_is_linked_to_and_not_known_enters_when_the_server_brings_it() -> None:
    cupboard, app = watching({"urn:list:1": {}, ONE: TODO}, Root(id="urn:list:1", schema=True))
    name = cupboard.write({"urn:list:1": patch(first=link(ONE))})
    assert told(app.take()) == ([], ["urn:list:1"], [])
    cupboard.confirm(name)
    assert told(app.take()) == ([ONE], [], [])


@pytest.mark.rule("WATCH-1")
def test_what_only_another_watch_held_leaves_when_that_one_ends() -> None:
    cupboard, app = watching({"urn:list:1": {}, ONE: TODO}, Root(id="urn:list:1", schema=True))
    other = cupboard.watch(Query(roots=(Root(id=ONE),)))
    cupboard.page(other.number)
    cupboard.write({"urn:list:1": patch(first=link(ONE))})
    assert told(app.take()) == ([ONE], ["urn:list:1"], [])
    cupboard.unwatch(other.number)
    assert told(app.take()) == ([], [], [ONE])


@pytest.mark.rule("WATCH-1")
@pytest.mark.parametrize("root", [Root(id=ONE, path="/title"), Root(id="urn:todo:*", path="/title")])
def test_a_root_with_a_path_is_there_while_the_path_is(root: Root) -> None:
    cupboard, app = watching({ONE: TODO}, root)
    assert app.held == {ONE: TODO}
    name = cupboard.write({ONE: put({"done": False})})
    assert told(app.take()) == ([], [], [ONE])
    cupboard.commit({ONE: ABSENT}, confirms=name)
    assert app.take() is None


@pytest.mark.rule("WATCH-1", "NURSERY-4")
def test_roots_with_and_without_a_schema_make_one_answer() -> None:
    cupboard, app = watching({"urn:list:1": {}, ONE: TODO, TWO: DONE}, Root(id="urn:list:*"), OPEN_TODOS)
    assert app.held is not None
    assert app.held.keys() == {"urn:list:1", ONE}
    cupboard.write({"urn:list:2": put({}), TWO: put(TODO), ONE: delete})
    assert told(app.take()) == (["urn:list:2", TWO], [], [ONE])
    app.compare()


@pytest.mark.rule("SYNC-4")
def test_a_member_that_a_step_comes_upon_and_that_is_not_known_is_waited_for() -> None:
    values = {"urn:list:1": {"first": link(ONE)}, ONE: {"next": link(TWO)}, TWO: TODO}
    cupboard, app = watching(values, Root(id="urn:list:1", schema=True))
    name = cupboard.write({"urn:list:1": patch(first=None)})
    assert told(app.take()) == ([], ["urn:list:1"], [ONE, TWO])
    cupboard.lose(ONE)
    assert app.take() is None
    cupboard.reject(name)
    assert app.take() is None
    assert not app.watcher.has_news()
    cupboard.lose()
    assert told(app.take()) == ([ONE, TWO], ["urn:list:1"], [])


# ---------------------------------------------------------------- past a bound


def grown(cupboard: Cupboard, more: int) -> int:
    """A pending commit that makes the chain of urn:c:0 to urn:c:2 longer."""
    return cupboard.write({f"urn:c:{2 + n}": put({"next": link(f"urn:c:{3 + n}")}) for n in range(more)})


@pytest.mark.rule("QUERY-6", "NURSERY-4")
@pytest.mark.parametrize("evaluated_before", [False, True])
def test_past_a_bound_the_servers_word_counts_until_nothing_pending_is_shown(evaluated_before: bool) -> None:
    root = Root(id="urn:c:0", schema=True)
    cupboard, app = watching(chain(2), root, limits=Limits(query_depth_max=3))
    first = grown(cupboard, 1) if evaluated_before else None
    app.take()
    far = grown(cupboard, 5)
    app.take()
    assert not is_evaluating(app)
    app.compare(cupboard.served(app.watcher.number))
    near = cupboard.write({"urn:c:1": patch(title="near")})
    cupboard.reject(far)
    cupboard.commit({"urn:c:0": {"next": link("urn:c:1"), "n": 1}})
    app.take()
    assert not is_evaluating(app)
    app.compare(cupboard.served(app.watcher.number))
    for name in (near, first):
        if name is not None:
            cupboard.reject(name)
    app.take()
    app.compare()
    grown(cupboard, 1)
    app.take()
    assert is_evaluating(app)
    app.compare()


@pytest.mark.rule("QUERY-6")
def test_the_bytes_of_what_is_held_already_are_the_servers_to_bound() -> None:
    cupboard, app = watching({ONE: TODO}, OPEN_TODOS, limits=Limits(query_bytes_max=1))
    cupboard.write({TWO: put(TODO)})
    assert told(app.take()) == ([TWO], [], [])


@pytest.mark.rule("QUERY-6", "NURSERY-4")
def test_with_low_bounds_each_answer_is_the_query_afresh_or_the_servers_word() -> None:
    given_up = sum(runs_within_bounds(Random(seed)) for seed in range(SCHEDULES))
    assert given_up > SCHEDULES / 2


def runs_within_bounds(random: Random) -> int:
    """One schedule of one watch; gives how often the server's word stood in."""
    limits = Limits(query_depth_max=random.choice((1, 2, 3)), query_entities_max=random.choice((3, 5, 1_000)))
    count = random.choice((6, 10))
    cupboard = random_cupboard(random, count)
    app = App(cupboard, cupboard.watch(graphs.random_query(random, count), limits))
    if not isinstance(app.watcher._answers, TraversedAnswers):
        return 0
    cupboard.page(app.watcher.number)
    has_given_up, times = False, 0
    for _ in range(ACTIONS):
        change_somehow(random, count, cupboard)
        if app.watcher.has_news() and random.random() < 0.6:
            is_layered = cupboard.is_layered(app.watcher.branch)
            afresh = cupboard.afresh(app.watcher.query)
            is_past = bool(graphs.exceeded(afresh, limits) - {"query_bytes_max"})
            has_given_up = is_layered and (has_given_up or is_past)
            app.take()
            app.compare(cupboard.served(app.watcher.number) if has_given_up else None)
            times += has_given_up
    return times


def change_somehow(random: Random, count: int, cupboard: Cupboard) -> None:
    pending = [*cupboard.pending]
    match random.randrange(5):
        case 0 | 1:
            cupboard.write(random_edits(random, count))
        case 2 if pending:
            cupboard.confirm(pending[0])
        case 3 if pending:
            for name in pending:
                cupboard.reject(name)
        case _:
            cupboard.commit(random_commit(random, count, cupboard))


# ---------------------------------------------------------------- the two sources are one answer


@pytest.mark.rule("WATCH-1")
def test_the_query_over_what_is_known_is_what_the_server_says_while_nothing_is_pending() -> None:
    for seed in range(SCHEDULES):
        random = Random(seed)
        cupboard = random_cupboard(random, 10)
        watches = [cupboard.watch(random_query(random, 10)) for _ in range(random.randrange(1, 4))]
        for watch in watches:
            cupboard.page(watch.number)
        for _ in range(5):
            cupboard.commit(random_commit(random, 10, cupboard))
            for watch in watches:
                assert cupboard.afresh(watch.query).entities == cupboard.members(watch.number)


# ---------------------------------------------------------------- what it costs


class Counting(Cupboard):
    """Counts how often a watcher asks what is shown of an entity."""

    is_counting = False
    asked = 0

    def value(self, branch: BranchName, id_: EntityId) -> Value | Nothing:
        self.asked += self.is_counting
        return super().value(branch, id_)

    def asked_by(self, app: App) -> int:
        self.asked, self.is_counting = 0, True
        app.take()
        self.is_counting = False
        return self.asked


@pytest.mark.rule("WATCH-2")
def test_the_evaluator_is_made_when_it_is_first_needed_and_then_a_change_costs_what_it_touches() -> None:
    values: dict[str, Any] = {f"urn:todo:{number}": TODO for number in range(50)}
    cupboard = Counting(values)
    app = App(cupboard, cupboard.watch(Query(roots=(OPEN_TODOS,))))
    cupboard.page(app.watcher.number)
    app.take()
    cupboard.commit({ONE: {"title": "rest", "done": False}})
    assert cupboard.asked_by(app) <= 4
    assert not is_evaluating(app)
    name = cupboard.write({ONE: patch(done=True)})
    assert cupboard.asked_by(app) >= 50
    assert is_evaluating(app)
    cupboard.reject(name)
    assert cupboard.asked_by(app) <= 4
    cupboard.write({TWO: patch(done=True)})
    assert cupboard.asked_by(app) <= 4
    app.watcher.mark([EntityId("urn:list:1")])
    assert not app.watcher.has_news()
    app.compare()
