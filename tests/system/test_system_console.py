"""`stemmadb console` as a person and a script use it: on a real terminal and from a pipe, against a real server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest

from console_process import Stand, frozen, stand
from served import Process
from stemmadb.client import Space
from terminals import CTRL_C, CTRL_D, ENTER, TAB, Terminal

HEAD = "main@head>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """One server process and one space, which these tests leave as it is."""
    directory = tmp_path_factory.mktemp("console")
    server = Process(directory / "data")
    server.start()
    yield stand(server.address, directory / "config")
    assert server.stop() == 0


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stand, Process]]:
    """A server of a test's own, to write to and to stop."""
    directory = tmp_path_factory.mktemp("own")
    server = Process(directory / "data")
    server.start()
    yield stand(server.address, directory / "config"), server
    server.stop()


def typed(terminal: Terminal, line: str, *, says: str, prompt: str = HEAD) -> str:
    """Types a line, waits for what it says and for the next prompt."""
    terminal.send(line + ENTER)
    told = terminal.expect(says)
    terminal.expect(prompt)
    return told


def stop(terminal: Terminal) -> None:
    """Ctrl-C until it is heard: at the prompt, before the line is carried out, it does nothing."""
    for _ in range(100):
        terminal.send(CTRL_C)
        with suppress(AssertionError):
            terminal.expect("Stopped.", timeout=0.5)
            return
    raise AssertionError("Ctrl-C was not heard")


# ---------------------------------------------------------------- from a pipe


def test_lines_of_a_pipe_are_answered_without_colours_and_the_console_ends(place: Stand) -> None:
    ran = place.piped("at 2\nget urn:todo:1 /done\nat head\nget urn:todo:1 /title\n", COLUMNS="80", FORCE_COLOR="1")
    assert (ran.code, ran.err) == (0, "")
    assert "\x1b" not in ran.out
    shown = [line for line in ran.out.splitlines() if line in ("false", "true") or line.startswith('"')]
    assert shown == ["false", '"spec"']


def test_json_may_go_on_in_the_next_lines_of_a_pipe(place: Stand) -> None:
    ran = place.piped('query urn:todo: {\n  "properties": {\n"done": {"const": true}}}\nget urn:todo:1 /done')
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "true"
    assert "urn:todo:1" in ran.out


def test_a_line_of_a_pipe_that_never_ends_is_told(place: Stand) -> None:
    ran = place.piped("query {\nls\n")
    assert ran.code == 2
    assert ran.err == "Error: The line is not finished: '}' is missing.\n"


def test_a_script_learns_of_the_first_error_by_the_exit_code(place: Stand) -> None:
    ran = place.piped("get urn:nope:1\nset urn:todo:1 1\nzzz\nget urn:todo:1 /title\n")
    assert ran.code == 1
    assert ran.out == '"spec"\n'
    assert len(ran.err.splitlines()) == 3


def test_with_json_every_answer_is_a_line_and_the_last_sums_up(place: Stand) -> None:
    ran = place.piped("get urn:todo:1\nat 4000\nwatch urn:todo: --changes 1\nexit\nget urn:todo:1\n", "--json")
    value, error, change, summary = map(json.loads, ran.out.splitlines())
    assert value["value"] == {"title": "spec", "done": True}
    assert error["error"]["code"] == "future_version"
    assert set(change["entered"]) == {"urn:todo:1"}
    assert (summary["lines"], summary["failed"], summary["error"]) == (4, 1, error["error"])
    assert ran.code == 1


def test_a_pipe_without_lines_is_no_error(place: Stand) -> None:
    assert place.piped("") == place.piped("# nothing\n\n")
    assert place.piped("").code == 0


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--space", "nope"), 1, "There is no space 'nope'"),
        (("--branch", "nope"), 1, "There is no branch 'nope'"),
        (("--at", "4000"), 1, "Version 4000 does not exist yet"),
        (("--at", "someday"), 2, "neither a branch nor a moment"),
        (("--identity", "nope"), 1, "There is no identity 'nope'"),
        (("--journal", "x"), 2, "--journal needs --write"),
    ],
)
def test_a_console_that_cannot_begin_says_why(place: Stand, more: tuple[str, ...], code: int, words: str) -> None:
    ran = place.piped("ls\n", *more)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (code, "", 1)
    assert words in ran.err


def test_a_server_that_is_not_there_is_told_in_one_sentence(place: Stand) -> None:
    ran = place.piped("ls\n", "--url", "ws://127.0.0.1:1", "--space", place.did)
    assert ran.code == 3
    assert ran.err.startswith("Error: ws://127.0.0.1:1 cannot be reached")
    assert "stemmadb serve" in ran.err
    assert len(ran.err.splitlines()) == 1


def test_an_identity_that_may_not_read_is_not_told_what_is_there(place: Stand) -> None:
    place.identity("eve")
    ran = place.piped("ls\n", "--identity", "eve", "--space", place.did)
    assert (ran.code, ran.out) == (1, "")
    assert "There is no space" in ran.err


