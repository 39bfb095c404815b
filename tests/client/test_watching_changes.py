"""What a watcher tells its app: visible changes only, each once, from what was told last to what is shown now."""

from __future__ import annotations

from typing import Any

import pytest

from graphs import HERE, OPEN
from stemmadb.client.nursery.entities import ABSENT
from stemmadb.client.watching import Change, Watcher, watcher
from stemmadb.client.watching.watcher import MARKS_MAX
from stemmadb.protocol.errors import (
    BranchDeleted,
    InvalidId,
    InvalidPointer,
    InvalidQuery,
    InvalidSchema,
    LimitExceeded,
    StemmaError,
)
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from watch_overlays import App, Cupboard, delete, patch, put, told, watching

TODOS = Root(id="urn:todo:*")
OPEN_TODOS = Root(id="urn:todo:*", schema=OPEN)
EACH_KIND = pytest.mark.parametrize("root", [TODOS, OPEN_TODOS], ids=["plain", "schema"])
TODO: dict[str, Value] = {"title": "write", "done": False}
ONE, TWO = EntityId("urn:todo:1"), EntityId("urn:todo:2")


def is_filled(watch: Watcher) -> bool:
    return watch.is_filled


def made(*roots: Root, limits: Limits = DEFAULTS, **moment: int) -> Watcher:
    return Watcher(1, Query(roots=roots, **moment), space=HERE, limits=limits)  # type: ignore[arg-type]


# ---------------------------------------------------------------- the first change


@pytest.mark.rule("SYNC-7")
@EACH_KIND
def test_nothing_is_told_before_the_watch_is_filled(root: Root) -> None:
    cupboard = Cupboard({ONE: TODO, TWO: TODO})
    watch = cupboard.watch(Query(roots=(root,)))
    cupboard.write({"urn:todo:3": put(TODO)})
    cupboard.page(watch.number, [ONE])
    assert not is_filled(watch)
    assert not watch.has_news()
    assert watch.take(cupboard) is None
    cupboard.page(watch.number)
    assert is_filled(watch)
    assert watch.has_news()
    assert told(watch.take(cupboard)) == ([ONE, TWO, "urn:todo:3"], [], [])


@pytest.mark.rule("NURSERY-4")
@EACH_KIND
def test_the_first_change_comes_also_when_nothing_is_there_and_only_that_one_is_falsy(root: Root) -> None:
    cupboard = Cupboard()
    watch = cupboard.watch(Query(roots=(root,)))
    cupboard.page(watch.number)
    assert watch.take(cupboard) == Change(Version(1), {}, {}, ())
    assert not Change(Version(1), {}, {}, ())
    watch.mark([ONE])
    assert watch.take(cupboard) is None
    cupboard.commit({ONE: TODO})
    assert watch.take(cupboard) == Change(Version(2), {ONE: TODO}, {}, ())


def test_a_change_with_anything_in_it_is_truthy() -> None:
    assert Change(Version(1), {ONE: None}, {}, ())
    assert Change(Version(1), {}, {ONE: None}, ())
    assert Change(Version(1), {}, {}, (ONE,))


@EACH_KIND
def test_everything_in_a_change_is_in_the_order_of_ids(root: Root) -> None:
    ids = [EntityId(f"urn:todo:{number}") for number in (5, 1, 4, 2, 3)]
    cupboard, app = watching({}, root)
    cupboard.commit(dict.fromkeys(ids, TODO))
    assert told(app.take()) == (sorted(ids), [], [])
    cupboard.commit({id_: {"title": id_, "done": False} for id_ in ids})
    assert told(app.take()) == ([], sorted(ids), [])
    cupboard.commit(dict.fromkeys(ids, ABSENT))
    assert told(app.take()) == ([], [], sorted(ids))


# ---------------------------------------------------------------- visible changes only, once


