"""Reading in a draft: what is shown, what it declares, and that nothing the app does to a value is felt here."""

from __future__ import annotations

from typing import Any

import pytest

from drafts import PlainView, held, name
from stemmadb.client.drafting import MISSING, TransactionDraft
from stemmadb.client.nursery.entities import ABSENT, CachedEntity, CommitName
from stemmadb.client.nursery.plans import CommitWrite, PlannedRead
from stemmadb.protocol.errors import InvalidId, InvalidPointer, LimitExceeded
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits

ONE, TWO, THREE = EntityId("urn:a:1"), EntityId("urn:a:2"), EntityId("urn:a:3")


def draft(view: PlainView | None = None, **limits: int) -> TransactionDraft:
    return TransactionDraft(view or PlainView(), limits=Limits(**limits))


def covered(*pending: CommitWrite, **confirmed: Any) -> PlainView:
    """A view of everything under `urn:`, with one pending commit for each write."""
    held_ = {f"urn:a:{key.strip('_')}": held(value) for key, value in confirmed.items()}
    stack: list[tuple[CommitName, list[CommitWrite]]] = [
        (name(local), [write]) for local, write in enumerate(pending, 1)
    ]
    return PlainView(covered=("urn:",), confirmed=held_, pending=[*stack])


def put(id_: str, value: Any) -> CommitWrite:
    return CommitWrite("set", EntityId(id_), encode(value), value, None)


def patched(id_: str, *paths: str, blind: bool = False) -> CommitWrite:
    """A patch that replaces what is at each path by 7."""
    operations: Any = [{"op": "add", "path": path, "value": 7} for path in paths]
    return CommitWrite("patch", EntityId(id_), encode(operations), operations, paths, blind)


def reads(made: TransactionDraft) -> list[tuple[str | None, str, int, tuple[int, ...]]]:
    """The declared reads as plain tuples: the id or the prefix with a star, path, version, locals."""
    return [
        (one.id or f"{one.prefix}*", one.path, one.version, tuple(each.local for each in one.through))
        for one in made.plan().reads
    ]


@pytest.mark.rule("COMMIT-2")
def test_a_read_declares_its_path_at_the_version_of_the_view() -> None:
    made = draft(covered(_1={"a": {"b": 3}}))
    assert made.get(ONE, "/a/b") == 3
    assert made.plan().reads == (PlannedRead(version=Version(5), id=ONE, path="/a/b"),)


@pytest.mark.parametrize(
    "path", ["/none", "/a/b/c", "/list/2", "/list/-", "/list/01", "/list/x", "/empty/0", "/text/0"]
)
def test_where_nothing_is_there_is_none_and_that_is_declared_too(path: str) -> None:
    made = draft(covered(_1={"a": {"b": 3}, "list": [1, 2], "empty": [], "text": "abc"}))
    assert made.get(ONE, path) is None
    assert reads(made) == [(ONE, path, 5, ())]


def test_an_element_of_an_array_is_found_by_its_index() -> None:
    made = draft(covered(_1={"list": [{"x": 1}, {"x": 2}], "a/b": {"~": 5}}))
    assert made.get(ONE, "/list/1/x") == 2
    assert made.get(ONE, "/list/0") == {"x": 1}
    assert made.get(ONE, "/a~1b/~0") == 5


@pytest.mark.rule("COMMIT-2")
def test_what_is_known_not_to_be_there_is_none_and_declared() -> None:
    made = draft(covered())
    assert made.get(ONE) is None
    assert reads(made) == [(ONE, "", 5, ())]


def test_what_was_read_at_an_older_version_declares_that_version() -> None:
    made = draft(PlainView(confirmed={ONE: held({"a": 1}, as_of=3)}))
    assert made.get(ONE, "/a") == 1
    assert reads(made) == [(ONE, "/a", 3, ())]


@pytest.mark.rule("NURSERY-2")
def test_what_is_not_in_view_is_missing_until_it_is_learned_and_declares_nothing_before() -> None:
    made = draft()
    assert made.get(ONE, "/a") is MISSING
    assert reads(made) == []
    made.learn(ONE, held({"a": 1}))
    assert made.get(ONE, "/a") == 1
    assert reads(made) == [(ONE, "/a", 5, ())]


