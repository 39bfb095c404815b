"""What helps at the prompt: completion, colours, the history file."""

from __future__ import annotations

import asyncio
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from console_worlds import TypedConsole, in_a_console, in_the_story, put
from stemmadb.client.console import completer, history_file
from stemmadb.client.console.completer import Choices, CompletionContext, ConsoleCompleter, SeenIds, wanted
from stemmadb.client.console.history_file import SavedHistory
from stemmadb.client.console.lexer import ConsoleLexer, pieces
from stemmadb.client.console.prompt import prompt_pieces

# ---------------------------------------------------------------- completion


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", CompletionContext("", "command")),
        ("ge", CompletionContext("ge", "command")),
        ("get ", CompletionContext("", "id")),
        ("get urn:t", CompletionContext("urn:t", "id")),
        ("get urn:t /a", CompletionContext("/a", "other")),
        ("get urn:t /a b", CompletionContext("b", None)),
        ("ls ur", CompletionContext("ur", "prefix")),
        ("list ur", CompletionContext("ur", "prefix")),
        ("branch d", CompletionContext("d", "branch")),
        ("merge ", CompletionContext("", "branch")),
        ("merge fix --", CompletionContext("--", None, ("--into", "--strategy", "--dry-run", "--note"))),
        ("merge fix --dry-run --", CompletionContext("--", None, ("--into", "--strategy", "--note"))),
        ("merge fix --into m", CompletionContext("m", "branch")),
        ("merge --strategy f", CompletionContext("f", "strategy")),
        ("merge --dry-run f", CompletionContext("f", "branch")),
        ("merge --strategy fail f", CompletionContext("f", "branch")),
        ("log --author a", CompletionContext("a", "author")),
        ("diff head dr", CompletionContext("dr", "moment")),
        ("help g", CompletionContext("g", "command")),
        ("nope ", CompletionContext("", None)),
        ("query {", CompletionContext("", None)),
        ("at 'yes", CompletionContext("", None)),
    ],
)
def test_what_a_word_can_be_is_told_by_the_words_before_it(line: str, expected: CompletionContext) -> None:
    assert wanted(line, may_write=False) == expected


def test_commands_that_write_are_completed_only_where_they_work() -> None:
    assert wanted("set u", may_write=False) == CompletionContext("u", None)
    assert wanted("set u", may_write=True) == CompletionContext("u", "id")


def chosen(console: TypedConsole, line: str) -> Any:
    choices = Choices(lambda: console.state, SeenIds())
    return choices.of(wanted(line, may_write=console.state.may_write))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("br", ["branch", "branches"]),
        ("se", []),
        ("get urn:", ["urn:todo:1", "urn:todo:2"]),
        ("get urn:todo:2", ["urn:todo:2"]),
        ("get nope", []),
        ("branch ", ["draft", "fix", "main", "old"]),
        ("at ", ["draft", "fix", "head", "main", "old", "tag:v1"]),
        ("at t", ["tag:v1"]),
        ("merge fix --strategy f", ["fail", "fields"]),
        ("log --author ", ["alice", "bob", "carol"]),
        ("merge --i", ["--into"]),
        ("whoami x", []),
    ],
)
def test_the_words_there_are_to_choose_from(line: str, expected: list[str]) -> None:
    async def scenario(console: TypedConsole) -> None:
        assert await chosen(console, line) == expected

    in_the_story(scenario)


def test_a_console_that_writes_completes_its_commands() -> None:
    async def scenario(console: TypedConsole) -> None:
        assert await chosen(console.writing(), "se") == ["set"]

    in_a_console(scenario)


def test_ids_are_those_of_the_moment_and_what_was_shown() -> None:
    async def scenario(console: TypedConsole) -> None:
        await put(console.state.space, _1=1)
        await put(console.state.space, _2=1)
        await console.text("at 2")
        assert await chosen(console, "get urn:") == ["urn:todo:1"]
        remembered = SeenIds()
        remembered.add(["urn:other:1"])
        choices = Choices(lambda: console.state, remembered)
        assert await choices.of(CompletionContext("urn:", "id")) == ["urn:other:1", "urn:todo:1"]

    in_a_console(scenario)


def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    async def scenario(console: TypedConsole) -> None:
        await put(console.state.space, _1=1)
        console.world.network["alice"].offline()
        remembered = SeenIds()
        remembered.add(["urn:todo:7"])
        before = asyncio.get_running_loop().time()
        assert await Choices(lambda: console.state, remembered).of(CompletionContext("urn:", "id")) == ["urn:todo:7"]
        assert asyncio.get_running_loop().time() - before <= completer.ANSWER_SECONDS + 0.1
        assert await chosen(console, "branch ") == []
        console.world.network["alice"].online()

    in_a_console(scenario)


