"""`wbs-helpers.sh`, `memory-validate.sh` and `memory-rebuild-index.sh`, alone and against the rules in Python."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stemmadb.memory.rules.tasks import file_text, findings, index
from stemmadb.memory.rules.tasks.file_text import FileText
from stemmadb.memory.rules.tasks.plan import TaskPlan
from task_plans import broken_files, plans
from task_projects import TaskProject

SLOW = settings(max_examples=12, deadline=None)
"""Each example runs a bash and several jq."""


@pytest.fixture
def project(tmp_path: Path) -> TaskProject:
    """Epic 1 with a feature and two tasks, the second of which waits for the first."""
    made = TaskProject(tmp_path / "project")
    made.task("1", deliverables=["README.md"])
    made.task("1.1")
    made.task("1.1.9", title="first")
    made.task("1.1.10", dependencies=["1.1.9"])
    made.task("1.2")
    made.write("task-index.json", index.index_text(TaskPlan(findings.entities(loaded(made)[0]))))
    return made


def written(project: TaskProject, records: dict[str, Any]) -> None:
    for file in (project.memory / "tasks").glob("*"):
        file.unlink()
    for name, record in records.items():
        project.write(f"tasks/{name}.json", json.dumps(record))


def loaded(project: TaskProject) -> tuple[dict[str, FileText], FileText | None]:
    files = {file.name: file_text.read_json(file.read_bytes()) for file in (project.memory / "tasks").glob("*.json")}
    listed = project.memory / "task-index.json"
    return files, file_text.read_json(listed.read_bytes()) if listed.exists() else None


def named(project: TaskProject) -> list[str]:
    """What memory-validate.sh says, after checking that the rules in Python say the same."""
    before = project.everything()
    ended = project.script("memory-validate.sh")
    found = [line.removeprefix("ERROR: ") for line in ended.stderr.splitlines()]
    assert ended.returncode == (1 if found else 0), ended
    assert found == findings.of_plan(*loaded(project))
    assert project.everything() == before
    return found


# ---------------------------------------------------------------- helpers


def lines(project: TaskProject, command: str) -> list[str]:
    ended = project.bash(command)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def reason(project: TaskProject, command: str) -> str:
    before = project.everything()
    ended = project.bash(command)
    assert (ended.returncode, ended.stdout) == (1, ""), ended
    assert project.everything() == before
    return ended.stderr


@pytest.mark.rule("WBS-4")
def test_the_index_is_read_as_it_is(project: TaskProject) -> None:
    assert lines(project, "get_parent 1.1.9") == ["1.1"]
    assert lines(project, "get_parent 1") == []
    assert lines(project, "get_children 1") == ["1.1", "1.2"]
    assert lines(project, "get_children 1.2") == []
    assert lines(project, "get_leaf_tasks") == ["1.1.9", "1.1.10", "1.2"]
    for command in ("get_parent 7", "get_children '1\" or true'", "calculate_rollup 7", "propagate_status_up 7"):
        assert reason(project, command).startswith("ERROR: There is no task ")
    for command in ("get_parent", "get_children 1 2", "get_leaf_tasks x"):
        assert "argument" in reason(project, command)


@pytest.mark.parametrize("text", [None, "{", "[]", '{"tasks": 3}', '{"tasks": [3]}', ""])
def test_without_an_index_every_question_fails(project: TaskProject, text: str | None) -> None:
    (project.memory / "task-index.json").unlink()
    if text is not None:
        project.write("task-index.json", text)
    for command in (
        "get_parent 1",
        "get_children 1",
        "get_leaf_tasks",
        "find_next_available_task",
        "start_task 1.1.9",
    ):
        assert "ERROR: " in reason(project, command)


@pytest.mark.rule("WBS-7")
def test_the_next_task_waits_for_its_dependencies(project: TaskProject) -> None:
    assert lines(project, "find_next_available_task") == ["1.1.9"]
    assert lines(project, "start_task 1.1.9") == []
    assert project.value("tasks/1.1.9.json")["status"] == project.entry("1.1.9")["status"] == "in-progress"
    assert project.value("tasks/1.1.9.json")["startedAt"].endswith("Z")
    assert reason(project, "find_next_available_task") == ""
    assert reason(project, "start_task 1.1.10") == "ERROR: 1.1.10 is blocked by 1.1.9.\n"
    assert "not a leaf" in reason(project, "start_task 1.1")
    done = "jq '.status = \"done\"' .claude/memory/tasks/1.1.9.json > x && mv x .claude/memory/tasks/1.1.9.json"
    assert project.run("bash", "-c", done).returncode == 0
    assert project.script("memory-rebuild-index.sh").returncode == 0
    assert lines(project, "find_next_available_task") == ["1.1.10"]
    assert "done already" in reason(project, "start_task 1.1.9")


@pytest.mark.rule("WBS-5")
def test_roll_up_writes_index_and_entity(project: TaskProject) -> None:
    project.task("1.1.9", status="done")
    index_ = project.value("task-index.json")
    index_["tasks"][2]["status"] = "done"
    project.write("task-index.json", json.dumps(index_))
    assert lines(project, "calculate_rollup 1.1") == ["in-progress"]
    assert project.entry("1.1")["status"] == project.value("tasks/1.1.json")["status"] == "in-progress"
    assert project.entry("1.1")["progress"] == {"completed": 1, "total": 2}
    assert lines(project, "propagate_status_up 1.1.9") == []
    assert project.entry("1")["progress"] == {"completed": 1, "total": 3}
    assert project.entry("1")["status"] == "pending", "no direct child is done"
    assert lines(project, "calculate_rollup 1.2") == ["pending"], "without children it keeps its own"
    assert named(project) == []


@SLOW
@given(plans(at_least=1), st.data())
@pytest.mark.rule("WBS-5", "WBS-7")
def test_the_helpers_answer_as_the_rules_in_python(records: dict[str, Any], data: st.DataObject) -> None:
    with TemporaryDirectory() as directory:
        project = TaskProject(Path(directory) / "project")
        written(project, records)
        assert project.script("memory-rebuild-index.sh").returncode == 0
        plan = TaskPlan(records)
        next_one = project.bash("find_next_available_task")
        assert next_one.stdout.split() == ([plan.next_available()] if plan.next_available() else [])
        id_ = data.draw(st.sampled_from(sorted(records)))
        assert lines(project, f"calculate_rollup {id_}") == [plan.status(id_)]
        assert lines(project, f"get_children {id_}") == list(plan.children(id_))


# ---------------------------------------------------------------- rebuild


@SLOW
@given(plans())
@pytest.mark.rule("WBS-8")
def test_a_rebuilt_index_has_the_bytes_of_the_rules_in_python(records: dict[str, Any]) -> None:
    with TemporaryDirectory() as directory:
        project = TaskProject(Path(directory) / "project")
        written(project, records)
        if not records:
            (project.memory / "tasks").mkdir()
        ended = project.script("memory-rebuild-index.sh")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert (project.memory / "task-index.json").read_text() == index.index_text(TaskPlan(records))


@pytest.mark.rule("WBS-8")
def test_a_deleted_index_is_the_same_again_and_a_version_is_kept(project: TaskProject) -> None:
    first = (project.memory / "task-index.json").read_bytes()
    (project.memory / "task-index.json").unlink()
    assert project.script("memory-rebuild-index.sh").returncode == 0
    assert (project.memory / "task-index.json").read_bytes() == first
    project.write("task-index.json", first.replace(b'"1.0.0"', b'"2.5.0"'))
    assert project.script("memory-rebuild-index.sh").returncode == 0
    assert (project.memory / "task-index.json").read_bytes() == first.replace(b'"1.0.0"', b'"2.5.0"')


@pytest.mark.rule("WBS-8")
@pytest.mark.parametrize(
    ("name", "record", "why"),
    [("1.3.1", {"type": "task"}, "its parent 1.3 does not exist"), ("1.2", {"type": "task"}, "type must be feature"),
     ("1.1.9", {"type": "task", "dependencies": ["1.1.10"]}, "circle"), ("1.2", {"id": "1.1"}, 'id must be "1.2"'),
     ("1.2", {"type": "feature", "parent": "2"}, "parent must be"), ("01", {}, "the name must be a task id")],
)  # fmt: skip
def test_contradicting_entities_are_named_and_the_index_stays(
    project: TaskProject, name: str, record: dict[str, Any], why: str
) -> None:
    project.write(f"tasks/{name}.json", json.dumps({"id": name, "status": "pending"} | record))
    before = project.everything()
    ended = project.script("memory-rebuild-index.sh")
    assert ended.returncode == 1
    assert f"ERROR: tasks/{name}.json: " in ended.stderr
    assert why in ended.stderr
    assert project.everything() == before


def test_an_index_without_task_files_is_not_emptied(project: TaskProject) -> None:
    shutil.rmtree(project.memory / "tasks")
    before = project.everything()
    ended = project.script("memory-rebuild-index.sh")
    assert (ended.returncode, project.everything()) == (1, before)
    assert "no files in tasks/" in ended.stderr
    assert named(project) == []


# ---------------------------------------------------------------- validate

Break = Callable[[TaskProject], object]


def edited(id_: str, **fields: Any) -> Break:
    def edit(project: TaskProject) -> None:
        record = project.value(f"tasks/{id_}.json") | fields
        project.write(f"tasks/{id_}.json", json.dumps(record))

    return edit


def listed(id_: str, **fields: Any) -> Break:
    def edit(project: TaskProject) -> None:
        value = project.value("task-index.json")
        value["tasks"] = [entry | fields if entry["id"] == id_ else entry for entry in value["tasks"]]
        project.write("task-index.json", json.dumps(value))

    return edit


def text(name: str, content: str) -> Break:
    return lambda project: project.write(name, content)


BREAKS: list[tuple[Break, str]] = [
    (edited("1.1", type="task"), "tasks/1.1.json: type must be feature at depth 2."),
    (edited("1.1.9", type="epic"), "tasks/1.1.9.json: type must be task at depth 3."),
    (edited("1.2", status="finished"), "tasks/1.2.json: status must be pending, in-progress or done."),
    (edited("1.2", parent="2"), 'tasks/1.2.json: parent must be "1".'),
    (edited("1", parent="0"), "tasks/1.json: parent must be null."),
    (edited("1", children=["1.1"]), 'tasks/1.json: children lacks "1.2".'),
    (edited("1", children=["1.1", "1.2", "1.9"]), 'tasks/1.json: children lists "1.9", which is no child of it.'),
    (edited("1", children=["1.1", "1.2", "1.2"]), 'tasks/1.json: children lists "1.2" twice.'),
    (lambda project: project.task("3.1"), "tasks/3.1.json: its parent 3 does not exist."),
    (edited("1.2", dependencies=["9"]), 'tasks/1.2.json: depends on "9", which does not exist.'),
    (edited("1.2", dependencies=["1.2"]), "tasks/1.2.json: depends on itself."),
    (edited("1.2", dependencies=["1", "1"]), 'tasks/1.2.json: lists the dependency "1" twice.'),
    (edited("1.1.9", dependencies=["1.1.10"]), "tasks/1.1.9.json: is in a circle of dependencies."),
    (edited("1.2", dependencies="1"), "tasks/1.2.json: dependencies must be a list of task ids."),
    (edited("1", status="done"), "tasks/1.json: status must be pending, as its children say."),
    (edited("1.2", startedAt="yesterday"), "tasks/1.2.json: startedAt must be null or a UTC time such as "),
    (edited("1.2", completedAt="2025-10-01T10:30:00+01:00"), "tasks/1.2.json: completedAt must be null or a UTC "),
    (edited("1.2", startedAt="2025-10-02T00:00:00Z", completedAt="2025-10-01T00:00:00Z"),
     "tasks/1.2.json: completedAt is before startedAt."),
    (edited("1.2", tests="npm test"), "tasks/1.2.json: tests must be a list of texts."),
    (edited("1.2", id="1.3"), 'tasks/1.2.json: id must be "1.2", as the name says.'),
    (text("tasks/1.2.3.4.json", "{}"), "tasks/1.2.3.4.json: the name must be a task id"),
    (text("tasks/1.2.json", '{"id": "1.'), "tasks/1.2.json: is not one JSON value."),
    (text("tasks/1.2.json", ""), "tasks/1.2.json: is not one JSON value."),
    (text("tasks/1.2.json", "{} {}"), "tasks/1.2.json: is not one JSON value."),
    (text("tasks/1.2.json", "[]"), "tasks/1.2.json: must be an object."),
    (text("tasks/1.3.json", '\ufeff{"id": "1.3"}'), "tasks/1.3.json: begins with a byte order "),
    (text("tasks/1.3.json", '{"id":\r\n"1.3"}'), "tasks/1.3.json: has CRLF line endings. Use LF."),
    (listed("1.2", status="done"), "task-index.json: 1.2: status is not that of tasks/1.2.json."),
    (listed("1", deliverables=["x"]), "task-index.json: 1: deliverables is not that of tasks/1.json."),
    (listed("1.2", dependencies=["1.1"]), "task-index.json: 1.2: dependencies is not that of tasks/1.2.json."),
    (listed("1", children=["1.1"]), 'task-index.json: 1: children lacks "1.2".'),
    (listed("1.2", parent=None), 'task-index.json: 1.2: parent must be "1".'),
    (listed("1.2", id="1.7"), "task-index.json: lacks 1.2."),
    (listed("1.2", id="1.7"), "task-index.json: 1.7: has no file tasks/1.7.json."),
    (listed("1.2", id="1.1"), "task-index.json: 1.1 is listed twice."),
    (listed("1.2", id="1.x"), "task-index.json: has an id that is no task id such as 1.2.3."),
    (text("task-index.json", '{"version": 1, "tasks": []}'), "task-index.json: version must be"),
    (text("task-index.json", "{}"), "task-index.json: must be an object with a list of tasks."),
    (text("task-index.json", "{"), "task-index.json: is not one JSON value."),
    (lambda project: (project.memory / "task-index.json").unlink(), "task-index.json: does not exist. Rebuild it."),
]  # fmt: skip


@pytest.mark.rule("WBS-4", "WBS-5", "WBS-6", "WBS-9")
@pytest.mark.parametrize(("broken", "finding"), BREAKS, ids=[finding for _, finding in BREAKS])
def test_each_broken_rule_is_named(project: TaskProject, broken: Break, finding: str) -> None:
    broken(project)
    assert any(line.startswith(finding) for line in named(project))


@pytest.mark.rule("WBS-9")
def test_all_findings_come_at_once(project: TaskProject) -> None:
    assert named(project) == []
    for broken, _ in BREAKS[:3]:
        broken(project)
    project.write("tasks/5.json", "{")
    found = named(project)
    assert {line.split(": ")[0] for line in found} >= {"tasks/1.1.json", "tasks/1.1.9.json", "tasks/5.json"}


@SLOW
@given(broken_files(), broken_files())
@pytest.mark.rule("WBS-9")
def test_script_and_rules_find_the_same_in_anything(files: dict[str, Any], entries: dict[str, Any]) -> None:
    with TemporaryDirectory() as directory:
        project = TaskProject(Path(directory) / "project")
        written(project, files)
        project.write("task-index.json", json.dumps({"version": "1.0.0", "tasks": list(entries.values())}))
        named(project)


def test_a_symlink_in_the_plan_is_named(project: TaskProject, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("{}")
    (project.memory / "tasks/1.3.json").symlink_to(tmp_path / "secret.json")
    ended = project.script("memory-validate.sh")
    assert (ended.returncode, ended.stderr) == (1, "ERROR: tasks/1.3.json: is a symlink.\n")