def test_what_was_learned_as_of_another_version_declares_that_version() -> None:
    made = draft()
    made.learn(ONE, held({"a": 1}, as_of=0))
    assert made.get(ONE, "/a") == 1
    assert reads(made) == [(ONE, "/a", 0, ())]


def test_that_something_is_not_there_can_be_learned() -> None:
    made = draft()
    made.learn(ONE, held(ABSENT))
    assert made.get(ONE) is None
    assert reads(made) == [(ONE, "", 5, ())]


@pytest.mark.rule("NURSERY-2")
def test_what_was_known_stays_whatever_is_learned_later() -> None:
    made = draft(covered(_1=1))
    assert made.get(ONE) == 1
    made.learn(ONE, held(2, as_of=2))
    assert made.get(ONE) == 1
    assert made.get(ONE, "/x") is None
    made.set(ONE, 3)
    assert reads(made) == [(ONE, "", 5, ())]
    assert made.plan().bases == ()


def test_values_are_copies() -> None:
    kept = {"list": [1]}
    made = draft(PlainView(covered=("urn:",), confirmed={ONE: held(kept)}))
    whole, part, listed = made.get(ONE), made.get(ONE, "/list"), made.listing("urn:")
    assert isinstance(whole, dict)
    assert isinstance(part, list)
    assert isinstance(listed, dict)
    whole["x"] = 1
    part.append(2)
    listed[ONE]["list"].append(3)  # type: ignore[index,call-overload,union-attr]
    assert kept == {"list": [1]}
    assert made.get(ONE) == {"list": [1]}


# ---------------------------------------------------------------- own writes


@pytest.mark.rule("COMMIT-3", "COMMIT-6")
def test_own_writes_are_seen_and_what_was_written_whole_declares_nothing_new() -> None:
    made = draft(covered())
    made.set(ONE, {"a": 1}, blind=True)
    assert made.get(ONE) == {"a": 1}
    assert made.get(ONE, "/a") == 1
    made.delete(ONE)
    assert made.get(ONE) is None
    assert reads(made) == []


@pytest.mark.rule("COMMIT-6")
def test_what_was_only_patched_still_rests_on_what_was_there() -> None:
    made = draft(covered(_1={"a": 1, "b": 2}))
    made.patch(ONE, [{"op": "replace", "path": "/a", "value": 7}], blind=True)
    assert made.get(ONE, "/a") == 7
    assert made.get(ONE, "/b") == 2
    assert reads(made) == [(ONE, "/a", 5, ()), (ONE, "/b", 5, ())]


# ---------------------------------------------------------------- pending commits


@pytest.mark.rule("COMMIT-4")
def test_a_read_names_the_pending_commits_whose_paths_it_overlaps_in_their_order() -> None:
    view = covered(
        patched(ONE, "/a/b"), put(TWO, 0), patched(ONE, "/b", "/c"), patched(ONE, "/a"), _1={"a": {"b": 1}}
    )
    for path, locals_ in [("/a", (1, 4)), ("/a/b", (1, 4)), ("/c", (3,)), ("/d", ()), ("", (1, 3, 4)), ("/ab", ())]:
        made = draft(view)
        made.get(ONE, path)
        assert reads(made) == [(ONE, path, 5, locals_)], path


@pytest.mark.rule("COMMIT-4")
def test_a_pending_set_lies_beneath_every_path() -> None:
    made = draft(covered(put(ONE, {"a": 1})))
    assert made.get(ONE, "/x/y") is None
    assert reads(made) == [(ONE, "/x/y", 5, (1,))]


@pytest.mark.rule("COMMIT-4", "COMMIT-2")
def test_a_pending_patch_of_more_than_64_paths_counts_as_one_of_the_whole_entity() -> None:
    few, many = [f"/p{index}" for index in range(64)], [f"/p{index}" for index in range(65)]
    made = draft(covered(patched(ONE, *few), patched(TWO, *many), _1={}, _2={}))
    made.get(ONE, "/q")
    made.get(TWO, "/q")
    assert reads(made) == [(ONE, "/q", 5, ()), (TWO, "/q", 5, (2,))]


