"""The `stemmadb` command itself: help, versions, mistakes, and commands that other parts bring."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from command_line import MODULE, here, run
from kept_spaces import fill
from space import SPACE
from stemmadb.client.cli import exits, main
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.for_programs import with_json
from stemmadb.client.cli.group import Commands
from stemmadb.protocol.errors import (
    BadStream,
    DirectoryHeld,
    InvalidDid,
    MergeConflict,
    NewerStorage,
    NotEmpty,
    StorageFull,
    Unavailable,
    UnknownSpace,
)
from stemmadb.server.storage.sqlite import SqliteStorage

COMMANDS = [
    "backup",
    "compact",
    "erase",
    "export",
    "import",
    "keys",
    "migrate",
    "restore",
    "scrub",
    "serve",
    "space",
    "status",
    "verify",
]


def test_without_words_and_with_help_it_lists_its_commands() -> None:
    for words in ((), ("--help",), ("-h",)):
        done = here(*words)
        assert done.code == 0
        assert all(f"\n  {name} " in done.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_and_json(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    with click.Context(command, info_name=name) as context:
        text = command.get_help(context)
    assert f"Example: stemmadb {name}" in text
    assert "--json" in text


def test_it_says_its_version() -> None:
    assert run("--version").out == f"stemmadb, version {version('stemmadb')}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("verify", "--nonsense"),
        ("backup",),
        ("erase", "urn:x"),
        ("compact", "--space", "did:key:z", "--floor", "x"),
        ("verify", "--space", "nobody"),
        ("--nonsense",),
    ],
)
def test_wrong_use_is_one_sentence_with_a_hint_and_exit_code_2(words: tuple[str, ...]) -> None:
    done = here(*words)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("Error: ")
    assert done.err.count("\n") == 1
    told = here(*words, "--json")
    assert told.code == 2
    assert told.json["error"].keys() == {"code", "message"}
    assert told.err == ""


def test_the_script_is_installed_as_stemmadb() -> None:
    script = os.path.join(os.path.dirname(sys.executable), "stemmadb")
    done = subprocess.run([script, "--version"], capture_output=True, check=True)  # noqa: S603
    assert done.stdout.startswith(b"stemmadb, version ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MergeConflict(count=1), 1),
        (InvalidDid(did="x", why="y"), 2),
        (UnknownSpace(space="x"), 1),
        (DirectoryHeld(directory="x", holder="y"), 3),
        (NewerStorage(file="x", found=2, known=1), 3),
        (Unavailable(), 3),
        (StorageFull(), 3),
        (NotEmpty(directory="x"), 4),
        (BadStream(line=1, why="x"), 4),
    ],
)
def test_each_error_has_its_exit_code(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(raising(error), "--json") == code
    assert json.loads(capsys.readouterr().out)["error"]["message"] == str(error)


def raising(error: BaseException) -> click.Command:
    @click.command("try")
    def command() -> None:
        raise error

    return command


def ran(command: click.Command, *words: str) -> int:
    """The exit code of a group with this one command in it."""
    commands = Commands(name="stemmadb")
    commands.__dict__["_found"] = {"try": with_json(command)}  # as if it had come from an entry point
    with pytest.raises(SystemExit) as ended:
        commands.main(["try", *words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_an_internal_error_is_told_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(raising(ZeroDivisionError("by zero"))) == exits.INTERNAL_ERROR
    assert "ZeroDivisionError: by zero" in capsys.readouterr().err


def test_an_interruption_is_told_and_exits_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(raising(KeyboardInterrupt())) == 130
    assert "Interrupted" in capsys.readouterr().err


def test_a_file_that_cannot_be_opened_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(raising(PermissionError(13, "Permission denied", "/some/file"))) == 3
    assert "/some/file: Permission denied" in capsys.readouterr().err
    assert ran(raising(OSError("without a name"))) == 3
    assert "use: without a name" in capsys.readouterr().err


def test_an_answer_with_an_error_says_no(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command("try")
    @click.pass_obj
    def command(shell: CliContext) -> Mapping[str, object]:
        shell.say("for a person")
        return {"error": {"code": "broken_chain", "message": "no"}}

    assert ran(command) == 1
    assert capsys.readouterr().out == "for a person\n"
    assert ran(command, "--json") == 1
    assert capsys.readouterr().out == '{"error":{"code":"broken_chain","message":"no"}}\n'


def test_a_reader_that_goes_away_is_told_nothing_more(tmp_path: Path) -> None:
    storage = SqliteStorage(tmp_path)
    fill(storage.open(SPACE, create=True))
    storage.close()
    for words in (["--help"], ["export", "-", "--data", str(tmp_path)]):
        reading, writing = os.pipe()
        os.close(reading)
        with open(writing, "wb") as gone:
            done = subprocess.run([*MODULE, *words], stdout=gone, stderr=subprocess.PIPE, check=False)  # noqa: S603
        assert (done.returncode, done.stderr) == (exits.UNREACHABLE, b"")


class Terminal:
    """Standard error where a person is looking."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True


def test_progress_is_shown_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with CliContext(is_json=True).progress() as show:
        show("copying", 1, 2)
    assert terminal.text == ""
    with CliContext(is_json=False).progress() as show:
        show("copying", 1, 2)
    assert "copying" in terminal.text


def test_help_lists_the_commands_in_groups_and_each_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran_main("--help") == 0
    shown = capsys.readouterr().out
    titles = [
        line.removesuffix(":") for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")
    ]
    assert titles[:7] == ["Options", "Start", "Read and write", "The past", "Branches", "Rights", "Operate"]
    listed = [line.split()[0] for line in shown.splitlines() if line.startswith("  ") and line[2:3].isalpha()]
    for name in main.list_commands(click.Context(main)):
        assert listed.count(name) == 1, name
    assert "spaces" not in listed
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("stats",), "status"),
        (("bramch", "list"), "branch"),
        (("branch", "craete", "x"), "create"),
        (("zzzz",), None),
        (("acl", "lits"), "list"),
        (("log", "--brnch"), "--branch"),
        (("acl", "zzzz"), None),
    ],
)
def test_a_word_that_was_mistyped_gets_the_one_that_was_meant(
    words: tuple[str, ...], meant: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran_main(*words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert (f"Did you mean '{meant}'?" in said) if meant else ("Did you mean" not in said)


def test_the_older_name_of_space_list_still_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for words in (("spaces",), ("space", "list"), ("space",)):
        assert ran_main(*words, "--data", str(tmp_path)) == 0
        answers.append(capsys.readouterr().out)
    assert set(answers) == {f"There are no spaces in {tmp_path}.\n"}


def ran_main(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(list(words))
    return int(str(ended.value.code))
