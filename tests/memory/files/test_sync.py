"""Sync of working copies with a server in the same process: both sides' edits, conflicts, deletions, bytes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stemmadb.client.testing import World
from stemmadb.memory.interfaces.files.sync import SyncReport, sync
from stemmadb.memory.interfaces.files.working_copy import WorkingCopy
from stemmadb.memory.operations.plan_store import PlanStore
from stemmadb.memory.rules.tasks import file_text, findings, ids, paths

NAMESPACE = "custom:acme.api"


class Checkout:
    """A directory and its client of the store."""

    def __init__(self, root: Path, store: PlanStore) -> None:
        root.mkdir(parents=True)
        self.copy = WorkingCopy(root)
        self.copy.make()
        self.store = store

    async def sync(self, **options: Any) -> SyncReport:
        return await sync(self.copy, self.store, **options)

    def task(self, id_: str, **fields: Any) -> None:
        """Makes or changes a task file by hand."""
        path = self.copy.root / f"tasks/{id_}.json"
        old = (
            json.loads(path.read_text())
            if path.exists()
            else {"id": id_, "type": ids.type_of(id_), "status": "pending"}
        )
        path.write_text(json.dumps(old | fields))

    def value(self, id_: str) -> Any:
        return json.loads((self.copy.root / f"tasks/{id_}.json").read_text())

    def write(self, path: str, text: str | bytes) -> None:
        file = self.copy.root / path
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)

    def files(self) -> dict[str, bytes]:
        """What is synced, with the index."""
        found, _ = self.copy.scan()
        return found | {paths.INDEX: self.copy.read(paths.INDEX) or b""}

    def everything(self) -> dict[str, tuple[bytes, int]]:
        """Also our own state, and when each was written."""
        every = (file for file in self.copy.root.rglob("*") if file.is_file())
        return {str(file): (file.read_bytes(), file.stat().st_mtime_ns) for file in every}

    def findings(self) -> list[str]:
        tasks = {path.removeprefix("tasks/"): file_text.read_json(data) for path, data in self.copy.scan()[0].items()
                 if path.startswith("tasks/") and path.endswith(".json")}  # fmt: skip
        return findings.of_plan(tasks, file_text.read_json(self.copy.read(paths.INDEX) or b""))


Scenario = Callable[[Checkout, Checkout], Awaitable[None]]


def played(scenario: Scenario) -> None:
    """Two agents, two checkouts, one store; at the end a fresh checkout has the bytes of one without conflicts."""

    async def main(world: World) -> None:
        await world.make_space("memory")
        with TemporaryDirectory() as directory:
            async with world.connect("alice") as alice, world.connect("bob") as bob:
                stores = [
                    PlanStore(await db.space("memory"), NAMESPACE, now=lambda: 1_790_000_000_000)
                    for db in (alice, bob)
                ]
                one, two = (Checkout(Path(directory) / name, store) for name, store in zip("ab", stores, strict=True))
                await scenario(one, two)
                for checkout in (one, two):
                    before = checkout.everything() if (await checkout.sync()).is_clean else None
                    if before is not None:
                        again = await checkout.sync()
                        assert (again.sent, again.received) == ([], [])
                        assert checkout.everything() == before
                fresh = Checkout(Path(directory) / "fresh", stores[0])
                await fresh.sync()
                assert fresh.findings() == []
                for checkout in (one, two):
                    if (await checkout.sync()).is_clean:
                        assert checkout.files() == fresh.files()

    World(seed=1).run(main)


async def shared(one: Checkout, two: Checkout) -> None:
    """Both have a plan of one epic, a feature and two tasks."""
    one.task("1", title="Login")
    one.task("1.2")
    one.task("1.2.1", title="First")
    one.task("1.2.3", title="Form", dependencies=["1.2.1"])
    one.write("notes/why.md", "Because.\n")
    report = await one.sync()
    assert report.is_clean
    assert report.sent == ["notes/why.md", "tasks/1.2.1.json", "tasks/1.2.3.json", "tasks/1.2.json", "tasks/1.json"]
    assert (await two.sync()).is_clean


@pytest.mark.rule("WBS-12", "WBS-14")
def test_a_plan_goes_from_one_checkout_to_the_other() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        assert one.files() == two.files()
        assert two.value("1")["children"] == ["1.2"]
        assert list(two.value("1.2.3")) == ["id", "type", "title", "status", "parent", "children", "dependencies"]
        assert (two.copy.root / "notes/why.md").read_text() == "Because.\n"
        assert (two.copy.root / ".stemma/.gitignore").read_text() == "*\n"

    played(scenario)


@pytest.mark.rule("WBS-12")
def test_changes_of_different_fields_are_both_kept() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        one.task("1.2.3", title="Login form")
        two.task("1.2.3", agent="bob", zebra=[1])
        assert (await one.sync()).sent == ["tasks/1.2.3.json"]
        assert (await two.sync()).is_clean
        assert (await one.sync()).received == ["tasks/1.2.3.json"]
        for checkout in (one, two):
            value = checkout.value("1.2.3")
            assert (value["title"], value["agent"], value["zebra"]) == ("Login form", "bob", [1])

    played(scenario)


@pytest.mark.rule("WBS-12")
def test_a_field_that_both_changed_is_reported_and_nothing_of_the_file_is_written() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        one.task("1.2.3", title="mine", agent="ada")
        two.task("1.2.3", title="yours", description="more")
        two.task("1.2.1", title="also")
        await one.sync()
        before = (two.copy.root / "tasks/1.2.3.json").read_bytes()
        for _ in range(2):
            report = await two.sync()
            assert report.conflicts == {"tasks/1.2.3.json": "both sides changed title"}
            assert (two.copy.root / "tasks/1.2.3.json").read_bytes() == before
        assert "description" not in (await two.store.read())[paths.PlanFile("task", "1.2.3")]
        theirs = json.loads((two.copy.root / ".stemma/conflicts/tasks/1.2.3.json.theirs").read_text())
        assert (theirs["title"], theirs["agent"]) == ("mine", "ada")
        assert (await one.sync()).received == ["tasks/1.2.1.json"], "the other file went through"
        two.task("1.2.3", title="mine")
        assert (await two.sync()).is_clean
        assert not (two.copy.root / ".stemma/conflicts/tasks/1.2.3.json.theirs").exists()
        assert two.value("1.2.3")["description"] == "more"
        assert two.value("1.2.3")["agent"] == "ada"

    played(scenario)


@pytest.mark.rule("WBS-12")
@pytest.mark.parametrize(("option", "title"), [("take_mine", "yours"), ("take_store", "mine")])
def test_a_conflict_is_settled_by_taking_a_side(option: str, title: str) -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        one.task("1.2.3", title="mine")
        two.task("1.2.3", title="yours")
        await one.sync()
        assert not (await two.sync()).is_clean
        assert (await two.sync(**{option: ["tasks/1.2.3.json"]})).is_clean
        await one.sync()
        assert (one.value("1.2.3")["title"], two.value("1.2.3")["title"]) == (title, title)

    played(scenario)


@pytest.mark.rule("WBS-13")
def test_of_two_that_make_the_same_id_the_second_is_told() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        one.task("1.2.4", title="mine")
        two.task("1.2.4", title="yours")
        assert (await one.sync()).is_clean
        report = await two.sync()
        assert report.conflicts == {"tasks/1.2.4.json": "both sides made it"}
        assert two.value("1.2.4")["title"] == "yours"
        two.write(
            "tasks/1.2.5.json", json.dumps({"id": "1.2.5", "type": "task", "status": "pending", "title": "yours"})
        )
        (two.copy.root / "tasks/1.2.4.json").unlink()
        assert (await two.sync()).is_clean
        assert (two.value("1.2.4")["title"], two.value("1.2.5")["title"]) == ("mine", "yours")

    played(scenario)


@pytest.mark.rule("WBS-13")
def test_deletions() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        for checkout, id_ in ((one, "1.2.3"), (two, "1.2.1")):
            (checkout.copy.root / f"tasks/{id_}.json").unlink()
        assert (await one.sync()).sent == ["tasks/1.2.3.json"]
        assert (await two.sync()).is_clean
        assert not (two.copy.root / "tasks/1.2.3.json").exists()
        await one.sync()
        assert one.value("1.2")["children"] == []
        (one.copy.root / "notes/why.md").unlink()
        two.write("notes/why.md", "Changed.\n")
        assert (await two.sync()).is_clean
        report = await one.sync()
        assert report.conflicts == {"notes/why.md": "it was deleted here and changed in the store"}
        assert (one.copy.root / ".stemma/conflicts/notes/why.md.theirs").read_text() == "Changed.\n"
        assert not (one.copy.root / "notes/why.md").exists()
        two.write("notes/why.md", "Changed twice.\n")
        assert (await one.sync(take_mine=["notes/why.md"])).is_clean
        report = await two.sync()
        assert report.conflicts == {"notes/why.md": "it was changed here and deleted in the store"}
        assert (two.copy.root / "notes/why.md").read_text() == "Changed twice.\n"

    played(scenario)


@pytest.mark.rule("WBS-6", "WBS-13")
def test_a_task_that_others_need_is_not_deleted() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        (one.copy.root / "tasks/1.2.1.json").unlink()
        (two.copy.root / "tasks/1.2.json").unlink()
        assert (await one.sync()).refused == {"tasks/1.2.1.json": "it cannot be deleted: 1.2.3 depends on it."}
        assert "would have no parent" in (await two.sync()).refused["tasks/1.2.json"]
        for id_ in ("1.2", "1.2.1", "1.2.3"):
            (two.copy.root / f"tasks/{id_}.json").unlink(missing_ok=True)
        assert (await two.sync()).is_clean, "all of them together can go"
        await one.sync()
        assert sorted(one.files()) == ["notes/why.md", "task-index.json", "tasks/1.json"]

    played(scenario)


@pytest.mark.rule("WBS-6")
def test_dependencies_that_would_close_a_circle_together() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        one.task("1.2.1", dependencies=["1"])
        one.task("1.2.3", dependencies=["1.2.1"])
        await one.sync()
        await two.sync()
        two.task("1", dependencies=["1.2.3"])
        assert (await two.sync()).refused == {"tasks/1.json": "it is in a circle of dependencies."}
        assert (await one.sync()).is_clean
        two.task("1", dependencies=[])
        assert (await two.sync()).is_clean

    played(scenario)


@pytest.mark.rule("WBS-15")
def test_a_status_written_to_a_parent_is_dropped_and_reported() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        one.task("1", status="done", title="kept", children=["1.2", "1.9"])
        report = await one.sync()
        assert report.notes == [
            "tasks/1.json: the status done was dropped. Its children make it pending.",
            "tasks/1.json: children was dropped. It has 1.2.",
        ]
        assert (one.value("1")["status"], one.value("1")["title"]) == ("pending", "kept")
        assert "status" not in (await one.store.read())[paths.PlanFile("task", "1")]
        assert "status" not in (await one.store.read())[paths.PlanFile("task", "1.2")], "since it has children"

    played(scenario)


@pytest.mark.rule("WBS-14")
def test_a_bad_file_stops_only_itself() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        bad: dict[str, str | bytes] = {
            "tasks/1.2.4.json": '{"id": "1.2.4"', "tasks/2.json": "[]", "tasks/3.json": "null", "tasks/01.json": "{}",
            "tasks/1.2.3.4.json": "{}", "tasks/4.json": '{"id": "4", "type": "task", "status": "pending"}',
            "tasks/5.json": '{"id": "6", "type": "epic", "status": "pending"}', "tasks/6.json": b"\xff",
            "tasks/7.1.json": '{"id": "7.1", "type": "feature", "status": "pending"}', "notes/x.md": b"\xff",
            "tasks/8.json": '{"id": "8", "type": "epic", "status": "pending", "dependencies": ["8"]}',
            "tasks/9.json": '{"id": "9", "type": "epic", "status": "pending", "dependencies": ["99"]}',
            "tasks/10.json": '{"id": "10", "type": "epic", "status": "finished"}', "x.sqlite": "", "y\n.md": "",
            "tasks/11.json": '{"id": "11", "type": "epic", "status": "pending", "n": 123456789012345678901234567890}',
        }  # fmt: skip
        for path, text in bad.items():
            one.write(path, text)
        (one.copy.root / "link.md").symlink_to("/etc/hostname")
        one.task("1.2.1", title="good")
        report = await one.sync()
        assert report.refused.keys() == bad.keys() | {"link.md"}
        assert report.sent == ["tasks/1.2.1.json"]
        for path, text in bad.items():
            assert one.copy.read(path) == (text.encode() if isinstance(text, str) else text)
        assert (await two.sync()).received == ["tasks/1.2.1.json"]

    played(scenario)


@pytest.mark.rule("WBS-14")
def test_line_endings_and_a_byte_order_mark_are_taken_in() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        one.write("tasks/1.2.1.json", b'\xef\xbb\xbf{"id": "1.2.1",\r\n"type": "task", "status": "done"}\r\n')
        one.write("notes/dos.txt", b"a\r\nb\r\n")
        assert (await one.sync()).is_clean
        await two.sync()
        assert (two.value("1.2.1")["status"], two.value("1.2")["status"]) == ("done", "in-progress")
        assert (two.copy.root / "notes/dos.txt").read_bytes() == b"a\r\nb\r\n"
        assert one.findings() == []

    played(scenario)


def test_an_index_by_hand_becomes_tasks() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        entry = {
            "id": "1",
            "type": "epic",
            "status": "pending",
            "parent": None,
            "children": ["1.1"],
            "dependencies": [],
        }
        child = {"id": "1.1", "type": "feature", "status": "done", "parent": "1", "children": [], "dependencies": []}
        one.write("task-index.json", json.dumps({"version": "2.0.0", "tasks": [entry, child]}))
        assert (await one.sync()).is_clean
        assert (one.value("1")["status"], one.value("1.1")["status"]) == ("done", "done")
        assert json.loads(one.files()["task-index.json"])["version"] == "2.0.0"
        (one.copy.root / "task-index.json").unlink()

    played(scenario)


def test_an_edit_of_the_index_is_set_aside_and_reported() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        edited = one.files()["task-index.json"].replace(b'"pending"', b'"done"')
        one.write("task-index.json", edited)
        report = await one.sync()
        assert len(report.notes) == 1
        assert (one.copy.root / ".stemma/conflicts/task-index.json.mine").read_bytes() == edited
        assert one.findings() == []

    played(scenario)


def test_a_dry_run_changes_nothing() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        one.task("1.2.3", title="new")
        before, stored = one.everything(), await one.store.read()
        assert (await one.sync(is_dry=True)).sent == ["tasks/1.2.3.json"]
        assert (one.everything(), await one.store.read()) == (before, stored)

    played(scenario)


@pytest.mark.rule("WBS-12")
def test_a_lost_base_loses_nothing() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        two.task("1.2.3", title="edited")
        for file in (two.copy.root / ".stemma/base").rglob("*.json"):
            file.unlink()
        report = await two.sync()
        assert report.conflicts == {"tasks/1.2.3.json": "both sides made it"}
        assert two.value("1.2.3")["title"] == "edited"

    played(scenario)


@pytest.mark.rule("WBS-1")
def test_what_the_store_says_cannot_lead_out_of_the_directory() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        nsh = one.store._nsh
        space = one.store._space
        async with space.transaction() as tx:
            for path in (
                "../../out.md",
                "lib/x.md",
                ".stemma/allowed-tests.txt",
                "%2e%2e/out.md",
                "x.sh",
                "a/../b.md",
            ):
                tx.set(f"urn:file:{nsh}:{path.replace('%', '%25')}", {"v": 1, "text": "bad"})
            tx.set(f"urn:file:{nsh}:ok.md", {"v": 1, "text": 5})
            tx.set(f"urn:task:{nsh}:..%2f1", {"id": "x"})
        await tx.confirmed()
        before = set(one.copy.project.parent.rglob("*"))
        assert (await one.sync()).received == []
        assert set(one.copy.project.parent.rglob("*")) == before

    played(scenario)


@pytest.mark.rule("WBS-12")
def test_a_git_merge_of_the_directory_and_then_a_sync() -> None:
    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)

        def git(checkout: Checkout, *words: str) -> None:
            who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
            command = ["git", *who, "-C", str(checkout.copy.project), *words]
            subprocess.run(command, check=True, capture_output=True)  # noqa: S603  # the words below

        git(one, "init", "-q", "-b", "main")
        git(one, "add", "-A")
        git(one, "commit", "-qm", "plan")
        git(one, "checkout", "-qb", "other")
        one.task("1.2.4", title="on a branch")
        git(one, "add", "-A")
        git(one, "commit", "-qm", "branch")
        git(one, "checkout", "-q", "main")
        two.task("1.2.1", agent="bob")
        await two.sync()
        await one.sync()
        git(one, "commit", "-qam", "synced")
        git(one, "merge", "-q", "other")
        assert (await one.sync()).sent == ["tasks/1.2.4.json"]
        await two.sync()
        assert two.value("1.2.4")["title"] == "on a branch"

    played(scenario)


# ---------------------------------------------------------------- random edits against an oracle

FIELDS = ("owner", "agent", "description", "zebra")
TASKS = st.sampled_from(["1.2.1", "1.2.3", "1"])
EDITS = st.lists(
    st.tuples(st.sampled_from("ab"), TASKS, st.sampled_from(FIELDS), st.integers(0, 3)),
    max_size=8,
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.lists(EDITS, max_size=3))
@pytest.mark.rule("WBS-12")
def test_random_edits_on_both_sides_lose_nothing(rounds: list[list[tuple[str, str, str, int]]]) -> None:
    """The oracle merges fields one by one. After a conflict the second takes its own side."""

    async def scenario(one: Checkout, two: Checkout) -> None:
        await shared(one, two)
        sides = {"a": one, "b": two}
        store: dict[tuple[str, str], Any] = {}
        for edits in rounds:
            base = dict(store)
            mine = {name: dict(base) for name in sides}
            for name, id_, field, value in edits:
                sides[name].task(id_, **{field: value})
                mine[name][id_, field] = value
            store |= {key: value for key, value in mine["a"].items() if base.get(key) != value}
            changed = {key: value for key, value in mine["b"].items() if base.get(key) != value}
            clashing = {key[0] for key, value in changed.items() if store.get(key) not in (base.get(key), value)}
            store |= changed
            assert (await one.sync()).is_clean
            report = await two.sync()
            assert set(report.conflicts) == {f"tasks/{id_}.json" for id_ in clashing}
            if clashing:
                assert (await two.sync(take_mine=list(report.conflicts))).is_clean
            await one.sync()
            assert one.files() == two.files()
        for (id_, field), value in store.items():
            assert one.value(id_)[field] == value

    played(scenario)