@pytest.mark.rule("NURSERY-1", "COMMIT-4")
def test_what_a_blind_pending_patch_hides_is_missing_and_comes_with_the_patch_on_top() -> None:
    made = draft(PlainView(pending=[(name(1), [patched(ONE, "/a", blind=True)])]))
    assert made.get(ONE) is MISSING
    made.learn(ONE, held({"a": 1, "b": 2}, as_of=5))
    assert made.get(ONE) == {"a": 7, "b": 2}
    assert reads(made) == [(ONE, "", 5, (1,))]


# ---------------------------------------------------------------- listings


@pytest.mark.rule("COMMIT-2", "COMMIT-4")
def test_a_listing_declares_the_prefix_through_every_commit_that_is_pending_there() -> None:
    view = covered(
        put(TWO, 2), put("urn:b:1", 0), CommitWrite("delete", THREE, None, None, None), put(TWO, 4), _1=1, _3=3
    )
    made = draft(view)
    assert made.listing("urn:a:") == {ONE: 1, TWO: 4}
    assert reads(made) == [("urn:a:*", "", 5, (1, 3, 4))]


@pytest.mark.rule("COMMIT-6")
def test_a_listing_shows_what_the_draft_itself_wrote_by_id() -> None:
    made = draft(covered(_1=1, _3=3))
    made.set("urn:a:0", 0)
    made.set(TWO, 2)
    made.delete(THREE)
    found = made.listing("urn:a:")
    assert isinstance(found, dict)
    assert list(found.items()) == [("urn:a:0", 0), (ONE, 1), (TWO, 2)]
    assert made.listing("urn:b:") == {}


def test_an_empty_prefix_lists_everything() -> None:
    made = draft(PlainView(covered=("",), confirmed={ONE: held(1)}))
    assert made.listing("") == {ONE: 1}
    assert reads(made) == [("*", "", 5, ())]


@pytest.mark.rule("NURSERY-2")
def test_a_listing_that_is_not_in_view_is_learned_with_the_pending_commits_on_top() -> None:
    pending = [
        put(TWO, 2),
        patched(ONE, "/a", blind=True),
        CommitWrite("delete", THREE, None, None, None, blind=True),
    ]
    made = draft(PlainView(pending=[(name(9), pending)]))
    assert made.listing("urn:a:") is MISSING
    assert reads(made) == []
    made.learn_listing("urn:a:", {ONE: held({"a": 1}), THREE: held(3)})
    assert made.listing("urn:a:") == {ONE: {"a": 7}, TWO: 2}
    assert reads(made) == [("urn:a:*", "", 5, (9,))]


@pytest.mark.rule("NURSERY-2")
def test_after_a_listing_all_that_is_under_its_prefix_is_known() -> None:
    made = draft()
    made.learn_listing("urn:a:", {ONE: held(1, as_of=5)})
    assert made.get(ONE) == 1
    assert made.get(TWO) is None
    assert made.listing("urn:a:1") == {ONE: 1}
    assert made.listing("urn:a:2") == {}
    assert made.listing("urn:") is MISSING
    assert made.get("urn:b:1") is MISSING


def test_a_listing_tells_what_was_asked_for_before_it() -> None:
    made = draft()
    assert made.get(ONE) is MISSING
    assert made.get(TWO) is MISSING
    made.learn_listing("urn:a:", {ONE: held(1)})
    assert made.get(ONE) == 1
    assert made.get(TWO) is None
    assert made.listing("urn:a:") == {ONE: 1}


def test_what_was_learned_with_a_listing_is_newer_than_what_the_view_holds() -> None:
    made = draft(PlainView(confirmed={ONE: held("old", as_of=3)}))
    made.learn_listing("urn:a:", {ONE: held("new")})
    assert made.get(ONE) == "new"
    assert reads(made) == [(ONE, "", 5, ())]


@pytest.mark.rule("COMMIT-4")
def test_a_pending_commit_that_applies_only_on_what_was_learned_is_named() -> None:
    pending = [(name(1), [patched(ONE, "/a")])]
    made = draft(PlainView(confirmed={ONE: held(ABSENT, as_of=3)}, pending=[*pending]))
    made.learn_listing("urn:a:", {ONE: held({"a": 1})})
    assert made.listing("urn:a:") == {ONE: {"a": 7}}
    assert reads(made) == [("urn:a:*", "", 5, (1,))]