def test_an_identity_that_may_read_may_not_write(own: tuple[Stand, Process]) -> None:
    place, _ = own
    carol = place.identity("carol")

    async def let_in(space: Space) -> None:
        await space.acl.set(carol, "read")

    place.work(let_in)
    ran = place.piped(
        "get urn:todo:1 /title\nset urn:todo:1 1\nget urn:todo:1 /title\n", "--identity", "carol", "--write"
    )
    assert ran.code == 4
    assert ran.out.splitlines() == ['"spec"', '"spec"']
    assert "may not" in ran.err


def test_ctrl_c_while_a_pipe_is_silent_ends_the_console(place: Stand) -> None:
    process = subprocess.Popen(  # noqa: S603
        place.words(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=place.environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"get urn:todo:1 /title\n")
    process.stdin.flush()
    assert process.stdout.readline() == b'"spec"\n'
    while process.poll() is None:  # one that comes before the line is quite done ends the line alone
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
    _out, err = process.communicate()
    assert process.returncode == 130
    assert b"Error: Interrupted." in err


def test_ctrl_c_ends_the_watch_of_a_pipe_and_the_next_line_is_answered(place: Stand) -> None:
    process = subprocess.Popen(  # noqa: S603
        place.words(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=place.environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"watch urn:todo:\nget urn:todo:1 /title\n")
    process.stdin.close()
    lines = [process.stdout.readline() for _ in range(3)]
    assert b"urn:todo:1" in lines[-1]
    process.send_signal(signal.SIGINT)
    assert process.stdout.read() == b'"spec"\n'
    assert process.wait(60) == 0
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()


def test_a_reader_that_goes_away_ends_the_console_quietly(place: Stand) -> None:
    process = subprocess.Popen(  # noqa: S603
        place.words(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=place.environment(),
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(b"ls\nls\nls\n", timeout=60)
    assert process.returncode == 3
    assert b"Traceback" not in err


# ---------------------------------------------------------------- on a terminal


def test_a_person_travels_through_time(place: Stand) -> None:
    with place.terminal() as terminal:
        terminal.expect("It only reads; --write lets it write.")
        terminal.expect(HEAD)
        typed(terminal, "at 2", says="You are at main@2", prompt="main@2>")
        assert "write the spec" in typed(terminal, "get urn:todo:1", says='"done": false', prompt="main@2>")
        typed(terminal, "at head", says="You are at main@head.")
        typed(terminal, "blame urn:todo:1 /title", says="shortened")
        terminal.send(CTRL_D)
        assert terminal.ended() == 0
        assert "\x1b[" in terminal.raw


def test_tab_completes_commands_ids_and_branches(place: Stand) -> None:
    with place.terminal() as terminal:
        terminal.expect(HEAD)
        terminal.send("hist" + TAB)
        terminal.expect("history")
        terminal.send(" urn:" + TAB)
        terminal.expect("todo:1")
        terminal.send(ENTER)
        terminal.expect("first item")
        terminal.expect(HEAD)
        terminal.send("branch dr" + TAB)
        terminal.expect("aft")
        terminal.send(ENTER)
        terminal.expect("You are at draft@head.")
        terminal.expect("draft@head>")
        terminal.send("exit" + ENTER)
        assert terminal.ended() == 0


def test_lines_are_there_again_in_the_next_console(place: Stand) -> None:
    with place.terminal() as terminal:
        terminal.expect(HEAD)
        typed(terminal, "get urn:todo:1 /title", says='"spec"')
        terminal.send("exit" + ENTER)
        assert terminal.ended() == 0
    with place.terminal() as terminal:
        terminal.expect(HEAD)
        terminal.send("\x1b[A\x1b[A")
        terminal.expect("get urn:todo:1 /title")
        terminal.send(ENTER)
        terminal.expect('"spec"')


def test_json_may_go_on_in_the_next_line_at_the_prompt(place: Stand) -> None:
    with place.terminal() as terminal:
        terminal.expect(HEAD)
        terminal.send("query urn:todo: {" + ENTER)
        terminal.expect("...")
        typed(terminal, '"properties": {"done": {"const": true}}}', says="urn:todo:1")


@pytest.mark.parametrize("columns", [50, 200])
def test_narrow_and_wide_terminals_are_filled_and_not_passed(place: Stand, columns: int) -> None:
    with place.terminal(columns=columns) as terminal:
        terminal.expect(HEAD)
        for line, says in (("log", "first"), ("branches", "draft begins"), ("blame urn:todo:1", "true")):
            terminal.send(line + ENTER)
            terminal.expect(f"> {line}\r")
            shown = terminal.expect(says)
            assert max(len(one.rstrip()) for one in shown.splitlines()) <= columns
            terminal.expect(HEAD)


def test_errors_are_one_sentence_and_the_console_goes_on(place: Stand) -> None:
    with place.terminal() as terminal:
        terminal.expect(HEAD)
        typed(terminal, "at 4000", says="Error: Version 4000 does not exist yet: the space is at version")
        typed(terminal, "branch nope", says="Error: There is no branch 'nope'")
        typed(terminal, "gte urn:todo:1", says="Did you mean 'get'?")
        typed(terminal, "set urn:todo:1 1", says="Error: This console only reads.")
        typed(terminal, "branch gone", says="It was deleted at version 8", prompt="gone@head>")
        typed(terminal, "get urn:todo:1 /title", says='"spec"', prompt="gone@head>")
        terminal.send(CTRL_D)
        assert terminal.ended() == 0


@pytest.mark.parametrize("key", ["q", CTRL_C])
def test_a_key_ends_a_watch_and_the_console_goes_on(place: Stand, key: str) -> None:
    with place.terminal() as terminal:
        terminal.expect(HEAD)
        terminal.send("watch urn:todo:" + ENTER)
        terminal.expect('  + urn:todo:1  {"title": "spec", "done": true}')
        terminal.send(key)
        terminal.expect("Stopped.")
        terminal.expect(HEAD)
        typed(terminal, "get urn:todo:1 /title", says='"spec"')


def test_ctrl_c_at_the_prompt_begins_the_line_anew(place: Stand) -> None:
    with place.terminal() as terminal:
        terminal.expect(HEAD)
        terminal.send("get urn:to")
        terminal.expect("get urn:to")
        terminal.send(CTRL_C)
        terminal.expect(HEAD)
        typed(terminal, "get urn:todo:1 /title", says='"spec"')


def test_no_colour_is_shown_to_whoever_wants_none(place: Stand) -> None:
    with place.terminal(NO_COLOR="1") as terminal:
        terminal.expect(HEAD)
        typed(terminal, "ls urn:todo:", says="spec")
        terminal.send(CTRL_D)
        assert terminal.ended() == 0
        assert not [part for part in terminal.raw.split("\x1b[")[1:] if part.split("m")[0] in COLOURS]


COLOURS = {f"{before}{colour}" for before in ("", "0;", "1;", "0;1;") for colour in (*range(30, 38), *range(90, 98))}


def test_what_is_written_elsewhere_is_seen_as_it_happens(own: tuple[Stand, Process]) -> None:
    place, _ = own

    async def change(space: Space) -> None:
        async with space.transaction(note="reopened") as tx:
            tx.patch("urn:todo:1", [{"op": "replace", "path": "/done", "value": False}])
        await tx.confirmed()

    with place.terminal() as terminal:
        terminal.expect(HEAD)
        terminal.send("watch urn:todo:" + ENTER)
        terminal.expect("urn:todo:1")
        place.work(change)
        terminal.expect("main@9")
        terminal.expect("default …")  # the name and the end of the DID, then the note
        terminal.expect("  reopened")
        terminal.expect("/done  true -> false")
        terminal.send("q")
        terminal.expect(HEAD)


def test_a_console_that_writes_writes_merges_and_undoes(own: tuple[Stand, Process]) -> None:
    place, _ = own
    with place.terminal("--write") as terminal:
        terminal.expect("It writes.")
        terminal.expect(HEAD)
        typed(terminal, 'set urn:todo:2 {"title": "new"} --note "why not"', says="Written as version 9.")
        typed(terminal, "merge draft --dry-run", says="Both sides changed")
        typed(terminal, "merge draft --strategy source", says="version 10")
        typed(terminal, "get urn:todo:1 /title", says='"write the manual"')
        typed(terminal, "undo", says="Took back 9 with version 11.")
        typed(terminal, "get urn:todo:2", says="is not there")
        terminal.send(CTRL_D)
        assert terminal.ended() == 0


def test_ctrl_c_ends_a_question_to_a_server_that_is_silent(own: tuple[Stand, Process]) -> None:
    place, server = own
    with place.terminal() as terminal:
        terminal.expect(HEAD)
        with frozen(server):
            terminal.send("ls urn:todo:" + ENTER)
            terminal.expect("ls urn:todo:\r")
            stop(terminal)
            terminal.expect(HEAD)
        typed(terminal, "get urn:todo:1 /title", says='"spec"')


def test_a_server_that_goes_away_is_told_and_the_console_goes_on(own: tuple[Stand, Process]) -> None:
    place, server = own
    with place.terminal() as terminal:
        terminal.expect(HEAD)
        server.kill()
        terminal.send("get urn:todo:1 /title" + ENTER)
        terminal.expect("The server cannot be reached now.")
        stop(terminal)
        terminal.expect(HEAD)
        typed(terminal, "status", says="pending     0 writes")
        terminal.send(CTRL_D)
        assert terminal.ended() == 0


def test_the_history_file_is_the_users_alone(place: Stand) -> None:
    with place.terminal() as terminal:
        terminal.expect(HEAD)
        typed(terminal, "whoami", says="own")
    assert os.stat(place.config / "console-history").st_mode & 0o777 == 0o600
