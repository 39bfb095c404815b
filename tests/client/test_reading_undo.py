"""Revert, and undo and redo of own commits: the stack on its own, then on a space where others write too."""

from __future__ import annotations

import random
from typing import Any

import pytest

from requesters import RequestWorld, request_world
from service_peers import ALICE, BOB, SPACE, patch, put, remove
from stemmadb.client.reading.merge import PlannedWrite
from stemmadb.client.reading.moment import Moment
from stemmadb.client.reading.undo import UndoManager, revert
from stemmadb.client.reading.undo_stack import UNDO_COMMITS_MAX, UndoStack, UndoStep
from stemmadb.protocol.errors import Conflict, InvalidQuery, Malformed
from stemmadb.protocol.model.values.ids import MAIN, EntityId, Version
from stemmadb.protocol.wire.messages.structure import RevertRequest

X, Y = "urn:x", "urn:y"
pytestmark = pytest.mark.rule("COMMIT-9")


async def state(it: RequestWorld) -> dict[str, Any]:
    return await Moment(it.requester, branch=MAIN, space=SPACE.did).list("urn:*")


# ---------------------------------------------------------------- revert


async def test_a_revert_takes_commits_back_by_a_new_one() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))
        await it.commit(put(X, 2))
        await it.commit(put(Y, 1))
        dry = await revert(it.requester, 3, branch=MAIN, dry_run=True)
        assert (dry.version, dry.writes_count) == (None, 1)
        assert dry.writes == (PlannedWrite(id=EntityId(X), kind="set", value=1),)
        report = await revert(it.requester, 3, branch=MAIN, note="wrong")
        assert (report.version, report.reverted, report.writes_count) == (5, (3,), 1)
        assert report.hash is not None
        assert await state(it) == {X: 1, Y: 1}
        assert (await revert(it.requester, [5], branch=MAIN)).reverted == (5,)
        assert await state(it) == {X: 2, Y: 1}


async def test_the_commits_of_an_author_or_of_a_session_are_taken_back() -> None:
    async with request_world() as it:
        bob = await it.harness.peer(BOB).open()
        await it.commit(put(X, 1))
        await bob.commit(put(X, 2))
        await bob.commit(put(Y, 2))
        assert (await revert(it.requester, branch=MAIN, author=BOB.did, since=3)).reverted == (4,)
        assert await state(it) == {X: 2}
        await revert(it.requester, 5, branch=MAIN)
        assert await state(it) == {X: 2, Y: 2}
        again = await it.harness.peer(BOB).open()
        await again.commit(put("urn:z", 1))
        assert (await revert(it.requester, branch=MAIN, session=again.session)).reverted == (7,)
        assert await state(it) == {X: 2, Y: 2}
        with pytest.raises(Malformed):
            await revert(it.requester, branch=MAIN)
        with pytest.raises(InvalidQuery):
            await revert(it.requester, [-1], branch=MAIN)


async def test_a_revert_of_what_others_changed_since_is_a_conflict() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))
        await it.commit(put(X, 2))
        with pytest.raises(Conflict) as refused:
            await revert(it.requester, 2, branch=MAIN)
        (stale,) = refused.value.facts["stale"]
        assert (stale.id, stale.winner, stale.author) == (X, 3, ALICE.did)


# ---------------------------------------------------------------- the stack


def stack_of(*versions: int) -> UndoStack:
    stack = UndoStack()
    for version in versions:
        stack.committed(Version(version))
    return stack


def step(kind: Any, target: int, narrow: tuple[int, ...], wide: tuple[int, ...]) -> UndoStep:
    return UndoStep(kind, Version(target), tuple(map(Version, narrow)), tuple(map(Version, wide)))


def take(stack: UndoStack, taken: UndoStep | None, version: int | None) -> None:
    assert taken is not None
    stack.done(taken, None if version is None else Version(version))


def test_an_empty_stack_has_nothing_to_undo_or_redo() -> None:
    assert stack_of().undo() is None
    assert stack_of().redo() is None
    assert stack_of(2).redo() is None
    assert not stack_of()
    assert len(stack_of(2, 3)) == 2


def test_undo_takes_the_newest_and_redo_takes_the_undo_back() -> None:
    stack = stack_of(2, 3)
    assert stack.undo() == step("undo", 3, (3,), (3,))
    take(stack, stack.undo(), 4)
    assert stack.undo() == step("undo", 2, (2,), (2, 3, 4))
    assert stack.redo() == step("redo", 3, (4,), (4,))
    take(stack, stack.undo(), 5)
    assert stack.undo() is None
    assert stack.redo() == step("redo", 2, (5,), (3, 4, 5))
    take(stack, stack.redo(), 6)
    assert stack.redo() == step("redo", 3, (4,), (4, 5, 6))
    take(stack, stack.redo(), 7)
    assert stack.redo() is None
    assert stack.undo() == step("undo", 7, (7,), (7,))


def test_asking_changes_nothing_until_the_step_is_done() -> None:
    stack = stack_of(2, 3)
    assert stack.undo() == stack.undo()
    take(stack, stack.undo(), 4)
    assert stack.redo() == stack.redo()


