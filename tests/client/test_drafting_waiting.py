"""What waits: writes on entities that are not in view, until the server has said what is there (NURSERY-8)."""

from __future__ import annotations

from typing import Any

import pytest

from drafts import PlainView, held, name
from stemmadb.client.drafting import MISSING, TransactionDraft
from stemmadb.client.nursery.entities import ABSENT
from stemmadb.client.nursery.plans import CommitWrite
from stemmadb.protocol.errors import AlreadyExists, LimitExceeded, NotFound, NotInView, PatchFailed
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits

ONE, TWO = EntityId("urn:a:1"), EntityId("urn:a:2")
NOTHING: frozenset[EntityId] = frozenset()


def draft(view: PlainView | None = None, **limits: int) -> TransactionDraft:
    """A draft over a view that holds nothing."""
    return TransactionDraft(view or PlainView(), limits=Limits(**limits))


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


def writes(made: TransactionDraft) -> list[tuple[str, str, object]]:
    return [(write.op, write.id, write.value) for write in made.plan().writes]


def reads(made: TransactionDraft) -> list[tuple[str | None, str, int]]:
    return [(one.id, one.path, one.version) for one in made.plan().reads]


@pytest.mark.rule("NURSERY-8", "COMMIT-3")
def test_whole_writes_need_no_fetch_and_claim_that_nothing_has_changed_since_the_view() -> None:
    made = draft()
    made.set(ONE, 1)
    made.delete(TWO)
    assert made.missing() == NOTHING
    assert writes(made) == [("set", ONE, 1), ("delete", TWO, None)]
    assert reads(made) == [(ONE, "", 5), (TWO, "", 5)]
    assert made.plan().bases == ()


@pytest.mark.rule("NURSERY-8")
def test_what_is_blind_needs_no_fetch_and_claims_nothing() -> None:
    made = draft()
    made.patch(ONE, [replace("/a", 1)], blind=True)
    made.increment(ONE, "/n", blind=True)
    made.set(TWO, 1, blind=True)
    made.delete(TWO, blind=True)
    assert made.missing() == NOTHING
    assert [write.op for write in made.plan().writes] == ["patch", "patch", "set", "delete"]
    assert all(write.blind for write in made.plan().writes)
    assert reads(made) == []


@pytest.mark.rule("NURSERY-8")
def test_a_patch_waits_until_it_is_known_what_is_there_and_is_then_checked_and_declared() -> None:
    made = draft()
    made.patch(ONE, [replace("/a", 2), {"op": "test", "path": "/b", "value": 1}])
    made.increment(TWO, "/n")
    assert made.missing() == {ONE, TWO}
    with pytest.raises(NotInView, match="urn:a:"):
        made.plan()
    made.learn(ONE, held({"a": 1, "b": 1}, as_of=5))
    assert made.missing() == {TWO}
    made.learn(TWO, held({"n": 1}, as_of=5))
    assert made.missing() == NOTHING
    assert [(op, id_) for op, id_, _ in writes(made)] == [("patch", ONE), ("patch", TWO)]
    assert sorted(reads(made)) == [(ONE, "/a", 5), (ONE, "/b", 5)]
    assert made.plan().bases == ((ONE, held({"a": 1, "b": 1}, as_of=5)), (TWO, held({"n": 1}, as_of=5)))


@pytest.mark.rule("NURSERY-8")
@pytest.mark.parametrize(
    ("operations", "there", "error"),
    [
        ([replace("/a", 2)], ABSENT, NotFound),
        ([replace("/a", 2)], {}, PatchFailed),
        ([{"op": "increment", "path": "/a", "by": 1}], {"a": "text"}, PatchFailed),
        ([{"op": "add", "path": "/a", "value": "x" * 60}], "x" * 60, PatchFailed),
        ([{"op": "add", "path": "/a", "value": "x" * 60}], {"b": "x" * 60}, LimitExceeded),
    ],
)
def test_a_patch_that_waited_and_cannot_be_applied_is_refused_at_the_end_each_time(
    operations: Any, there: Any, error: type[Exception]
) -> None:
    made = draft(value_bytes_max=100)
    made.patch(ONE, operations)
    made.learn(ONE, held(there))
    for _ in range(2):
        with pytest.raises(error):
            made.plan()
    with pytest.raises(error):
        made.get(ONE)


