"""Plans in the memory server: roles, requests that are none, and dependencies that are added at the same moment."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from memory_worlds import AGENT, memory_world
from stemmadb.client.testing import World
from stemmadb.memory.interfaces.command.plan_operations import plan_apply, plan_read
from stemmadb.memory.operations.plan_links import change_task
from stemmadb.memory.operations.plan_store import CHANGES_AT_ONCE, PlanStore
from stemmadb.memory.rules.ids import namespace_hash
from stemmadb.memory.rules.refusals import InvalidRequest, NotAllowed, PermissionDenied
from stemmadb.memory.rules.tasks import ids
from stemmadb.memory.rules.tasks.decide import FileChange
from stemmadb.memory.rules.tasks.paths import PlanFile

NS = "custom:acme"


def change(id_: str, **fields: Any) -> FileChange:
    value = {"id": id_, "type": ids.type_of(id_), "status": "pending"} | fields
    return FileChange(PlanFile("task", id_), None, value)


class Context:
    """As much of a `CommandContext` as plans use."""

    def __init__(self, memory: Any, caller: Any) -> None:
        self.memory, self.caller = memory, caller


async def test_only_an_agent_of_the_namespace_writes_and_bad_changes_are_refused(tmp_path: Path) -> None:
    good = [[["task", "1"], None, {"id": "1", "type": "epic", "status": "pending"}], [["note", "a b.md"], None, "x"]]
    async with memory_world(tmp_path / "data") as opened:
        context: Any = Context(opened.memory, AGENT)
        viewer: Any = Context(opened.memory, AGENT._replace(role="viewer"))
        limited: Any = Context(opened.memory, AGENT._replace(namespaces=frozenset({"custom:other"})))
        with pytest.raises(PermissionDenied):
            await plan_apply(viewer, {"ns": NS, "changes": good})
        for asked in (plan_read, plan_apply):
            with pytest.raises(NotAllowed):
                await asked(limited, {"ns": NS, "changes": good})
        for file in (["task", "01"], ["note", "../x.md"], ["note", "lib/x.md"], ["note", "tasks/1.json"], ["task"],
                     ["note", "task-index.json"], ["note", "x.sh"], ["other", "x.md"], 3):  # fmt: skip
            with pytest.raises(InvalidRequest):
                await plan_apply(context, {"ns": NS, "changes": [[file, None, "x"]]})
        assert (await plan_read(viewer, {"ns": NS}))["files"] == []
        made: Any = await plan_apply(context, {"ns": NS, "changes": good})
        assert len(made["writes"]) == 2
        found: Any = (await plan_read(viewer, {"ns": NS}))["files"]
        assert {tuple(file) for file, _ in found} == {("task", "1"), ("note", "a b.md")}


def played(scenario: Any) -> None:
    async def main(world: World) -> None:
        await world.make_space("memory")
        async with world.connect("alice") as alice, world.connect("bob") as bob:
            await scenario(await alice.space("memory"), await bob.space("memory"))

    World(seed=3).run(main)


@pytest.mark.rule("WBS-6")
def test_of_two_that_would_close_a_circle_together_one_is_refused() -> None:
    async def scenario(one: Any, two: Any) -> None:
        store, nsh = PlanStore(one, NS, now=lambda: 1), namespace_hash(NS)
        await store.apply([change("1"), change("2", dependencies=["1"]), change("3")])
        for _ in range(5):
            both = await asyncio.gather(
                change_task(one, nsh, "1", {"dependencies": ["3"]}),
                change_task(two, nsh, "3", {"dependencies": ["2"]}),
                return_exceptions=True,
            )
            assert [type(one) for one in both if one is not None] == [InvalidRequest]
            await change_task(one, nsh, "1", {"dependencies": []})
            await change_task(one, nsh, "3", {"dependencies": []})
        for id_, fields in (("9", {}), ("1", {"dependencies": ["9"]}), ("1", {"dependencies": ["1"]}), ("x", {}),
                            ("1", {"status": "finished"}), ("1", {"dependencies": "2"})):  # fmt: skip
            with pytest.raises(InvalidRequest):
                await change_task(one, nsh, id_, fields)

    played(scenario)


@pytest.mark.rule("WBS-6", "WBS-14")
def test_more_changes_than_fit_into_one_commit_go_in_with_their_dependencies_first() -> None:
    async def scenario(one: Any, two: Any) -> None:
        count = CHANGES_AT_ONCE + 50
        store = PlanStore(one, NS, now=lambda: 1)
        made, stored = await store.apply(
            [
                change(str(number), dependencies=[str(number + 1)] if number < count else [])
                for number in range(1, count + 1)
            ]
        )
        assert (len(made.writes), made.refusals, len(stored)) == (count, {}, count)
        assert await PlanStore(two, NS, now=lambda: 1).read() == stored

    played(scenario)
