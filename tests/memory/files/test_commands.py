"""`stemmadb memory files ...`: the commands on a project, and the example of two checkouts against a real server."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import requirements
from command_line import here
from served import Process
from stemmadb.memory.interfaces.files import project as projects
from stemmadb.memory.interfaces.files.working_copy import WorkingCopy
from stemmadb.memory.rules.directories import of_directory
from stemmadb.memory.rules.namespaces import read_name
from stemmadb.memory.rules.refusals import InvalidRequest
from task_projects import LIB, ROOT, TaskProject

FILES = ("memory", "files")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskProject:
    """A project that `init` made, with a task that waits for another."""
    for name in ("CLAUDE_PROJECT_DIR", "STEMMADB_SPACE", "STEMMADB_URL", "AGENT_MEMORY_SECRET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("STEMMADB_HOME", str(tmp_path / "keys"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    made = TaskProject(tmp_path / "project")
    monkeypatch.chdir(made.root)
    assert here(*FILES, "init", "--no-sync").code == 0
    made.task("1")
    made.task("1.1")
    made.task("1.1.1", tests=['touch "$HOME/pwned"'])
    made.task("1.1.2", dependencies=["1.1.1"])
    assert here(*FILES, "rebuild-index").code == 0
    return made


def test_init_writes_the_scripts_and_an_index_and_can_run_again(project: TaskProject) -> None:
    for script in LIB.glob("*.sh"):
        copied = project.memory / "lib" / script.name
        assert copied.read_bytes() == script.read_bytes()
        assert copied.stat().st_mode & stat.S_IXUSR
    assert {script.name for script in LIB.glob("*")} == set(projects.SCRIPTS)
    before = project.everything()
    said = here(*FILES, "init", "--no-sync")
    assert (said.code, "SubagentStop" in said.out) == (0, True)
    assert project.everything() == before
    assert not (project.root / ".claude/settings.json").exists()


@pytest.mark.rule("WBS-11")
def test_the_hook_is_written_only_if_asked_for_and_beside_what_is_there(project: TaskProject) -> None:
    settings = project.root / ".claude/settings.json"
    settings.write_text('{"model": "x", "hooks": {"Stop": []}}')
    for _ in range(2):
        assert here(*FILES, "init", "--no-sync", "--hooks").code == 0
    value = json.loads(settings.read_text())
    assert (value["model"], value["hooks"]["Stop"], len(value["hooks"]["SubagentStop"])) == ("x", [], 1)
    command = value["hooks"]["SubagentStop"][0]["hooks"][0]["command"]
    ended = project.run("bash", "-c", command, CLAUDE_PROJECT_DIR=str(project.root))
    assert ended.returncode == 0, ended.stderr
    for broken in ("{", "[]", '{"hooks": 3}'):
        settings.write_text(broken)
        assert here(*FILES, "init", "--no-sync", "--hooks").code == 1
        assert settings.read_text() == broken


@pytest.mark.rule("WBS-7")
def test_next_and_start(project: TaskProject) -> None:
    assert here(*FILES, "next").out == "1.1.1\n"
    for id_, why in (("1.1", "not a leaf"), ("1.1.2", "blocked by 1.1.1"), ("9", "no task 9"), ("../1", "no task")):
        before = project.everything()
        said = here(*FILES, "start", id_)
        assert (said.code, said.err.startswith("ERROR: "), why in said.err) == (1, True, True)
        assert project.everything() == before
    assert here(*FILES, "start", "1.1.1").code == 0
    assert project.value("tasks/1.1.1.json")["status"] == project.entry("1.1.1")["status"] == "in-progress"
    said = here(*FILES, "next")
    assert (said.code, said.out, said.err) == (1, "", "")


@pytest.mark.rule("WBS-10")
def test_finish_runs_only_what_was_allowed(project: TaskProject, tmp_path: Path) -> None:
    before = project.everything()
    said = subprocess.run(  # noqa: S603  # the command, whose child writes to the real stderr
        [sys.executable, "-m", "stemmadb.client.cli", *FILES, "finish", "1.1.1"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 1
    assert 'nobody has allowed the test: touch "$HOME/pwned"' in said.stderr
    assert (project.everything(), (tmp_path / "home/pwned").exists()) == (before, False)
    assert here(*FILES, "allow", 'touch "$HOME/pwned"').code == 0
    assert here(*FILES, "allow", 'touch "$HOME/pwned"').out.startswith("It was allowed already")
    assert here(*FILES, "finish", "1.1.1").code == 0
    assert (tmp_path / "home/pwned").exists()
    assert project.value("tasks/1.1.1.json")["status"] == "done"
    assert here(*FILES, "validate").code == 0
    assert here(*FILES, "next").out == "1.1.2\n"


@pytest.mark.rule("WBS-10")
def test_finish_uses_the_script_of_the_package_and_not_that_of_the_project(
    project: TaskProject, tmp_path: Path
) -> None:
    (project.memory / "lib/subagent-validation.sh").write_text("#!/bin/bash\ntouch $HOME/pwned\n")
    assert here(*FILES, "finish", "1.1.1").code == 1
    assert not (tmp_path / "home/pwned").exists()


@pytest.mark.parametrize("command", ["", " ", "a\nb", "a\rb"])
def test_a_test_that_is_not_one_line_cannot_be_allowed(project: TaskProject, command: str) -> None:
    said = here(*FILES, "allow", command)
    assert (said.code, "one line" in said.err) == (1, True)
    assert not (project.memory / ".stemma/allowed-tests").exists()


@pytest.mark.rule("WBS-8", "WBS-9")
def test_validate_and_rebuild_say_what_the_scripts_say(project: TaskProject) -> None:
    project.task("1.1.1", status="done", type="epic")
    project.task("2.1")
    said = here(*FILES, "validate")
    assert (said.code, said.err) == (1, project.script("memory-validate.sh").stderr)
    before = project.everything()
    said = here(*FILES, "rebuild-index")
    assert said.code == 1
    assert set(said.err.splitlines()) < set(project.script("memory-rebuild-index.sh").stderr.splitlines())
    assert project.everything() == before


def test_a_directory_without_a_plan_is_refused(tmp_path: Path, project: TaskProject) -> None:
    (tmp_path / "empty").mkdir()
    for words in (("validate",), ("next",), ("start", "1"), ("rebuild-index",), ("allow", "x")):
        said = here(*FILES, *words, tmp_path / "empty")
        assert (said.code, "files init" in said.err) == (1, True), words
    assert list((tmp_path / "empty").iterdir()) == []
    assert here(*FILES, "next", tmp_path / "none").code == 1


# ---------------------------------------------------------------- which namespace


@pytest.mark.parametrize(
    ("origin", "name"),
    [("git@github.com:acme/api.git", "custom:acme.api"), ("https://host/acme/api", "custom:acme.api"),
     ("ssh://git@host:22/acme/api.git/", "custom:acme.api"), ("https://u:p@host/a/b/c.git", "custom:a.b.c"),
     ("../api.git", "custom:api"), ("/srv/git/api.git", "custom:srv.git.api")],
)  # fmt: skip
def test_the_namespace_is_the_path_of_the_remote(origin: str, name: str) -> None:
    assert of_directory(origin, "/src/x", "/home/ada") == name


@given(st.text("ab/:@.~ \u00fc%", max_size=12), st.text("ab/ü ", max_size=8))
def test_every_directory_has_a_valid_namespace_that_is_always_the_same(origin: str, path: str) -> None:
    name = of_directory(origin, f"/x/{path}", "/home/ada")
    assert read_name(name) == name == of_directory(origin, f"/x/{path}", "/home/ada")


def test_home_and_the_root_have_no_namespace() -> None:
    for path in ("/", "/home/ada"):
        with pytest.raises(InvalidRequest, match="--ns"):
            of_directory(None, path, "/home/ada")


def test_a_namespace_that_init_was_given_stays(tmp_path: Path) -> None:
    copy = WorkingCopy(tmp_path)
    projects.install(copy, "team:blue")
    assert projects.namespace_of(copy, None) == "team:blue"
    assert projects.namespace_of(copy, "team:red") == "team:red"
    (copy.root / ".stemma/settings.json").write_text("{}")
    with pytest.raises(InvalidRequest, match="files init"):
        projects.namespace_of(copy, None)


# ---------------------------------------------------------------- with a server


@pytest.mark.rule("WBS-12", "WBS-13")
def test_the_example_of_two_checkouts() -> None:
    requirements.need("jq", "the example runs the scripts")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ended = subprocess.run(  # noqa: S603  # our own example
        [str(ROOT / "examples/memory/two_checkouts.sh")],
        env=environment, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.endswith("== all as expected\n")


def test_sync_says_what_is_wrong_and_exits_with_1(project: TaskProject, tmp_path: Path) -> None:
    server = Process(tmp_path / "data")
    server.start()
    try:
        where = ("--url", server.address, "--space", "memory")
        assert here("space", "create", "memory", "--url", server.address).code == 0
        project.write("tasks/2.json", "{")
        said = here(*FILES, "sync", *where, "--json")
        assert (said.code, said.json["refused"]) == (1, {"tasks/2.json": "is not one JSON value."})
        assert len(said.json["sent"]) == 4
        (project.memory / "tasks/2.json").unlink()
        assert here(*FILES, "sync", "--dry-run", *where).out == "0 would be sent\n"
        assert here(*FILES, "sync", *where).code == 0
        assert here(*FILES, "init", tmp_path / "home", "--ns", "custom:other", *where).code == 0
        assert here(*FILES, "sync", "--url", server.address, "--space", "nowhere").code != 0
    finally:
        server.kill()
