"""`subagent-validation.sh`: a hook that finishes tasks, and runs only what a person allowed."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from task_projects import TaskProject

HOOK = "subagent-validation.sh"
TOUCH = 'touch "$HOME/ran"'


@pytest.fixture
def project(tmp_path: Path) -> TaskProject:
    """Ada works on 1.1.1, bob on 1.1.2."""
    made = TaskProject(tmp_path / "project")
    made.task("1")
    made.task("1.1")
    made.task("1.1.1", status="in-progress", agent="ada", tests=[TOUCH], deliverables=["out.txt"])
    made.task("1.1.2", status="in-progress", agent="bob")
    assert made.script("memory-rebuild-index.sh").returncode == 0
    return made


def allow(project: TaskProject, *commands: str) -> None:
    project.write(".stemma/allowed-tests", "".join(f"{command}\n" for command in commands))


def stopped(project: TaskProject, agent: str, **more: object) -> CompletedProcess[str]:
    given = {"session_id": "s", "hook_event_name": "SubagentStop", "agent_type": agent}
    return project.script(HOOK, stdin=json.dumps(given | more))


def status(project: TaskProject, id_: str = "1.1.1") -> str:
    assert project.value(f"tasks/{id_}.json")["status"] == project.entry(id_)["status"]
    return str(project.entry(id_)["status"])


@pytest.mark.rule("WBS-10", "WBS-11")
def test_a_test_that_nobody_allowed_is_named_and_nothing_runs(project: TaskProject) -> None:
    allow(project, "true")
    project.task("1.1.1", status="in-progress", agent="ada", tests=["true", TOUCH])
    before = project.everything()
    for ended in (stopped(project, "ada"), project.script(HOOK, "1.1.1")):
        assert f"nobody has allowed the test: {TOUCH}" in ended.stderr
        assert ended.returncode in (1, 2)
        assert project.everything() == before


@pytest.mark.rule("WBS-10")
@pytest.mark.parametrize("allowed", ["touch", TOUCH + " ", " " + TOUCH, TOUCH.upper(), f"x{TOUCH}", ".*", ""])
def test_only_the_exact_text_is_allowed(project: TaskProject, allowed: str) -> None:
    allow(project, allowed)
    assert project.script(HOOK, "1.1.1").returncode == 1
    assert not (project.root / "ran").exists()


@pytest.mark.rule("WBS-10")
@pytest.mark.parametrize("test", ["true\ntouch $HOME/ran", "", "true\r"])
def test_a_test_is_one_line(project: TaskProject, test: str) -> None:
    allow(project, "true", "touch $HOME/ran", "", "true\r")
    project.task("1.1.1", status="in-progress", tests=[test])
    ended = project.script(HOOK, "1.1.1")
    assert (ended.returncode, "not one line of text" in ended.stderr) == (1, True)
    assert not (project.root / "ran").exists()


@pytest.mark.rule("WBS-10", "WBS-11")
def test_a_task_is_done_when_its_tests_pass_and_its_deliverables_exist(project: TaskProject) -> None:
    allow(project, TOUCH)
    missing = stopped(project, "ada")
    assert (missing.returncode, status(project)) == (2, "in-progress")
    assert "the deliverable does not exist: out.txt" in missing.stderr
    (project.root / "out.txt").touch()
    ended = stopped(project, "ada")
    assert (ended.returncode, ended.stdout) == (0, "")
    record = project.value("tasks/1.1.1.json")
    assert record["validationResults"] == {"testsPass": True, "deliverablesExist": True}
    assert record["completedAt"].endswith("Z")
    assert (status(project), status(project, "1.1"), status(project, "1.1.2")) == (
        "done",
        "in-progress",
        "in-progress",
    )
    assert project.script("memory-validate.sh").returncode == 0
    assert "done already" in project.script(HOOK, "1.1.1").stderr


@pytest.mark.rule("WBS-10")
def test_a_test_runs_in_the_project_without_the_secrets_of_the_store(project: TaskProject) -> None:
    test = 'pwd > where; env | grep -c -e SECRET -e STEMMADB_ >> where; test -z "$(cat)"'
    project.task("1.1.1", status="in-progress", tests=[test])
    allow(project, test)
    secrets = {"AGENT_MEMORY_SECRET": "s", "STEMMADB_MEMORY": "/x", "STEMMADB_SECRET": "s"}
    ended = project.run("bash", "-c", f"cd / && {project.memory}/lib/{HOOK} 1.1.1", stdin="typed", **secrets)
    assert ended.returncode == 0, ended.stderr
    assert (project.root / "where").read_text() == f"{project.root}\n0\n"


@pytest.mark.rule("WBS-10")
def test_a_test_that_fails_leaves_the_task_and_shows_its_output(project: TaskProject) -> None:
    allow(project, "echo broken pipe; exit 3")
    project.task("1.1.1", status="in-progress", tests=["echo broken pipe; exit 3"])
    before = project.everything()
    ended = project.script(HOOK, stdin="")
    assert ended.returncode == 2
    assert "the test failed with 3" in ended.stderr
    assert "broken pipe" in ended.stderr
    assert project.value("tasks/1.1.1.json")["status"] == "in-progress"
    assert before[".claude/memory/tasks/1.1.1.json"] == project.everything()[".claude/memory/tasks/1.1.1.json"]


@pytest.mark.rule("WBS-10")
@pytest.mark.parametrize("deliverable", ["/etc/passwd", "../secret", "link", "a/../../secret", "."])
def test_a_deliverable_lies_inside_the_project(project: TaskProject, tmp_path: Path, deliverable: str) -> None:
    (tmp_path / "secret").touch()
    (project.root / "a").mkdir()
    (project.root / "link").symlink_to(tmp_path / "secret")
    project.task("1.1.1", status="in-progress", deliverables=[deliverable])
    ended = project.script(HOOK, "1.1.1")
    assert (ended.returncode, "not inside the project" in ended.stderr) == (1, True)
    assert project.value("tasks/1.1.1.json")["status"] == "in-progress"


@pytest.mark.rule("WBS-11")
def test_only_the_tasks_of_the_agent_count_and_without_one_all_do(project: TaskProject) -> None:
    assert stopped(project, "carol").returncode == 0
    assert stopped(project, "bob").returncode == 0
    assert (status(project, "1.1.2"), status(project)) == ("done", "in-progress")
    assert project.script(HOOK, stdin="{}").returncode == 2
    assert project.script(HOOK, stdin=" \n").returncode == 2


@pytest.mark.rule("WBS-11")
def test_an_agent_that_was_sent_back_may_stop_if_only_a_person_can_help(project: TaskProject) -> None:
    assert stopped(project, "ada", stop_hook_active=False).returncode == 2
    again = stopped(project, "ada", stop_hook_active=True)
    assert (again.returncode, "nobody has allowed" in again.stderr) == (0, True)
    allow(project, TOUCH)
    assert stopped(project, "ada", stop_hook_active=True).returncode == 2, "the deliverable is its own matter"


@pytest.mark.parametrize("given", ["{", "[]", "3"])
def test_input_that_is_no_object_is_an_error(project: TaskProject, given: str) -> None:
    ended = project.script(HOOK, stdin=given)
    assert (ended.returncode, ended.stderr) == (1, "ERROR: The input of the hook is not a JSON object.\n")


@pytest.mark.parametrize("id_", ["../x", "1/../1.1.1", "9", "1.1", ""])
def test_what_cannot_be_finished_is_refused(project: TaskProject, id_: str) -> None:
    before = project.everything()
    assert project.script(HOOK, id_).returncode == (1 if id_ else 0)
    assert project.everything() == before
