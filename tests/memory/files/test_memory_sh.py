"""`memory.sh`: paths, atomic writes and changes by jq, run by a real bash."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from task_projects import LIB, TaskProject


@pytest.fixture
def project(tmp_path: Path) -> TaskProject:
    return TaskProject(tmp_path / "project")


def refused(project: TaskProject, command: str, *arguments: str, **more: str) -> str:
    """The reason; the command must return 1 and change nothing."""
    before = project.everything()
    ended = project.bash(command, *arguments, **more)
    assert (ended.returncode, ended.stdout) == (1, ""), ended
    assert project.everything() == before
    assert any(line.startswith("ERROR: ") for line in ended.stderr.splitlines()), ended.stderr
    return ended.stderr


# ---------------------------------------------------------------- paths

BAD_PATHS = [
    "", "x.json", "../x", "../x.json", "/etc/x.json", "./.claude/memory/x.json", ".claude/memory", ".claude/memory/",
    ".claude/memoryx/x.json", ".claude/memory/../x.json", ".claude/memory/a/../../x.json", ".claude/memory/..json",
    ".claude/memory/%2e%2e/x.json", ".claude/memory/%2E%2E%2Fx.json", ".claude/memory/..%2fx.json",
    ".claude/memory/\\..\\x.json", ".claude/memory/x.sh", ".claude/memory/x", ".claude/memory/x.json.tmp",
    ".claude/memory/x.JSON", ".claude/memory/.json", ".claude/memory/a\nb.json", ".claude/memory/a.json\n",
    ".claude/memory/x.json/", ".claude/memory/\x1b[2J.json", "/.claude/memory/x.json", "~/.claude/memory/x.json",
]  # fmt: skip


@pytest.mark.rule("WBS-1")
@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_bad_path_is_refused_by_every_function(project: TaskProject, path: str) -> None:
    for command in ('memory_write "$1" "{}"', 'memory_read "$1"', 'memory_update_json "$1" .'):
        reason = refused(project, command, path)
        assert "\x1b" not in reason


@pytest.mark.rule("WBS-1")
@pytest.mark.parametrize(
    "path", ["lib/x.md", ".stemma/x.json", ".stemma/base/1.json", "./lib/x.md", "lib//x.md", "in/x.md"]
)
def test_the_scripts_and_the_state_of_the_sync_are_not_for_writing(project: TaskProject, path: str) -> None:
    (project.memory / ".stemma").mkdir()
    (project.memory / "in").symlink_to(project.memory / "lib")
    assert "not for writing" in refused(project, 'memory_write ".claude/memory/$1" "{}"', path)


@pytest.mark.rule("WBS-1")
def test_a_symlink_out_is_refused(project: TaskProject, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.json").write_text("{}")
    (project.memory / "out").symlink_to(outside)
    (project.memory / "x.json").symlink_to(outside / "x.json")
    (project.memory / "gone.json").symlink_to(outside / "gone.json")
    for path in ("out/x.json", "x.json", "gone.json", "out/new/y.json"):
        for command in ('memory_write "$1" "{}"', 'memory_read "$1"', 'memory_update_json "$1" .'):
            refused(project, command, f".claude/memory/{path}")
    assert sorted(os.listdir(outside)) == ["x.json"]


@pytest.mark.rule("WBS-1")
def test_a_tmp_file_that_is_a_symlink_is_not_followed(project: TaskProject, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for path, command in (("a.md", 'memory_write "$1" new'), ("b.json", 'memory_update_json "$1" ".n = 2"')):
        project.write(path, "{}")
        (project.memory / f"{path}.tmp").symlink_to(precious)
        assert project.bash(command, f".claude/memory/{path}").returncode == 0
    assert precious.read_text() == "mine"
    assert project.value("b.json") == {"n": 2}


def test_the_memory_itself_may_be_a_symlink(project: TaskProject, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    project.memory.rename(elsewhere)
    project.memory.symlink_to(elsewhere)
    assert project.bash("memory_write .claude/memory/tasks/a.md hello").returncode == 0
    assert (elsewhere / "tasks/a.md").read_text() == "hello"


def test_paths_are_relative_to_the_project_wherever_the_caller_stands(project: TaskProject, tmp_path: Path) -> None:
    (project.root / "src/deep").mkdir(parents=True)
    inside = 'cd src/deep && memory_write .claude/memory/a.md "$1"'
    assert project.bash(inside, "one").returncode == 0
    assert (project.memory / "a.md").read_text() == "one"
    other = tmp_path / "other"
    (other / ".claude").mkdir(parents=True)
    assert project.bash("memory_write .claude/memory/a.md two", CLAUDE_PROJECT_DIR=str(other)).returncode == 0
    assert ((project.memory / "a.md").read_text(), (other / ".claude/memory/a.md").read_text()) == ("one", "two")
    refused(project, "memory_write .claude/memory/a.md x", CLAUDE_PROJECT_DIR=str(tmp_path / "nowhere"))


# ---------------------------------------------------------------- writing and reading


@pytest.mark.rule("WBS-2")
@pytest.mark.parametrize(
    "content", ["", "x", "x\n\n", "\r\n", "ü 漢 \U0001f600", " \t", "-n", "%s\\n", "a\x7fb\x01", "'\"$HOME`"]
)
def test_content_is_kept_byte_for_byte(project: TaskProject, content: str) -> None:
    path = ".claude/memory/notes/deep/a b.md"
    assert project.bash('memory_write "$1" "$2"', path, content).returncode == 0
    assert (project.root / path).read_bytes() == content.encode()
    ended = subprocess.run(  # noqa: S603  # bytes, not text
        ["bash", "-c", '. .claude/memory/lib/memory.sh; memory_read "$1"', "bash", path],  # noqa: S607
        cwd=project.root, env=project.environment(), capture_output=True, check=True,
    )  # fmt: skip
    assert ended.stdout == content.encode()
    assert not list(project.memory.rglob("*.tmp"))


@pytest.mark.rule("WBS-2")
@pytest.mark.parametrize("content", ["", " ", "{", '{"a": 1} {"a": 2}', "{'a': 1}", "hello", "[1,]", "\ufeff{}"])
def test_json_must_be_one_value(project: TaskProject, content: str) -> None:
    project.write("a.json", '{"old": true}')
    refused(project, 'memory_write .claude/memory/a.json "$1"', content)
    refused(project, 'memory_write .claude/memory/new/deep/a.json "$1"', content)


def test_json_keeps_its_bytes_too(project: TaskProject) -> None:
    for content in ('{ "b":1,\r\n"a" : 1.50}', "null", "12", '"x"', "[]\n"):
        assert project.bash('memory_write .claude/memory/a.json "$1"', content).returncode == 0
        assert (project.memory / "a.json").read_bytes() == content.encode()


def test_the_wrong_number_of_arguments_is_refused(project: TaskProject) -> None:
    project.write("a.json", "{}")
    for command in ("memory_write .claude/memory/a.md", "memory_write", "memory_read", "memory_update_json a b c"):
        refused(project, command)


def test_what_is_no_file_is_refused(project: TaskProject) -> None:
    (project.memory / "dir.json").mkdir()
    os.mkfifo(project.memory / "pipe.json")
    for path in ("none.json", "no/such/dir.json", "dir.json", "pipe.json"):
        for command in ('memory_read "$1"', 'memory_update_json "$1" .'):
            before = sorted(project.memory.rglob("*"))
            ended = project.bash(command, f".claude/memory/{path}")
            assert (ended.returncode, ended.stderr[:7]) == (1, "ERROR: ")
            assert sorted(project.memory.rglob("*")) == before


def test_a_full_disk_leaves_the_old_file(project: TaskProject) -> None:
    """A file size limit of the process is what a disk without room looks like to it."""
    project.write("a.json", '{"n": 1}')
    large = 'ulimit -f 8; trap "" XFSZ; memory_write .claude/memory/a.json "[\\"$(printf %20000s x)\\"]"'
    ended = project.bash(large)
    assert ended.returncode == 1
    assert "ERROR: Cannot write" in ended.stderr
    assert project.value("a.json") == {"n": 1}
    assert (
        project.bash('ulimit -f 8; trap "" XFSZ; memory_update_json .claude/memory/a.json "[range(9999)]"').returncode
        == 1
    )
    assert project.value("a.json") == {"n": 1}


def test_a_directory_that_is_read_only_is_named(project: TaskProject) -> None:
    project.write("tasks/a.json", "{}")
    everything = [project.root, *project.root.rglob("*")]
    with TemporaryDirectory() as shared:  # root may write everywhere: then another user tries
        Path(shared).chmod(0o755)
        moved = Path(shared) / "project"
        shutil.copytree(project.root, moved)
        assert len([moved, *moved.rglob("*")]) == len(everything)
        (moved / ".claude/memory/tasks").chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IROTH | stat.S_IXOTH)
        other = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        for change in (
            "memory_write .claude/memory/tasks/a.json '[]'",
            "memory_update_json .claude/memory/tasks/a.json '[]'",
        ):
            command = [*other, "bash", "-c", f". .claude/memory/lib/memory.sh; {change}"]
            ended = subprocess.run(  # noqa: S603  # our own command
                command, cwd=moved, env=project.environment(), capture_output=True, text=True, check=False
            )
            assert (ended.returncode, ended.stderr[:7]) == (1, "ERROR: ")
            assert (moved / ".claude/memory/tasks/a.json").read_text() == "{}"
        (moved / ".claude/memory/tasks").chmod(stat.S_IRWXU)


def test_the_shell_of_the_caller_stays_as_it_is(project: TaskProject) -> None:
    command = """
        set -euo pipefail; shopt -s nocasematch; IFS=x; cd /; before=$(set +o; shopt -p; trap; echo "$PWD$IFS")
        memory_write .claude/memory/a.json '{"n": 1}'
        memory_update_json .claude/memory/a.json '.n += 1'
        memory_read .claude/memory/a.json >/dev/null
        if memory_read .claude/memory/b.json 2>/dev/null; then exit 9; fi
        [[ $before == "$(set +o; shopt -p; trap; echo "$PWD$IFS")" ]] && echo same
    """
    ended = project.bash(command)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "same\n", "")


# ---------------------------------------------------------------- changing by jq


@pytest.mark.rule("WBS-3")
@pytest.mark.parametrize(
    ("expression", "reason"),
    [("empty", "exactly one value, not 0"), ("1, 2", "exactly one value, not 2"), ("{}, []", "not 2"),
     ("range(300)", "not 300"), ("[range(300)], 1", "not 2"), ("halt", "not 0"), (".n +", "jq failed"),
     ("error", "jq failed"), ('"x\\n" | halt_error', "jq failed"), ("input", "jq failed"), ("", "")],
)  # fmt: skip
def test_an_expression_must_give_one_value(project: TaskProject, expression: str, reason: str) -> None:
    project.write("a.json", '{"n": 1}')
    if not expression:  # jq takes no expression as `.`
        assert project.bash("memory_update_json .claude/memory/a.json ''").returncode == 0
        return
    assert reason in refused(project, 'memory_update_json .claude/memory/a.json "$1"', expression)


@pytest.mark.rule("WBS-3")
@pytest.mark.parametrize(
    "expression", ["-.n", "[.n]", "[]", '"a\\nb"', "{n, m: [range(300)]}", "--help", "null", ".n # why"]
)
def test_one_value_of_any_kind_is_written_as_jq_prints_it(project: TaskProject, expression: str) -> None:
    project.write("a.json", '{"n": 1}')
    command = ["jq", " " + expression, str(project.memory / "a.json")]
    plain = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  # the expressions above
    ended = project.bash('memory_update_json .claude/memory/a.json "$1"', expression)
    assert ended.returncode == (0 if plain.returncode == 0 else 1)
    assert (project.memory / "a.json").read_bytes() == (plain.stdout if plain.returncode == 0 else b'{"n": 1}')


@pytest.mark.rule("WBS-3")
def test_jq_does_not_see_the_environment(project: TaskProject) -> None:
    project.write("a.json", "{}")
    both = (
        "memory_update_json .claude/memory/a.json '.a = env.AGENT_MEMORY_SECRET | .b = $ENV.HOME | .c = (env | keys)'"
    )
    assert project.bash(both, AGENT_MEMORY_SECRET="hidden").returncode == 0  # noqa: S106  # no password
    assert project.value("a.json") == {"a": None, "b": None, "c": ["PATH"]}


@pytest.mark.rule("WBS-3")
def test_an_expression_that_runs_for_ever_is_ended(project: TaskProject) -> None:
    project.write("a.json", "{}")
    assert "over 1 seconds" in refused(
        project, "MEMORY_SECONDS_MAX=1; memory_update_json .claude/memory/a.json 'def f: f; f'"
    )
    assert "MEMORY_SECONDS_MAX=10\n" in (LIB / "memory.sh").read_text()


def test_half_a_file_is_refused_and_stays(project: TaskProject) -> None:
    for half in ('{"n": ', "", "{} {}"):
        project.write("a.json", half)
        refused(project, "memory_update_json .claude/memory/a.json '.n = 1'")


def test_without_jq_only_texts_can_be_written(project: TaskProject, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "flock", "timeout", "env", "mv", "rm", "cat", "mkdir", "grep", "dirname"):
        (programs / name).symlink_to(Path(shutil.which(name) or "/none"))
    project.write("a.json", "{}")
    path = str(programs)
    assert "jq is missing" in refused(project, "memory_write .claude/memory/a.json '{}'", PATH=path)
    assert "jq is missing" in refused(project, "memory_update_json .claude/memory/a.json .", PATH=path)
    assert "jq is missing" in project.script("memory-validate.sh", PATH=path).stderr
    assert (
        project.bash("memory_write .claude/memory/a.md x && memory_read .claude/memory/a.md", PATH=path).stdout == "x"
    )


# ---------------------------------------------------------------- many writers, and killed ones


@pytest.mark.rule("WBS-2")
def test_sixteen_shells_lose_no_update(project: TaskProject) -> None:
    project.write("n.json", '{"n": 0}')
    loop = """
        for shell in {1..16}; do
          (for turn in {1..5}; do memory_update_json .claude/memory/n.json '.n += 1' || exit 1; done) &
        done
        for job in $(jobs -p); do wait "$job" || exit 1; done
    """
    ended = project.bash(loop)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert project.value("n.json") == {"n": 80}


@pytest.mark.rule("WBS-2")
def test_a_killed_writer_leaves_the_old_or_the_new_file(project: TaskProject) -> None:
    """Killed with its whole process group, after 0 to 60 ms, in the middle of a loop of writes and updates."""
    project.write("n.json", '{"n": 0}')
    loop = """
        while :; do memory_update_json .claude/memory/n.json '.n += 1 | .pad = "x" * 4000'
        memory_write .claude/memory/n.json "$(memory_read .claude/memory/n.json)"; done
    """
    before = 0
    for turn in range(15):
        command = ["bash", "-c", f". .claude/memory/lib/memory.sh; {loop}"]
        writer = subprocess.Popen(  # noqa: S603  # the loop above
            command, cwd=project.root, env=project.environment(), start_new_session=True
        )
        time.sleep(0.05 + turn * 0.007)
        os.killpg(writer.pid, signal.SIGKILL)
        writer.wait()
        after = project.value("n.json")["n"]
        assert after >= before
        before = after
    assert project.bash("memory_update_json .claude/memory/n.json '.n = -1'").returncode == 0
    assert project.value("n.json")["n"] == -1
    assert not list(project.memory.rglob("*.tmp"))


@pytest.mark.rule("WBS-2")
@pytest.mark.parametrize("step", ["env", "grep", "mv", "flock", "rm"])
def test_a_writer_killed_at_each_program_it_runs_leaves_the_old_or_the_new_file(
    project: TaskProject, tmp_path: Path, step: str
) -> None:
    """The program kills its shell, once before it has worked and once after."""
    for order in ("kill first", "work first"):
        programs = tmp_path / order
        programs.mkdir()
        real = shutil.which(step)
        kill = "kill -9 $PPID"
        body = f'{kill}\nexec {real} "$@"' if order == "kill first" else f'{real} "$@"\n{kill}'
        (programs / step).write_text(f"#!/bin/bash\n{body}\n")
        (programs / step).chmod(0o755)
        for command, new in (
            ("memory_write .claude/memory/a.json '[9]'", [9]),
            ("memory_update_json .claude/memory/a.json '[range(250)]'", list(range(250))),
        ):
            project.write("a.json", "[1]")
            project.write("a.json.tmp", "left behind")
            project.bash(command, PATH=f"{programs}:{os.environ['PATH']}")
            assert project.value("a.json") in ([1], new)
            assert project.bash("memory_update_json .claude/memory/a.json '[7]'").returncode == 0
            assert project.value("a.json") == [7]


@pytest.mark.rule("WBS-2")
def test_a_write_tells_the_next_sync(project: TaskProject, tmp_path: Path) -> None:
    assert project.bash("memory_write .claude/memory/a.md x").returncode == 0
    assert not (project.memory / ".stemma").exists(), "without StemmaDB nothing is left behind"
    (project.memory / ".stemma").mkdir()
    assert project.bash("memory_write .claude/memory/a.md y").returncode == 0
    assert (project.memory / ".stemma/dirty").exists()
