"""Undo of facts, entity by entity, on plain objects (COMMIT-9)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from merge_builders import X, increment, replace
from merge_space import ABSENT, make_fact
from space import ALICE
from stemmadb.protocol import errors
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.history.difference import Content, same
from stemmadb.protocol.model.log import replay
from stemmadb.protocol.model.log.changes import PATHS_MAX
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.merge.undo import Past, UndoPlan, UndoSelection, plan
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import MAIN, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from undo_oracle import is_refused, replayed_without

START: Value = {"a": 1, "b": 1, "n": 1, "l": [1, 2], "o": {"x": 1, "y": 1}}
HEAD = Version(20)


def patched(version: int, *operations: dict[str, Value]) -> Fact:
    return make_fact(version, "patch", list(operations))


def undo(
    facts: Sequence[Fact],
    *versions: int,
    before: Content = START,
    floor: int = 0,
    limits: Limits = DEFAULTS,
) -> UndoPlan:
    wanted = UndoSelection(
        versions=frozenset(map(Version, versions)), branch=MAIN, at=HEAD, floor=Version(floor), limits=limits
    )
    return plan([Past(X, before, facts)], wanted, lambda _: ALICE)


def content_after(facts: Sequence[Fact], made: UndoPlan, before: Content = START) -> Content:
    """What the entity holds once the undo is written."""
    head = replay.fold(before, facts)
    if not made.writes:
        return head
    (operation,) = made.writes
    return replay.fold(head, [make_fact(HEAD, operation.op, body.read_stored(operation.body or b"\xc0"))])


@pytest.mark.rule("COMMIT-9")
@pytest.mark.parametrize(
    ("fact", "before", "kind"),
    [
        (patched(5, replace("/a", 2)), START, "patch"),
        (patched(5, increment("/n"), replace("/o", 1)), START, "patch"),
        (make_fact(5, "set", {"z": 1}), START, "set"),
        (make_fact(5, "delete"), START, "set"),
        (make_fact(5, "set", {"z": 1}), ABSENT, "delete"),
    ],
)
def test_the_last_fact_undone_gives_the_state_before_it(fact: Fact, before: Content, kind: str) -> None:
    made = undo([fact], 5, before=before)
    assert [operation.op for operation in made.writes] == [kind]
    assert content_after([fact], made, before) == before


@pytest.mark.rule("COMMIT-9")
def test_later_work_elsewhere_in_the_entity_stays() -> None:
    facts = [patched(5, replace("/a", 2)), patched(6, replace("/b", 2)), patched(7, replace("/o/x", 2))]
    assert content_after(facts, undo(facts, 5)) == START | {"b": 2, "o": {"x": 2, "y": 1}}  # type: ignore[operator]
    assert undo(facts, 5).reads[0].path == "/a"


@pytest.mark.rule("COMMIT-9")
def test_several_are_undone_together_newest_first() -> None:
    facts = [patched(5, replace("/a", 2)), patched(6, replace("/a", 3)), patched(7, replace("/b", 2))]
    assert content_after(facts, undo(facts, 5, 6)) == START | {"b": 2}  # type: ignore[operator]
    facts = [patched(5, replace("/a", 2)), make_fact(6, "delete"), make_fact(7, "set", 0), patched(8, replace("", 1))]
    assert content_after(facts, undo(facts, 5, 6, 7, 8)) == START
    assert content_after(facts, undo(facts, 6, 7, 8)) == START | {"a": 2}  # type: ignore[operator]


@pytest.mark.rule("COMMIT-9")
def test_a_fact_between_two_that_are_undone_is_kept() -> None:
    facts = [patched(5, replace("/a", 2)), patched(6, replace("/o/x", 2)), patched(7, replace("/o", 3))]
    assert content_after(facts, undo(facts, 5, 7)) == START | {"o": {"x": 2, "y": 1}}  # type: ignore[operator]
    facts[2] = make_fact(7, "set", 0)
    made = undo(facts, 5, 7)
    assert content_after(facts, made) == START | {"o": {"x": 2, "y": 1}}  # type: ignore[operator]
    assert [(read.path, read.version) for read in made.reads] == [("", HEAD)]


@pytest.mark.rule("COMMIT-9")
def test_all_facts_of_a_commit_are_undone() -> None:
    facts = [make_fact(5, "set", {"a": 2}), patched(5, replace("/a", 3)), make_fact(5, "delete")]
    assert content_after(facts, undo(facts, 5)) == START


@pytest.mark.rule("COMMIT-9", "COMMIT-2")
@pytest.mark.parametrize(
    ("first", "later", "path"),
    [
        (patched(5, replace("/a", 2)), patched(6, replace("/a", 3)), "/a"),
        (patched(5, replace("/o", 2)), patched(6, replace("/o", 3)), "/o"),
        (patched(5, replace("/o", {"x": 2})), patched(6, replace("/o/x", 3)), "/o"),
        (patched(5, replace("/o/x", 2)), patched(6, replace("/o", 3)), "/o"),
        (patched(5, replace("/o/x", 2)), patched(6, replace("", {"b": 3})), ""),
        (patched(5, replace("/a", 2)), make_fact(6, "set", START), "/a"),
        (patched(5, replace("/a", 2)), make_fact(6, "delete"), "/a"),
        (patched(5, replace("/a", 2)), make_fact(6, "patch", gone=True), "/a"),
        (make_fact(5, "set", START), patched(6, replace("/a", 3)), ""),
        (make_fact(5, "delete"), make_fact(6, "set", START), ""),
        (patched(5, {"op": "add", "path": "/l/0", "value": 0}), patched(6, replace("/l/1", 3)), "/l"),
        (patched(5, increment("/n")), patched(6, replace("/n", 3)), "/n"),
        (patched(5, replace("/n", 3)), patched(6, increment("/n")), "/n"),
        (patched(5, increment("/n", 0.5)), patched(6, increment("/n")), "/n"),
        (patched(5, increment("/n"), replace("/n", 5)), patched(6, increment("/n")), "/n"),
        (patched(5, increment("/n")), patched(6, increment("/n"), replace("/n", 5)), "/n"),
    ],
)
def test_what_a_later_fact_touched_is_refused(first: Fact, later: Fact, path: str) -> None:
    facts = [first, later, patched(7, replace("/b", 9))] if later.kind == "patch" and later.body else [first, later]
    with pytest.raises(errors.Conflict) as caught:
        undo(facts, 5)
    stale = StaleRead(
        branch=MAIN, id=X, path=path, read=Version(5), head=facts[-1].version, winner=Version(6), author=ALICE
    )
    assert caught.value.facts == {"count": 1, "stale": (stale,)}


@pytest.mark.rule("COMMIT-9")
def test_an_increment_after_what_was_assigned_is_refused_with_it() -> None:
    facts = [patched(5, replace("/n", 3)), patched(6, increment("/n")), patched(7, increment("/n"))]
    with pytest.raises(errors.Conflict) as caught:
        undo(facts, 5, 6)
    assert [(stale.read, stale.winner) for stale in caught.value.facts["stale"]] == [(5, 7)]


@pytest.mark.rule("COMMIT-9")
def test_every_entity_in_the_way_is_named() -> None:
    facts = [patched(5, replace("/a", 2)), patched(6, replace("/a", 3)), patched(7, replace("/a", 4))]
    wanted = UndoSelection(versions={Version(5)}, branch=MAIN, at=HEAD)
    with pytest.raises(errors.Conflict) as caught:
        plan([Past(X, START, facts), Past(X, START, facts[:1]), Past(X, START, facts)], wanted, lambda _: ALICE)
    assert [stale.winner for stale in caught.value.facts["stale"]] == [6, 6]


@pytest.mark.rule("COMMIT-9", "COMMIT-3")
def test_increments_of_others_stay_when_one_is_undone() -> None:
    facts = [patched(5, increment("/n", 10)), patched(6, increment("/n")), patched(7, increment("/n", 0.5))]
    assert content_after(facts, undo(facts, 5)) == START | {"n": 2.5}  # type: ignore[operator]
    assert [read.path for read in undo(facts, 5).reads] == ["/n"]


@pytest.mark.rule("COMMIT-9")
def test_an_increment_that_cannot_be_taken_back_says_so() -> None:
    facts = [patched(5, increment("/n", 10)), patched(6, increment("/n", 1 - 2**63)), patched(7, increment("/n", -7))]
    with pytest.raises(errors.PatchFailed):
        undo(facts, 5)


@pytest.mark.rule("COMMIT-9", "FACT-1")
def test_a_checkpoint_is_in_nobodys_way() -> None:
    facts = [patched(5, replace("/a", 2)), make_fact(6, "checkpoint", START | {"a": 2})]  # type: ignore[operator]
    assert content_after(facts, undo(facts, 5)) == START
    facts = [make_fact(5, "set", 1), make_fact(6, "checkpoint", 1), patched(7, replace("", 2))]
    assert content_after(facts, undo(facts, 5, 7)) == START


@pytest.mark.rule("COMMIT-9")
def test_what_comes_to_what_is_there_writes_nothing_and_is_still_relied_on() -> None:
    facts = [patched(5, replace("/a", 2)), patched(6, replace("/a", 1))]
    made = undo(facts, 5, 6)
    assert (made.writes, [(read.id, read.path) for read in made.reads]) == ((), [(X, "/a")])
    facts = [make_fact(5, "set", 1), make_fact(6, "delete")]
    assert undo(facts, 5, 6, before=ABSENT).writes == ()


@pytest.mark.rule("COMMIT-9", "ERASE-1")
@pytest.mark.parametrize(
    ("facts", "before"),
    [
        ([make_fact(5, "set", gone=True)], START),
        ([patched(4, replace("/a", 2)), make_fact(5, "patch", gone=True)], START),
        ([patched(5, replace("/a", 2))], Missing.ERASED),
        ([make_fact(5, "set", 1)], Missing.ERASED),
        ([make_fact(5, "delete")], Missing.ERASED),
        ([make_fact(4, "set", 1), make_fact(5, "set", gone=True)], START),
    ],
)
def test_what_is_gone_cannot_be_undone(facts: list[Fact], before: Content) -> None:
    with pytest.raises(errors.Erased) as erased:
        undo(facts, 4, 5, before=before)
    assert erased.value.facts == {"id": X}
    with pytest.raises(errors.Compacted) as compacted:
        undo(facts, 4, 5, before=before, floor=9)
    assert compacted.value.facts["oldest"] == 9


@pytest.mark.rule("COMMIT-9", "COMPACT-1")
def test_the_state_before_the_floor_is_compacted_and_at_the_floor_erased() -> None:
    facts = [patched(5, replace("/a", 2))]
    with pytest.raises(errors.Compacted) as caught:
        undo(facts, 5, before=Missing.ERASED, floor=5)
    assert caught.value.facts["version"] == 4
    with pytest.raises(errors.Erased):
        undo(facts, 5, before=Missing.ERASED, floor=4)
    with pytest.raises(errors.Erased):
        undo([make_fact(5, "set", gone=True)], 5, floor=5)


@pytest.mark.rule("COMMIT-9")
def test_an_inverse_of_too_many_operations_is_a_set() -> None:
    facts = [patched(version, replace("/a", version)) for version in range(5, 9)]
    versions = range(5, 9)
    limits = Limits(patch_operations_max=3)
    assert [one.op for one in undo(facts, *versions).writes] == ["patch"]
    assert [one.op for one in undo(facts, *versions, limits=limits).writes] == ["set"]
    assert [one.op for one in undo(facts[:3], *versions, limits=limits).writes] == ["patch"]
    assert content_after(facts, undo(facts, *versions, limits=limits)) == START


@pytest.mark.rule("COMMIT-9")
def test_an_inverse_much_longer_than_the_value_is_a_set() -> None:
    facts = [patched(5, replace("/a", "x" * 5_000)), patched(6, replace("/a", 2))]
    made = undo(facts, 5, 6)
    assert ([one.op for one in made.writes], content_after(facts, made)) == (["set"], START)


@pytest.mark.rule("COMMIT-9")
def test_very_many_paths_are_declared_as_the_whole() -> None:
    many: Value = {str(key): 0 for key in range(PATHS_MAX + 1)}
    facts = [patched(5, *(replace(f"/{key}", 1) for key in range(PATHS_MAX + 1)))]
    assert [read.path for read in undo(facts, 5, before=many).reads] == [""]
    facts = [patched(5, *(replace(f"/{key}", 1) for key in range(PATHS_MAX)))]
    assert len(undo(facts, 5, before=many).reads) == PATHS_MAX


class Made:
    """A random line of facts, of which some are to be undone."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.before: Content = self.random.choice([START, START, START, ABSENT])
        self.facts: list[Fact] = []
        state = self.before
        for version in range(5, 5 + self.random.randint(1, 7)):
            self.facts.append(self.fact(version, state))
            state = replay.fold(state, self.facts[-1:])
        share = self.random.random()
        self.versions = {fact.version for fact in self.facts if self.random.random() < share} or {Version(5)}

    def fact(self, version: int, state: Content) -> Fact:
        if isinstance(state, Missing):
            return make_fact(version, "set", START)
        kind = self.random.choices(["patch", "set", "delete"], [12, 1, 1])[0]
        if kind != "patch":
            return make_fact(version, "delete") if kind == "delete" else make_fact(version, "set", START)
        operations = []
        for _ in range(self.random.randint(1, 2)):
            operation = self.operation(state)
            state = patch.apply(state, [operation])
            operations.append(operation)
        return patched(version, *operations)

    def operation(self, state: Value) -> dict[str, Value]:
        assert isinstance(state, dict)
        number = self.random.randint(2, 99)
        chosen: list[dict[str, Any]] = [
            {"op": "add", "path": self.random.choice(["/a", "/b", "/c"]), "value": number},
            {"op": "add", "path": "/o", "value": {"x": number}},
            {"op": "add", "path": "/l", "value": [number, 2]},
        ]
        if type(state.get("n")) is int:
            chosen += [increment("/n", number), increment("/n", -1), {"op": "move", "from": "/n", "path": "/m"}]
        if isinstance(state.get("o"), dict):
            chosen += [{"op": "add", "path": f"/o/{self.random.choice('xy')}", "value": number}]
        if isinstance(state.get("l"), list) and state["l"]:
            chosen += [{"op": "add", "path": "/l/0", "value": number}, replace("/l/0", number)]
            chosen += [{"op": "splice", "path": "/l", "index": 0, "remove": 1, "add": [number, 1]}]
        chosen += [{"op": "remove", "path": f"/{key}"} for key in ("a", "b", "o") if key in state]
        return self.random.choice(chosen)


@pytest.mark.rule("COMMIT-9")
def test_undo_is_replaying_without_what_is_undone() -> None:
    refused = 0
    for seed in range(1_500):
        made = Made(seed)
        if is_refused(made.facts, made.versions):
            refused += 1
            with pytest.raises(errors.Conflict):
                undo(made.facts, *made.versions, before=made.before)
            continue
        found = undo(made.facts, *made.versions, before=made.before)
        expected = replayed_without(made.before, made.facts, made.versions)
        assert same(content_after(made.facts, found, made.before), expected), seed
    assert 300 < refused < 1_200