@pytest.mark.rule("NURSERY-8")
def test_create_waits_and_is_judged_at_the_end() -> None:
    made = draft()
    made.create(ONE, {"a": 1})
    assert made.missing() == {ONE}
    assert made.get(ONE) == {"a": 1}
    made.patch(ONE, [replace("/a", 2)])
    assert made.get(ONE, "/a") == 2
    made.learn(ONE, held(ABSENT, as_of=4))
    assert writes(made) == [("set", ONE, {"a": 1}), ("patch", ONE, [replace("/a", 2)])]
    assert reads(made) == [(ONE, "", 4)]
    assert made.get(ONE) == {"a": 2}
    assert made.plan().bases == ((ONE, held(ABSENT, as_of=4)),)


def test_create_that_waited_is_refused_where_something_is_there() -> None:
    made = draft()
    made.create(ONE, 1)
    made.learn(ONE, held({"a": 1}))
    with pytest.raises(AlreadyExists):
        made.plan()


@pytest.mark.rule("NURSERY-8")
def test_an_update_waits_and_becomes_a_patch_a_whole_value_or_nothing() -> None:
    cases: list[tuple[Any, list[tuple[str, str, object]]]] = [
        ({"a": 1, "b": 1}, [("patch", ONE, [replace("/a", 2)])]),
        ([1, 2], [("set", ONE, {"a": 2, "b": 1})]),
        ({"a": 2, "b": 1}, []),
    ]
    for there, expected in cases:
        made = draft()
        made.set(TWO, 0)
        made.update(ONE, {"a": 2, "b": 1})
        made.set(TWO, 1)
        assert made.missing() == {ONE}
        made.learn(ONE, held(there))
        assert writes(made) == [("set", TWO, 0), *expected, ("set", TWO, 1)]
        assert made.plan().bases == (((ONE, held(there)),) if expected else ())


def test_an_update_that_waited_is_refused_where_nothing_is_there() -> None:
    made = draft()
    made.update(ONE, 1)
    made.learn(ONE, held(ABSENT))
    with pytest.raises(NotFound):
        made.plan()


@pytest.mark.rule("COMMIT-6")
def test_what_waits_is_done_in_order_and_reading_it_waits_too() -> None:
    made = draft()
    made.patch(ONE, [replace("/a", 2)])
    made.patch(ONE, [{"op": "add", "path": "/list/-", "value": 1}], blind=True)
    made.update(ONE, {"a": 3, "list": [0, 1]})
    made.increment(ONE, "/a")
    assert made.get(ONE) is MISSING
    made.learn(ONE, held({"a": 1, "list": [0]}))
    assert made.get(ONE) == {"a": 4, "list": [0, 1]}
    assert [(op, value) for op, _, value in writes(made)] == [
        ("patch", [replace("/a", 2)]),
        ("patch", [{"op": "add", "path": "/list/-", "value": 1}]),
        ("patch", [replace("/a", 3)]),
        ("patch", [{"op": "increment", "path": "/a", "by": 1}]),
    ]


@pytest.mark.rule("COMMIT-6")
def test_what_comes_after_it_was_learned_stands_on_what_had_waited() -> None:
    made = draft()
    made.increment(ONE, "/n")
    made.learn(ONE, held({"n": 1}))
    made.increment(ONE, "/n")
    made.patch(ONE, [replace("/n", 9)])
    assert made.get(ONE) == {"n": 9}
    made.plan()
    assert made.get(ONE) == {"n": 9}