@pytest.mark.rule("NURSERY-4")
@EACH_KIND
def test_what_others_and_what_pending_commits_write_is_told_once(root: Root) -> None:
    cupboard, app = watching({ONE: TODO}, root)
    cupboard.commit({TWO: TODO})
    assert told(app.take()) == ([TWO], [], [])
    cupboard.write({ONE: patch(title="rest")})
    assert told(app.take()) == ([], [ONE], [])
    cupboard.write({TWO: delete})
    assert told(app.take()) == ([], [], [TWO])
    assert app.take() is None


@pytest.mark.rule("NURSERY-4")
@EACH_KIND
def test_an_own_write_that_is_confirmed_as_it_was_shown_tells_nothing(root: Root) -> None:
    cupboard, app = watching({}, root)
    name = cupboard.write({ONE: put(TODO)})
    assert told(app.take()) == ([ONE], [], [])
    cupboard.confirm(name)
    app.watcher.mark([ONE])
    assert app.watcher.has_news()
    assert app.take() is None


@pytest.mark.rule("NURSERY-4")
@EACH_KIND
def test_a_change_hidden_under_a_pending_layer_is_told_when_it_becomes_visible(root: Root) -> None:
    cupboard, app = watching({ONE: TODO}, root)
    name = cupboard.write({ONE: put({"title": "mine", "done": False})})
    assert told(app.take()) == ([], [ONE], [])
    cupboard.commit({ONE: {"title": "theirs", "done": False}})
    assert app.take() is None
    cupboard.reject(name)
    assert app.take() == Change(Version(2), {}, {ONE: {"title": "theirs", "done": False}}, ())


@pytest.mark.rule("NURSERY-4")
@EACH_KIND
def test_a_slow_app_gets_one_change_to_what_is_shown_now(root: Root) -> None:
    cupboard, app = watching({ONE: TODO}, root)
    for title in "abc":
        cupboard.commit({ONE: {"title": title, "done": False}, TWO: TODO})
    cupboard.commit({TWO: ABSENT})
    assert app.take() == Change(Version(5), {}, {ONE: {"title": "c", "done": False}}, ())


@pytest.mark.rule("NURSERY-4")
@EACH_KIND
def test_what_went_and_came_back_while_the_app_was_slow_is_not_told(root: Root) -> None:
    cupboard, app = watching({ONE: TODO}, root)
    cupboard.reject(cupboard.write({ONE: delete, TWO: put(TODO)}))
    assert app.watcher.has_news()
    assert app.take() is None


@EACH_KIND
def test_updated_means_another_value_as_json(root: Root) -> None:
    cupboard, app = watching({ONE: {"done": False, "n": 1}}, root)
    cupboard.confirmed[ONE] = {"n": 1.0, "done": False}
    app.watcher.mark([ONE])
    assert app.take() is None
    cupboard.commit({ONE: {"n": True, "done": False}})
    assert told(app.take()) == ([], [ONE], [])


@EACH_KIND
def test_values_are_the_apps_own(root: Root) -> None:
    value = {"title": "write", "done": False, "tags": [{"name": "a"}]}
    cupboard, app = watching({}, root)
    cupboard.commit({ONE: value})
    change: Any = app.take()
    change.entered[ONE]["tags"][0]["name"] = "b"
    assert value["tags"] == [{"name": "a"}]
    cupboard.write({ONE: patch(title="rest")})
    change = app.watcher.take(cupboard)
    assert change.updated == {ONE: {**value, "title": "rest"}}
    change.updated[ONE]["tags"].clear()
    assert value["tags"] == [{"name": "a"}]


@EACH_KIND
def test_a_value_that_was_replaced_by_an_equal_one_is_let_go(root: Root) -> None:
    cupboard, app = watching({ONE: TODO}, root)
    cupboard.confirmed[ONE] = dict(TODO)
    app.watcher.mark([ONE])
    app.take()
    assert app.watcher._published[ONE] is cupboard.confirmed[ONE]


# ---------------------------------------------------------------- starting over, waiting, ending