# ---------------------------------------------------------------- as few reads as claim the same


@pytest.mark.rule("COMMIT-2")
def test_a_place_is_declared_once_and_not_beneath_a_wider_read() -> None:
    made = draft(covered(_1={"a": {"b": 1}}, _2={"a": 1}))
    for path in ("/a/b", "/a/b", "/a", "/ab", "/a/b/c"):
        made.get(ONE, path)
    made.get(TWO, "/a")
    made.get(TWO)
    assert reads(made) == [(ONE, "/a", 5, ()), (ONE, "/ab", 5, ()), (TWO, "", 5, ())]


@pytest.mark.rule("COMMIT-4")
def test_a_wider_read_through_the_same_view_covers_a_narrower_one_that_names_fewer_commits() -> None:
    made = draft(covered(patched(ONE, "/a"), patched(ONE, "/b"), _1={}))
    made.get(ONE, "/a")
    made.get(ONE)
    assert reads(made) == [(ONE, "", 5, (1, 2))]


@pytest.mark.rule("COMMIT-2")
def test_reads_of_different_versions_do_not_cover_each_other() -> None:
    made = draft()
    made.patch(ONE, [{"op": "replace", "path": "/a", "value": 2}])
    made.set(ONE, 3)
    made.learn(ONE, held({"a": 1}, as_of=4))
    assert reads(made) == [(ONE, "", 5, ()), (ONE, "/a", 4, ())]


@pytest.mark.rule("COMMIT-2")
def test_of_two_versions_of_one_place_the_older_is_declared() -> None:
    made = draft()
    made.patch(ONE, [{"op": "replace", "path": "", "value": 2}])
    made.set(ONE, 3)
    made.learn(ONE, held({"a": 1}, as_of=4))
    assert reads(made) == [(ONE, "", 4, ())]


def test_a_read_that_was_learned_at_the_version_of_the_view_is_covered_by_a_whole_write() -> None:
    made = draft()
    made.patch(ONE, [{"op": "replace", "path": "/a", "value": 2}])
    made.set(ONE, 3)
    made.learn(ONE, CachedEntity({"a": 1}, Version(1), held(0).hash, Version(5)))
    assert reads(made) == [(ONE, "", 5, ())]


# ---------------------------------------------------------------- bounds


def test_reads_are_bounded_and_counted_as_they_will_be_sent() -> None:
    made = draft(covered(_1={}), reads_max=3)
    for path in ("/a", "/b", ""):
        made.get(ONE, path)
    made.get(TWO)
    made.listing("urn:a:")
    assert len(made.plan().reads) == 3
    made.get(TWO)
    with pytest.raises(LimitExceeded, match="reads_max allows at most 3, and this has 4"):
        made.get(THREE)
    with pytest.raises(LimitExceeded, match="reads_max allows at most 3, and this has 4"):
        made.listing("urn:b:")
    assert len(made.plan().reads) == 3


def test_a_read_through_more_commits_than_can_be_named_is_refused() -> None:
    made = draft(covered(patched(ONE, "/a"), patched(ONE, "/a"), _1={}), locals_max=1)
    made.get(ONE)
    with pytest.raises(LimitExceeded, match="locals_max"):
        made.plan()


def test_what_cannot_be_read_is_refused_at_once() -> None:
    made = draft(covered(_1={}))
    with pytest.raises(InvalidId):
        made.get("no uri")
    with pytest.raises(InvalidId):
        made.get(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidId):
        made.listing("urn: a")
    with pytest.raises(InvalidPointer):
        made.get(ONE, "a")
    with pytest.raises(InvalidPointer):
        made.get(ONE, 3)  # type: ignore[arg-type]
    with pytest.raises(LimitExceeded, match="depth_max"):
        made.get(ONE, "/x" * (DEFAULTS.depth_max + 2))
    assert made.get(ONE, "/x" * (DEFAULTS.depth_max + 1)) is None
    assert len(made.plan().reads) == 1