@pytest.mark.rule("COMMIT-6")
def test_a_whole_write_after_a_patch_that_waits_is_seen_at_once_and_the_patch_is_still_checked() -> None:
    made = draft()
    made.patch(ONE, [replace("/a", 2)])
    made.set(ONE, "new")
    assert made.get(ONE) == "new"
    made.delete(ONE)
    assert made.get(ONE) is None
    assert made.missing() == {ONE}
    made.learn(ONE, held({"a": 1}))
    assert made.get(ONE) is None
    assert [op for op, _, _ in writes(made)] == ["patch", "set", "delete"]
    made = draft()
    made.patch(ONE, [replace("/a", 2)])
    made.set(ONE, "new")
    made.learn(ONE, held({}))
    with pytest.raises(PatchFailed):
        made.plan()


@pytest.mark.rule("NURSERY-8")
def test_a_blind_patch_is_checked_once_it_is_known_what_is_there() -> None:
    made = draft()
    made.patch(ONE, [replace("/a", 2)], blind=True)
    made.learn(ONE, held({}))
    with pytest.raises(PatchFailed):
        made.get(ONE)
    made = draft()
    made.patch(ONE, [replace("/a", 2)], blind=True)
    made.patch(ONE, [replace("/b", 2)])
    assert made.missing() == {ONE}
    made.learn(ONE, held({"a": 1, "b": 1}))
    assert reads(made) == [(ONE, "/b", 5)]


@pytest.mark.rule("NURSERY-1", "COMMIT-4")
def test_writes_on_what_a_blind_pending_patch_hides_rest_on_it() -> None:
    operations: Any = [{"op": "add", "path": "/a", "value": 7}]
    pending = [CommitWrite("patch", ONE, encode(operations), operations, ("/a",), blind=True)]
    view = PlainView(pending=[(name(1), pending)])
    whole, small = draft(view), draft(view)
    whole.set(ONE, 1)
    assert whole.missing() == NOTHING
    assert [(one.path, tuple(one.through)) for one in whole.plan().reads] == [("", (name(1),))]
    small.patch(ONE, [{"op": "test", "path": "/a", "value": 7}])
    assert small.missing() == {ONE}
    small.learn(ONE, held({"a": 1}))
    assert [(one.path, tuple(one.through)) for one in small.plan().reads] == [("/a", (name(1),))]


@pytest.mark.rule("NURSERY-2")
def test_what_a_listing_brings_or_does_not_bring_is_enough_for_what_waits() -> None:
    made = draft()
    made.patch(ONE, [replace("/a", 2)])
    made.create(TWO, 2)
    made.learn_listing("urn:a:", {ONE: held({"a": 1}, as_of=5)})
    assert made.missing() == NOTHING
    assert made.listing("urn:a:") == {ONE: {"a": 2}, TWO: 2}
    assert [op for op, _, _ in writes(made)] == ["patch", "set"]
    assert made.plan().bases == ((ONE, held({"a": 1}, as_of=5)),)


def test_what_was_only_read_is_no_base() -> None:
    made = draft()
    made.learn(ONE, held({"a": 1}))
    assert made.get(ONE) == {"a": 1}
    made.set(TWO, 1)
    assert made.plan().bases == ()


def test_a_plan_can_be_made_again() -> None:
    made = draft()
    made.update(ONE, {"a": 2})
    made.learn(ONE, held({"a": 1}))
    assert made.plan() == made.plan()
    made.set(TWO, 1)
    assert len(made.plan().writes) == 2


def test_a_draft_on_another_branch_plans_for_it() -> None:
    view = PlainView(branch=BranchName("draft"))
    made = TransactionDraft(view, limits=DEFAULTS)
    made.set(ONE, 1)
    assert made.plan().branch == "draft"
    made.delete(ONE)
    with pytest.raises(NotFound, match="on branch 'draft'"):
        made.delete(ONE)
    assert made.plan().reads[0].version == Version(5)
