"""No text from outside reaches the terminal with its control characters, whatever prints it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import here
from stemmadb.client.cli import layouts
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.shapes import Column, TextCell, TextTable, line, lines
from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.values.ids import Did

HOSTILE = (
    "\x1b[2J\x1b[H",  # clears the screen
    "\x1b]0;title\x07",  # sets the title
    "\x9b31m",  # the same introducer in one character
    "one\r\ntwo",  # forges a line
    "\x08\x7f",
    "\u202e\u2028\ufeff\x00",
)
COMMANDS = (
    ("import",),
    ("restore",),
    ("verify", "--data"),
    ("spaces", "--data"),
    ("get", "--space"),
    ("serve", "--host"),
)
hostile = pytest.mark.parametrize("text", HOSTILE)


def is_safe(printed: str) -> bool:
    return all(one.isprintable() for one in printed.split("\n"))


@given(st.text())
def test_a_cleaned_text_prints_and_stays_as_it_is(text: str) -> None:
    assert clean(text).isprintable()
    assert clean(clean(text)) == clean(text)


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_cleaned_json_is_the_same_json(value: object) -> None:
    assert json.loads(clean(json.dumps(value, ensure_ascii=False))) == value


@hostile
@pytest.mark.parametrize("is_json", [False, True])
def test_whatever_a_command_prints_is_clean(text: str, is_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    shell = CliContext(is_json=is_json)
    shell.answer({text: text})
    shell.say(text)
    shell.say_lines(text)
    shell.warn(text)
    shell.fail("unavailable", text)
    shell.answer(shell.no(Unavailable(text)))
    shell.show(TextTable((Column("A"),), [(text,), (TextCell(text, wide=text),)], title=text), lines(line(text)))
    printed = capsys.readouterr()
    assert is_safe(printed.out)
    assert is_safe(printed.err)
    if is_json:
        assert json.loads(printed.out.split("\n")[0]) == {text: text}


@hostile
def test_a_hostile_access_list_is_shown_clean(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    CliContext(is_json=False).show(layouts.roles({Did(text): "own"}))
    assert is_safe(capsys.readouterr().out)


@hostile
def test_the_error_of_a_hostile_stream_is_clean(text: str, tmp_path: Path) -> None:
    stream = tmp_path / "stream"
    for content in ({"stemmadb": text}, {text: text}, text):
        stream.write_text(json.dumps(content, ensure_ascii=False) + "\n")
        ran = here("import", "--data", tmp_path / "data", stream)
        assert ran.code
        assert is_safe(ran.out)
        assert is_safe(ran.err)


@hostile
@pytest.mark.parametrize("words", COMMANDS)
def test_the_error_about_a_hostile_argument_is_clean(
    text: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = here(*words, text.replace("\x00", ""))  # no argument of a process can hold a NUL
    assert ran.code
    assert is_safe(ran.out)
    assert is_safe(ran.err)


def test_an_error_of_use_names_the_program() -> None:
    assert here("set").err == "Error: Missing argument 'ID'. Try 'stemmadb set --help'.\n"