def test_the_prompt_gets_what_follows_the_word() -> None:
    async def scenario(console: TypedConsole) -> None:
        completer = ConsoleCompleter(lambda: console.state, SeenIds())
        document, event = Document("get urn:todo:"), CompleteEvent(completion_requested=True)
        found = [one async for one in completer.get_completions_async(document, event)]
        assert [(one.text, one.start_position) for one in found] == [("urn:todo:1", -9), ("urn:todo:2", -9)]
        assert not list(completer.get_completions(document, event))

    in_the_story(scenario)


def test_what_was_shown_is_remembered_up_to_a_bound() -> None:
    remembered = SeenIds()
    remembered.add(f"urn:{number}" for number in range(completer.IDS_REMEMBERED + 5))
    remembered.add(["urn:7"])
    held = remembered.under("urn:")
    assert len(held) == completer.IDS_REMEMBERED
    assert held[-1] == "urn:7"
    assert "urn:0" not in held


# ---------------------------------------------------------------- colours


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("get urn:a /b", [("command", "get"), ("", " "), ("id", "urn:a"), ("", " /b")]),
        ("gett", [("unknown", "gett")]),
        ("", []),
        ("log --all 12", [("command", "log"), ("", " "), ("option", "--all"), ("", " "), ("number", "12")]),
        (
            'query {"a": true}',
            [
                ("command", "query"),
                ("", " "),
                ("mark", "{"),
                ("text", '"a"'),
                ("mark", ":"),
                ("", " "),
                ("constant", "true"),
                ("mark", "}"),
            ],
        ),
        ('at "not closed', [("command", "at"), ("", " "), ("text", '"not closed')]),
    ],
)
def test_a_line_is_coloured_piece_by_piece(line: str, expected: list[tuple[str, str]]) -> None:
    assert pieces(line, is_first=True) == expected


@pytest.mark.parametrize("line", ['set urn:a {"b": [1, -2.5e3, "\\""], "c": null}', "  ls  'x y' --limit 3  ", "\t"])
def test_the_pieces_are_the_line(line: str) -> None:
    assert "".join(text for _, text in pieces(line, is_first=True)) == line
    assert "".join(text for _, text in pieces(line, is_first=False)) == line


def test_a_second_line_has_no_command() -> None:
    styled = ConsoleLexer().lex_document(Document('query {\n"get": 1}'))
    assert styled(0)[0] == ("class:command", "query")
    assert styled(1)[0] == ("class:text", '"get"')
    assert styled(2) == []


def test_the_prompt_shows_the_past_in_another_colour() -> None:
    async def scenario(console: TypedConsole) -> None:
        assert prompt_pieces(console.state)[2] == ("class:place", "main@head")
        await console.text("at 3")
        assert prompt_pieces(console.state)[2] == ("class:past", "main@3")
        assert "".join(piece[1] for piece in prompt_pieces(console.state)) == console.state.prompt
        writing = console.writing().state
        assert writing.prompt == "todo main@3> "  # the past cannot be written
        writing = replace(writing, moment=None)
        assert writing.prompt == "todo (writes) main@head> "
        assert ("class:writes", " (writes)") in prompt_pieces(writing)
        assert "".join(piece[1] for piece in prompt_pieces(writing)) == writing.prompt

    in_the_story(scenario)


# ---------------------------------------------------------------- the history file


def test_lines_are_kept_for_the_next_console_in_a_private_file(tmp_path: Path) -> None:
    directory = tmp_path / "config"
    history = SavedHistory(directory)
    assert list(history.load_history_strings()) == []
    for line in ("get urn:a", 'query {\n"a": 1}', "log"):
        history.store_string(line)
    assert list(SavedHistory(directory).load_history_strings()) == ["log", 'query {\n"a": 1}', "get urn:a"]
    assert stat.S_IMODE((directory / history_file.FILE).stat().st_mode) == 0o600


def test_a_torn_or_strange_line_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / history_file.FILE).write_bytes(b'"good"\n{"not": "a text"}\n\xff\xfe\n"torn')
    assert list(SavedHistory(tmp_path).load_history_strings()) == ["good"]


def test_the_newest_lines_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_file, "LINES_KEPT", 3)
    monkeypatch.setattr(history_file, "LINES_MAX", 6)
    history = SavedHistory(tmp_path)
    for number in range(7):
        history.store_string(f"get urn:{number}")
    assert list(history.load_history_strings()) == ["get urn:6", "get urn:5", "get urn:4"]
    assert len((tmp_path / history_file.FILE).read_bytes().splitlines()) == 3
    history.store_string("x" * history_file.LINE_BYTES_MAX)
    assert next(iter(SavedHistory(tmp_path).load_history_strings())) == "get urn:6"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    SavedHistory(tmp_path).store_string("get urn:a")


def test_a_file_in_the_place_of_the_directory_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a file")
    history = SavedHistory(tmp_path / "config")
    history.store_string("get urn:a")
    assert list(history.load_history_strings()) == []
