"""The commands on a real terminal and in real pipes: widths, colours, progress, live changes, Ctrl-C, completion."""

from __future__ import annotations

import json
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli_homes import Home, timeless
from command_line import MODULE
from served import Process
from terminals import CTRL_C, plain

NOTE = "a note that is long enough to need more than one line on a narrow terminal"
ESCAPE = "\x1b"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    made = Process(tmp_path_factory.mktemp("served") / "data")
    made.start()
    yield made
    assert made.stop() == 0


@pytest.fixture
def ada(server: Process, tmp_path: Path) -> Home:
    """The owner of a space with a todo at version 2."""
    home = Home(tmp_path / "ada", server.address, space="todo")
    assert home("space", "create", "todo").code == 0
    assert home("set", "urn:todo:1", '{"title": "write the spec", "done": false}', "--note", NOTE).code == 0
    return home


@pytest.fixture
def silence() -> Iterator[socket.socket]:
    """A port where somebody listens and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        yield listening


def url_of(listening: socket.socket) -> str:
    return f"ws://127.0.0.1:{listening.getsockname()[1]}"


# ---------------------------------------------------------------- how it looks


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_log_fits_the_terminal(ada: Home, columns: int) -> None:
    with ada.terminal("log", "--since", "1", columns=columns) as terminal:
        assert terminal.ended() == 0
        lines = timeless(terminal.screen).splitlines()
    assert all(len(line) <= columns for line in lines)
    assert ("FACTS" in lines[0]) is (columns > 60)
    assert (NOTE in lines[1]) is (columns == 200)
    assert lines[1].startswith("      2  2026-11-16 09:00:00  default")


@pytest.mark.parametrize(
    ("words", "no_color", "term"),
    [
        (("get", "urn:todo:1"), "1", "xterm-256color"),
        (("list", "urn:"), "", "dumb"),
        (("log",), "1", "xterm-256color"),
        (("watch", "urn:*", "--changes", "1"), "", "dumb"),
    ],
    ids=["get", "list", "log", "watch"],
)
def test_colours_are_for_terminals_and_never_with_no_color(
    ada: Home, words: tuple[str, ...], no_color: str, term: str
) -> None:
    with ada.terminal(*words) as coloured, ada.terminal(*words, term=term, NO_COLOR=no_color) as plainly:
        assert (coloured.ended(), plainly.ended()) == (0, 0)
        assert (ESCAPE in coloured.raw, ESCAPE in plainly.raw) == (True, False)
    ada.variables["FORCE_COLOR"] = "1"
    piped = ada(*words)
    assert (piped.code, ESCAPE in piped.out) == (0, False)
    assert all(line == line.rstrip() for line in piped.out.splitlines())


def test_a_pipe_gets_whole_lines_unless_columns_says_how_long_they_are(ada: Home) -> None:
    del ada.variables["COLUMNS"]
    whole = ada.process("log", FORCE_COLOR="1").out
    assert NOTE in whole
    assert ESCAPE not in whole
    assert all(line == line.rstrip() for line in whole.splitlines())
    assert NOTE not in ada.process("log", COLUMNS="80").out


def test_long_work_shows_a_bar_on_a_terminal_and_not_in_a_pipe(ada: Home, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(8_000_000))
    with ada.terminal("blob", "put", tmp_path / "large") as terminal:
        assert terminal.ended() == 0
        assert "sending" in terminal.screen
        name = terminal.screen.split()[-1]
    with ada.terminal("blob", "get", name, tmp_path / "copy") as terminal:
        assert terminal.ended() == 0
        assert "fetching" in terminal.screen
    assert (tmp_path / "copy").read_bytes() == bytes(8_000_000)
    piped = ada.process("blob", "put", tmp_path / "large")
    assert (piped.out, piped.err) == (f"{name}\n", "")


def test_bytes_go_to_a_pipe_as_they_are(ada: Home) -> None:
    data = bytes(range(256)) * 1_000
    name = ada.process("blob", "put", "-", stdin=data).out.strip()
    done = subprocess.run(  # noqa: S603
        [*MODULE, "blob", "get", name, "-"], capture_output=True, env=ada.environment, timeout=60, check=True
    )
    assert done.stdout == data


# ---------------------------------------------------------------- what is happening


def test_a_watch_shows_changes_as_they_happen_until_ctrl_c(ada: Home) -> None:
    with ada.terminal("watch", "urn:todo:*") as terminal:
        terminal.expect("1 entered")
        terminal.expect('+ urn:todo:1  {"title": "write the spec", "done": false}')
        ada("set", "urn:todo:1", '{"done": true}')
        terminal.expect("main@3")
        terminal.expect('~ urn:todo:1  {"done": true}')
        ada("delete", "urn:todo:1")
        terminal.expect("- urn:todo:1")
        terminal.send(CTRL_C)
        assert terminal.ended() == 130
        assert "3 changes, up to version 4." in terminal.screen
        assert "Traceback" not in terminal.screen


def test_a_watch_for_a_program_is_a_line_for_each_change_and_a_summary(ada: Home) -> None:
    with watching(ada, "urn:todo:*", "--json") as process:
        first = json.loads(next_line(process))
        assert (first["version"], list(first["entered"]), first["left"]) == (2, ["urn:todo:1"], [])
        ada("set", "urn:todo:2", "2")
        assert json.loads(next_line(process))["entered"] == {"urn:todo:2": 2}
        process.send_signal(signal.SIGINT)
        assert json.loads(next_line(process)) == {"changes": 2, "version": 3, "branch": "main"}
        assert process.communicate(timeout=60) == (b"", b"")
        assert process.returncode == 130


@contextmanager
def watching(home: Home, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A watch in a process of its own, which does not outlive the block."""
    with subprocess.Popen(  # noqa: S603
        [*MODULE, "watch", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=home.environment,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[bytes]) -> bytes:
    """The next line, if it comes in time."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], 60)
    assert ready, "nothing came"
    return process.stdout.readline()


def test_a_watch_with_a_schema_tells_what_leaves_the_answer(ada: Home) -> None:
    schema = '{"properties": {"done": {"const": false}}, "required": ["done"]}'
    with ada.terminal("watch", "urn:todo:*", "--schema", schema, "--changes", "2") as terminal:
        terminal.expect("+ urn:todo:1")
        ada("set", "urn:todo:1", '{"done": true}')
        terminal.expect("- urn:todo:1")
        assert terminal.ended() == 0


def test_a_watch_says_when_the_server_goes_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    server = Process(tmp_path / "data")
    server.start()
    ada = Home(tmp_path / "ada", server.address, space="todo")
    ada("space", "create", "todo")
    ada("set", "urn:todo:1", "1")
    port = server.address.rpartition(":")[2]
    with ada.terminal("watch", "urn:todo:*") as terminal:
        terminal.expect("urn:todo:1  1")
        assert server.stop() == 0
        terminal.expect("The connection is lost.")
        again = subprocess.Popen(  # noqa: S603
            [*MODULE, "serve", "--port", port, "--data", str(tmp_path / "data")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=ada.environment,
        )
        try:
            terminal.expect("Connected again.")
            ada("set", "urn:todo:1", "2")
            terminal.expect("~ urn:todo:1  2")
            terminal.send(CTRL_C)
            assert terminal.ended() == 130
        finally:
            again.terminate()
            assert again.wait(60) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("get", "urn:todo:1"), "Nothing was left half done."),
        (("merge", "draft"), "It may be written or not."),
        (("merge", "draft", "--dry-run"), "Nothing was left half done."),
        (("set", "urn:todo:1", "1"), "It may be written or not."),
        (("watch",), "0 changes"),
    ],
)
def test_ctrl_c_ends_a_command_that_waits_for_a_server(
    ada: Home, silence: socket.socket, words: tuple[str, ...], says: str
) -> None:
    space = str(ada("status", "--json").json["space"]["did"])
    with ada.terminal(*words, "--url", url_of(silence), "--space", space) as terminal:
        connection, _ = silence.accept()
        with connection:
            connection.recv(1)  # it has sent its greeting and waits
            terminal.send(CTRL_C)
            assert terminal.ended() == 130
        assert says in terminal.screen
        assert "Traceback" not in terminal.screen


def test_a_reader_that_goes_away_ends_a_watch_without_a_word(ada: Home) -> None:
    with watching(ada, "urn:todo:*") as process:
        next_line(process)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        ada("set", "urn:todo:1", "2")
        assert process.wait(60) == 3
        assert process.stderr.read() == b""


# ---------------------------------------------------------------- completion


def completed(home: Home, line: str, **variables: str) -> list[str]:
    """What Bash offers after this line."""
    bash = shutil.which("bash")
    assert bash is not None
    script = home("completion", "bash").out
    ask = 'COMP_POINT=${#COMP_LINE}; _stemmadb_completion stemmadb; printf "%s\\n" "${COMPREPLY[@]}"'
    directory = home.directory / "bin"
    directory.mkdir(exist_ok=True)
    program = directory / "stemmadb"
    program.write_text(f'#!/bin/sh\nexec {" ".join(MODULE)} "$@"\n')
    program.chmod(0o755)
    environment = home.environment | variables | {"COMP_LINE": line}
    environment["PATH"] = f"{directory}:{environment['PATH']}"
    done = subprocess.run(  # noqa: S603
        [bash, "-c", f"{script}\n{ask}"], capture_output=True, env=environment, timeout=60, check=True
    )
    assert done.stderr == b""
    return done.stdout.decode().split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no Bash here")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("stemmadb his", ["history"]),
        ("stemmadb get urn:", ["todo:1", "user:1"]),
        ("stemmadb get urn:todo:", ["1"]),
        ("stemmadb get ur", ["urn:todo:1", "urn:user:1"]),
        ("stemmadb get x --branch dr", ["draft"]),
        ("stemmadb merge ", ["draft", "main"]),
        ("stemmadb branch ", ["create", "delete", "list"]),
        ("stemmadb tag delete v", ["v1"]),
        ("stemmadb get --space t", ["todo"]),
        ("stemmadb get --identity d", ["default"]),
        ("stemmadb acl set x w", ["write"]),
        ("stemmadb status --dat", ["--data"]),
        ("stemmadb get --identity nobody urn:", []),
        ("stemmadb get --space nothing urn:", []),
    ],
)
def test_bash_completes_commands_ids_branches_and_names(ada: Home, line: str, offered: list[str]) -> None:
    ada("set", "urn:user:1", "1")
    ada("branch", "create", "draft")
    ada("tag", "create", "v1")
    assert completed(ada, line) == offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no Bash here")
def test_completion_does_not_wait_for_a_server_and_makes_no_identity(
    ada: Home, silence: socket.socket, server: Process, tmp_path: Path
) -> None:
    space = str(ada("status", "--json").json["space"]["did"])
    began = time.monotonic()
    assert completed(ada, "stemmadb get urn:", STEMMADB_URL=url_of(silence), STEMMADB_SPACE=space) == []
    assert time.monotonic() - began < 30  # of which one second is waiting
    fresh = Home(tmp_path / "fresh", server.address, space=space)
    fresh.directory.mkdir()
    assert completed(fresh, "stemmadb get urn:") == []
    assert not (fresh.directory / "identities").exists()


def test_completion_exits_with_0(ada: Home) -> None:
    done = ada.process(_STEMMADB_COMPLETE="bash_complete", COMP_LINE="stemmadb his")
    assert (done.code, done.out, done.err) == (0, "plain,history\n", "")


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_every_shell(ada: Home, name: str) -> None:
    done = ada("completion", name)
    assert (done.code, "_STEMMADB_COMPLETE" in done.out) == (0, True)
    assert ada("completion", name, "--json").json["shell"] == name
    assert ada("completion", "other").code == 2


def test_escapes_are_taken_from_what_a_person_sees() -> None:
    assert plain("\x1b[1;31mred\x1b[0m\x1b]0;title\x07 text\x1b[?25h") == "red text"


def test_compact_asks_on_a_terminal_and_does_what_is_answered(ada: Home) -> None:
    for answer, code in (("n", 130), ("y", 0)):
        with ada.terminal("compact", "--floor", "2") as terminal:
            terminal.expect("cannot be brought back")
            terminal.send(f"{answer}\r")
            assert terminal.ended() == code
            assert ("compacted to 2" in terminal.screen) is (answer == "y")