@pytest.mark.rule("SYNC-7")
@EACH_KIND
@pytest.mark.parametrize("layered", [False, True])
def test_a_watch_that_fills_again_tells_only_the_difference(root: Root, layered: bool) -> None:
    cupboard, app = watching({ONE: TODO, TWO: TODO, "urn:todo:3": TODO}, root)
    if layered:
        cupboard.write({"urn:todo:9": put(TODO)})
        app.take()
    cupboard.reset()
    assert not app.watcher.is_filled
    assert app.take() is None
    cupboard.commit({ONE: ABSENT, TWO: {"title": "rest", "done": False}, "urn:todo:4": TODO})
    assert app.take() is None
    cupboard.page(app.watcher.number)
    assert told(app.take()) == (["urn:todo:4"], [TWO], [ONE])
    cupboard.reset()
    cupboard.page(app.watcher.number)
    assert app.take() is None


@pytest.mark.rule("SYNC-7")
@EACH_KIND
@pytest.mark.parametrize("layered", [False, True])
def test_what_a_watch_is_filled_with_again_need_not_be_marked(root: Root, layered: bool) -> None:
    cupboard, app = watching({ONE: TODO, TWO: TODO}, root)
    name = cupboard.write({"urn:todo:9": put(TODO)})
    app.take()
    app.watcher.unfill()
    if not layered:
        cupboard.reject(name)
    cupboard.confirmed[ONE] = {"title": "new", "done": False}
    app.watcher.fill()
    assert told(app.take()) == ([], [ONE], [] if layered else ["urn:todo:9"])
    app.compare()


@pytest.mark.rule("SYNC-7", "NURSERY-4")
@EACH_KIND
def test_a_watch_goes_on_from_what_it_was_filled_with_again(root: Root) -> None:
    cupboard, app = watching({ONE: TODO}, root)
    name = cupboard.write({ONE: delete})
    app.take()
    cupboard.reject(name)
    cupboard.reset()
    cupboard.commit({TWO: TODO})
    cupboard.page(app.watcher.number)
    assert told(app.take()) == ([ONE, TWO], [], [])
    cupboard.commit({TWO: ABSENT})
    assert told(app.take()) == ([], [], [TWO])


@pytest.mark.rule("SYNC-4")
@EACH_KIND
@pytest.mark.parametrize("layered", [False, True])
def test_nothing_is_told_while_a_member_is_not_known_and_it_never_seems_to_leave(root: Root, layered: bool) -> None:
    cupboard, app = watching({ONE: TODO, TWO: TODO}, root)
    if layered:
        cupboard.write({"urn:todo:9": put(TODO)})
        app.take()
    cupboard.lose(ONE)
    cupboard.commit({TWO: {"title": "rest", "done": False}})
    assert app.watcher.has_news()
    assert app.take() is None
    assert not app.watcher.has_news()  # nobody waits in circles
    cupboard.commit({ONE: {"title": "new", "done": False}})
    app.watcher.mark([TWO])
    assert app.take() is None
    cupboard.lose()
    assert told(app.take()) == ([], [ONE, TWO], [])


@pytest.mark.rule("SYNC-4")
def test_a_watch_waits_also_for_the_first_change_and_after_filling_again() -> None:
    cupboard, app = watching({ONE: TODO}, TODOS)
    cupboard.lose(ONE)
    late = App(cupboard, cupboard.watch(Query(roots=(TODOS,))))
    cupboard.page(late.watcher.number)
    assert late.take() is None
    cupboard.reset()
    for each in (app, late):
        cupboard.page(each.watcher.number)
        assert each.take() is None
    cupboard.lose()
    assert app.take() is None
    assert told(late.take()) == ([ONE], [], [])


@EACH_KIND
def test_a_watch_that_was_reset_while_it_waited_goes_on_when_it_is_filled(root: Root) -> None:
    cupboard, app = watching({ONE: TODO}, root)
    cupboard.lose(ONE)
    assert app.take() is None
    app.watcher.unfill()
    cupboard.lost.clear()
    cupboard.confirmed[ONE] = {"title": "new", "done": False}
    app.watcher.fill()
    assert told(app.take()) == ([], [ONE], [])


