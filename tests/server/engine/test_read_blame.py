"""Blame: who wrote each leaf last, at any moment (HISTORY-1)."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from random_logs import IDS
from read_worlds import World, at, every_page, random_world, readable_moments, seen_by
from space import BOB, delete_, patch_, set_
from stemmadb.protocol.errors import Erased, FutureVersion, InvalidPointer, LimitExceeded, NotFound, UnknownBranch
from stemmadb.protocol.model.commit.proposal import Step, set_step, step_of
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.history import blame as model
from stemmadb.protocol.model.history.origins import WrittenLeaves
from stemmadb.protocol.model.log import replay
from stemmadb.protocol.model.log.commit_record import Merge
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.read import blame as blaming
from stemmadb.server.engine.read import entities
from stemmadb.server.engine.read.blame import Blamed
from stemmadb.server.storage.port import LogReader

X = EntityId("urn:x")


def pages(world: World, id_: str = X, moment: ReadMoment = entities.HEAD, path: str = "", **how: Any) -> list[Blamed]:
    return every_page(
        lambda after: world.ask(lambda log: blaming.page(log, EntityId(id_), moment, path, after=after or 0, **how))
    )


def blamed(
    world: World, id_: str = X, moment: ReadMoment = entities.HEAD, path: str = "", **how: Any
) -> dict[str, int | None]:
    return {
        line.path: None if line.created_by is None else line.created_by.version
        for page in pages(world, id_, moment, path, **how)
        for line in page.lines
    }


def add(path: str, value: Any) -> Operation:
    return patch_(X, {"op": "add", "path": path, "value": value}, blind=True)


@pytest.mark.rule("HISTORY-1")
@pytest.mark.parametrize("seed", range(20))
def test_every_moment_of_a_random_log_blames_as_all_facts_it_sees_do(seed: int) -> None:
    world = random_world(seed)
    details = {commit.version: commit.details for commit in world.maker.commits}
    for moment in readable_moments(world):
        for id_ in IDS[:4]:
            facts = seen_by(world, moment, id_)
            state = replay.fold(Missing.ABSENT, facts)
            if not facts or state is Missing.ERASED:
                with pytest.raises(Erased if facts else NotFound):
                    pages(world, id_, moment)
                continue
            expected = model.blame(WrittenLeaves(fact, details[fact.version]) for fact in facts)
            assert blamed(world, id_, moment, limit=1) == expected


@pytest.mark.rule("HISTORY-1")
@pytest.mark.parametrize("seed", range(30))
def test_merges_deletes_and_resolutions_are_blamed_as_all_facts_are(seed: int) -> None:
    """With merges that say set, patch or delete: the fact that wrote everything is not always the last set."""
    world, random = World(), Random(seed)
    world.commit(set_(X, {"a": 0, "b": 0}, blind=True))
    world.keep(world.maker.create_branch("draft"))
    for _ in range(40):
        random_write(world, random)
        facts = seen_by(world, at(world.maker.version), X)
        details = {commit.version: commit.details for commit in world.maker.commits}
        expected = model.blame(WrittenLeaves(fact, details[fact.version]) for fact in facts)
        assert blamed(world) == expected
    kinds = {(fact.kind, isinstance(details[fact.version], Merge)) for fact in facts}
    assert {("set", True), ("set", False), ("patch", False)} <= kinds


def random_write(world: World, random: Random) -> None:
    alive = not isinstance(world.maker.value(world.maker.spans(), X), Missing)
    number = random.randint(0, 9)
    value = {"a": random.randint(0, 1), "b": random.randint(0, 1), "c": {"d": number}}
    steps: list[Step] = [set_step(MAIN, X, encode(value), blind=True)]
    if alive and random.random() < 0.6:
        change = add(random.choice(["/a", "/b", "/c"]), number)
        steps = [step_of(change, MAIN, Limits())]
    elif alive and random.random() < 0.15:
        steps = [Step("delete", MAIN, X, None, None, 0, None, ())]
    if random.random() < 0.5:
        two, version = BranchName("draft"), world.maker.version
        resolved = (X,) if random.random() < 0.2 else ()
        details = Merge(source=two, source_version=version, target_version=version, resolved=resolved)
        world.keep(world.maker._structural(details, steps, on=MAIN))
    else:
        kept = world.maker.space.propose(add("/a", 0) if alive else set_(X, 0, blind=True))
        world.keep(world.maker.take(msgspec.structs.replace(kept, steps=tuple(steps))))


@pytest.mark.rule("HISTORY-1")
def test_a_line_names_the_author_the_time_and_the_note() -> None:
    world = World()
    world.commit(set_(X, {"a": 1, "b": 1}, blind=True))
    world.maker.now = 7_000
    note = encode(["why", None])
    world.commit(add("/a", 2), author=BOB, session="bobs", note=note)
    (page,) = pages(world)
    first, second = page.lines
    assert first.created_by is not None
    assert second.created_by is not None
    assert (page.version, first.path, first.created_by.version, second.path, second.created_by.version) == (
        2,
        "/a",
        2,
        "/b",
        1,
    )
    assert (first.created_by.author, first.created_by.time, first.created_by.note) == (BOB, 7_000, note)


@pytest.mark.rule("HISTORY-1")
def test_a_path_narrows_to_the_leaves_in_it_and_to_the_leaf_it_is_in() -> None:
    world = World()
    world.commit(set_(X, {"o": {"x": 1, "y": {"z": 1}}, "l": [1, {"k": 2}], "of": 1}, blind=True))
    world.commit(add("/o/y/z", 2), add("/l/0", 0))
    assert blamed(world, path="/o") == {"/o/x": 1, "/o/y/z": 2}
    assert blamed(world, path="/o/y/z") == {"/o/y/z": 2}
    assert blamed(world, path="/l/2/k") == {"/l": 2}
    assert [blamed(world, path=path) for path in ("/none", "/o/x/y", "/l/9", "/of/")] == [{}] * 4
    with pytest.raises(InvalidPointer):
        blamed(world, path="o")


def whole_write(world: World, kind: str) -> None:
    """A write of every leaf, whatever was there before."""
    if kind == "set":
        world.commit(set_(X, {"a": 0, "b": 0}, blind=True))
        return
    if kind == "delete":
        world.commit(delete_(X, blind=True))
    version, resolved = world.maker.version, (X,) if kind == "resolution" else ()
    draft = BranchName("draft")
    details = Merge(source=draft, source_version=version, target_version=version, resolved=resolved)
    step = set_step(MAIN, X, encode({"a": 0, "b": 0}), blind=True)
    world.keep(world.maker._structural(details, [step], on=MAIN))


@pytest.mark.rule("HISTORY-1")
@pytest.mark.parametrize("kind", ["set", "delete", "resolution"])
def test_what_came_before_the_last_whole_write_is_not_followed(kind: str) -> None:
    world = World()
    world.commit(set_(X, {"a": 0, "b": 0}, blind=True))
    world.keep(world.maker.create_branch("draft"))
    for number in range(198):
        world.commit(add("/a", number))
    whole_write(world, kind)
    written = world.maker.version
    for number in range(99):
        world.commit(add("/a", number))
    asked: list[int] = []
    with world.reader() as log:
        lines = blaming.page(_counting_facts(log, asked), X).lines
    assert {line.path: line.created_by and line.created_by.version for line in lines} == {
        "/a": world.maker.version,
        "/b": written,
    }
    assert asked == [1, 16, 32, 64, 16, 32, 53 if kind == "delete" else 52, 0]


def _counting_facts(log: LogReader, asked: list[int]) -> LogReader:
    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(log, name)

        def facts_of(self, *args: Any, **how: Any) -> Any:
            found = log.facts_of(*args, **how)
            asked.append(len(found))
            return found

    reader: Any = Counting()
    checked: LogReader = reader
    return checked


@pytest.mark.rule("HISTORY-1")
def test_what_a_commit_did_before_its_own_last_whole_write_is_not_followed() -> None:
    world = World()
    world.commit(set_(X, {"a": 1}, blind=True))
    world.commit(add("/a", 2), delete_(X, blind=True), set_(X, {"b": 1}, blind=True), add("/c", 2))
    assert blamed(world) == {"/b": 2, "/c": 2}


@pytest.mark.rule("HISTORY-1")
def test_an_entity_that_came_by_a_merge_is_blamed_on_the_merge() -> None:
    world = World()
    world.keep(world.maker.create_branch("draft"))
    world.commit(set_(X, {"a": 1}, blind=True), branch="draft")
    merged = world.keep(world.maker.merge("draft", ids=[X]))
    changed = world.commit(add("/b", 2))
    assert blamed(world) == {"/a": merged, "/b": changed}
    assert blamed(world, moment=at(on="draft")) == {"/a": 2}


@pytest.mark.rule("HISTORY-1")
def test_a_checkpoint_stands_for_facts_that_are_gone_and_is_blamed_for_nothing() -> None:
    world = World()
    world.commit(set_(X, {"a": 1, "b": 1}, blind=True))
    world.commit(add("/a", 2))
    world.keep(world.maker.compact(1, checkpoints=[("main", X)]))
    assert blamed(world) == {"/a": 2, "/b": 1}
    world.commit(add("/a", 3))
    world.keep(world.maker.compact(4))
    assert world.maker.facts[0].is_gone
    assert blamed(world) == {"/a": 4, "/b": None}  # whether at 1 or at 2 is not known any more


@pytest.mark.rule("HISTORY-2")
def test_what_cannot_be_blamed_says_why() -> None:
    world = World()
    world.commit(set_(X, {"a": 1}, blind=True))
    world.commit(delete_(X, blind=True))
    assert pages(world) == [Blamed(Version(2), (), None)]
    world.keep(world.maker.erase(X, [1]))
    for moment, error in [
        (at(1), Erased),
        (at(0), NotFound),
        (at(9), FutureVersion),
        (at(on="nowhere"), UnknownBranch),
    ]:
        with pytest.raises(error):
            pages(world, moment=moment)
    with pytest.raises(NotFound) as raised:
        pages(world, may_read=lambda _: False)
    assert raised.value.facts == {"id": X, "branch": "main"}


@pytest.mark.rule("HISTORY-1")
def test_lines_come_in_pages_that_fit_into_a_part() -> None:
    world = World()
    world.commit(set_(X, {f"k{number}": 0 for number in range(10)}, blind=True))
    assert [len(page.lines) for page in pages(world, limit=4)] == [4, 4, 2]
    assert [page.next for page in pages(world, limit=4)] == [4, 8, None]
    assert list(blamed(world, limit=3)) == [f"/k{number}" for number in range(10)]
    assert [len(page.lines) for page in pages(world, limits=Limits(part_bytes_max=3_500))] == [4, 4, 2]
    world.commit(add("/k0", 1), note=encode("x" * 3_000))
    assert [len(page.lines) for page in pages(world, limits=Limits(part_bytes_max=3_500))] == [1, 4, 4, 1]
    with pytest.raises(LimitExceeded):
        pages(world, limit=1_001)