def test_a_new_commit_clears_redo_and_one_told_twice_does_not() -> None:
    stack = stack_of(2, 3)
    take(stack, stack.undo(), 4)
    stack.committed(Version(2))
    stack.committed(Version(4))
    assert stack.redo() is not None
    stack.committed(Version(5))
    assert stack.redo() is None
    assert stack.undo() == step("undo", 5, (5,), (5,))


def test_a_step_that_wrote_nothing_is_taken_back_by_nothing() -> None:
    stack = stack_of(2, 3)
    take(stack, stack.undo(), None)
    assert stack.redo() == step("redo", 3, (), ())
    take(stack, stack.redo(), None)
    assert stack.undo() == step("undo", 3, (3,), (3,))


def test_commits_that_come_while_one_is_undone_are_all_that_is_left_to_undo() -> None:
    stack = stack_of(2, 3)
    begun = stack.undo()
    stack.committed(Version(5))
    take(stack, begun, 4)
    assert stack.redo() is None
    assert stack.undo() == step("undo", 5, (5,), (5,))
    take(stack, stack.undo(), 6)
    assert stack.undo() is None


def test_the_oldest_are_forgotten_first() -> None:
    stack = stack_of(*range(2, 2 + UNDO_COMMITS_MAX + 10))
    assert len(stack) == UNDO_COMMITS_MAX
    undone = 0
    while (taken := stack.undo()) is not None:
        take(stack, taken, 10_000 + undone)
        undone += 1
    assert undone == UNDO_COMMITS_MAX // 2


# ---------------------------------------------------------------- on a space


class Author:
    """One whose commits can be undone."""

    def __init__(self, it: RequestWorld) -> None:
        self.it = it
        self.stack = UndoStack()
        self.undoing = UndoManager(it.requester, MAIN, self.stack)

    async def commit(self, *operations: Any) -> None:
        self.stack.committed(await self.it.commit(*operations))


async def test_undo_goes_back_through_commits_on_the_same_place_and_redo_comes_again() -> None:
    async with request_world() as it:
        author = Author(it)
        states = [await state(it)]
        for value in (1, 2, 3):
            await author.commit(put(X, value))
            states.append(await state(it))
        for _ in range(2):
            for back in (2, 1, 0):
                report = await author.undoing.undo(note="undo")
                assert report is not None
                assert await state(it) == states[back]
            assert await author.undoing.undo() is None
            for on in (1, 2, 3):
                assert await author.undoing.redo() is not None
                assert await state(it) == states[on]
            assert await author.undoing.redo() is None


async def test_an_undo_leaves_what_others_wrote_elsewhere() -> None:
    async with request_world() as it:
        author, bob = Author(it), await it.harness.peer(BOB).open()
        await author.commit(put(X, {"a": 1, "b": 1}))
        await author.commit(patch(X, {"op": "replace", "path": "/a", "value": 2}))
        await author.commit(put(Y, 1))
        await author.undoing.undo()
        await bob.commit(put(Y, "bob"), patch(X, {"op": "replace", "path": "/b", "value": "bob"}))
        assert await author.undoing.undo() is not None
        assert await state(it) == {X: {"a": 1, "b": "bob"}, Y: "bob"}
        assert await author.undoing.redo() is not None
        assert await state(it) == {X: {"a": 2, "b": "bob"}, Y: "bob"}


async def test_an_undo_that_others_stand_in_the_way_of_changes_nothing() -> None:
    async with request_world() as it:
        author, bob = Author(it), await it.harness.peer(BOB).open()
        await author.commit(put(X, 1))
        await bob.commit(put(X, "bob"))
        for _ in range(2):
            with pytest.raises(Conflict):
                await author.undoing.undo()
        assert await state(it) == {X: "bob"}
        await bob.commit(remove(X))
        assert len(author.stack) == 1


@pytest.mark.rule("COMMIT-11")
async def test_an_undo_whose_answer_was_lost_is_done_once() -> None:
    async with request_world() as it:
        author = Author(it)
        await author.commit(put(X, 1))
        await author.commit(put(X, 2))
        it.requester.losses.append("answer")
        report = await author.undoing.undo()
        assert report is not None
        assert report.version == 4
        assert it.requester.asked == [RevertRequest] * 2
        assert await state(it) == {X: 1}


@pytest.mark.parametrize("seed", range(25))
async def test_any_walk_of_commits_undos_and_redos_is_that_of_an_editor(seed: int) -> None:
    rng = random.Random(seed)
    async with request_world() as it:
        author = Author(it)
        past: list[dict[str, Any]] = [{}]
        future: list[dict[str, Any]] = []
        for n in range(25):
            what = rng.choice(["commit", "commit", "undo", "undo", "redo"])
            if what == "commit":
                id_ = rng.choice([X, Y])
                await author.commit(
                    put(id_, {"n": n, "k": 0})
                    if rng.random() < 0.6 or id_ not in past[-1]
                    else patch(id_, {"op": "replace", "path": "/n", "value": n})
                )
                past.append(await state(it))
                future.clear()
            elif what == "undo":
                assert (await author.undoing.undo() is not None) == (len(past) > 1)
                if len(past) > 1:
                    future.append(past.pop())
            else:
                assert (await author.undoing.redo() is not None) == bool(future)
                if future:
                    past.append(future.pop())
            assert await state(it) == past[-1]