@EACH_KIND
def test_a_watch_that_is_over_has_its_error_and_no_news(root: Root) -> None:
    cupboard, app = watching({ONE: TODO}, root)
    error = BranchDeleted(branch="main")
    cupboard.commit({ONE: ABSENT})
    app.watcher.end(error)
    app.watcher.fill()
    app.watcher.mark([ONE])
    assert app.watcher.error is error
    assert not app.watcher.is_filled
    assert not app.watcher.has_news()
    assert app.watcher.take(cupboard) is None
    assert not app.watcher._published  # it holds no values any more


# ---------------------------------------------------------------- bounded


def test_what_does_not_concern_a_plain_watch_is_no_news_to_it() -> None:
    _, app = watching({ONE: TODO}, TODOS, Root(id="urn:list:1"))
    app.watcher.mark([EntityId("urn:list:2"), EntityId("urn:list:10"), EntityId("urn:tod")])
    assert not app.watcher.has_news()
    app.watcher.mark([EntityId("urn:list:1")])
    assert app.watcher.has_news()


@EACH_KIND
@pytest.mark.parametrize("layered", [False, True])
def test_the_ids_remembered_for_a_slow_app_are_bounded(
    root: Root, layered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MARKS_MAX == 10_000
    monkeypatch.setattr(watcher, "MARKS_MAX", 5)
    cupboard, app = watching({ONE: TODO, TWO: TODO}, root)
    if layered:
        cupboard.write({"urn:todo:99": put(TODO)})
        app.take()
    for number in range(10, 30):
        cupboard.commit({f"urn:todo:{number}": TODO, f"urn:todo:{number - 1}": ABSENT, TWO: ABSENT})
        assert len(app.watcher._marked) <= 5
    assert told(app.take()) == (["urn:todo:29"], [], [TWO])
    app.compare()


@EACH_KIND
def test_nothing_is_remembered_of_a_watch_that_is_not_filled(root: Root) -> None:
    watch = made(root)
    watch.mark([ONE])
    assert not watch._marked


# ---------------------------------------------------------------- what it is made of


def test_a_watcher_knows_its_number_query_and_branch() -> None:
    query = Query(roots=(TODOS,), branch="draft")
    watch = Watcher(7, query, space=HERE, limits=DEFAULTS)
    assert (watch.number, watch.query, watch.branch) == (7, query, "draft")


@pytest.mark.parametrize(
    ("roots", "error"),
    [
        ((), InvalidQuery),
        ((Root(id="no id"),), InvalidId),
        ((Root(id=ONE, path="x"),), InvalidPointer),
        ((Root(id=ONE, schema={"unheard": 1}),), InvalidSchema),
        ((TODOS,) * 3, LimitExceeded),
    ],
)
def test_a_query_that_cannot_be_run_is_refused_at_once(roots: tuple[Root, ...], error: type[StemmaError]) -> None:
    with pytest.raises(error):
        made(*roots, limits=Limits(roots_max=2))


@pytest.mark.rule("WATCH-1")
@EACH_KIND
def test_only_the_head_can_be_watched(root: Root) -> None:
    with pytest.raises(InvalidQuery, match="head"):
        made(root, version=3)
    with pytest.raises(InvalidQuery, match="head"):
        made(root, time=3)


@pytest.mark.parametrize(
    ("root", "covered"),
    [
        (TODOS, True),
        (Root(id="*"), True),
        (Root(id=ONE), True),
        (Root(id=TWO), False),
        (Root(id="urn:list:*"), False),
        (OPEN_TODOS, False),
        (Root(id=ONE, schema=True), False),
        (Root(id=ONE, path="/title"), False),
    ],
)
def test_a_watch_covers_what_it_names_whole_and_without_a_schema(root: Root, covered: bool) -> None:
    assert made(root).covers(ONE) is covered
    assert made(Root(id="urn:x:1", schema=True), root).covers(ONE) is covered
