"""A line as words: quoted as in a shell, and JSON may stand unquoted. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import click

from stemmadb.client.cli.commands.words import read_json
from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.values.json_values import Value

CLOSING: Final = {"{": "}", "[": "]"}
QUOTES: Final = "\"'"
ESCAPED: Final = re.compile(r"\\([\"'\\])")


class Word(NamedTuple):
    """A word of a line: what it means as a text, how it was written, and where it begins."""

    text: str
    raw: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.raw)

    @property
    def is_option(self) -> bool:
        """Whether it names an option; a quoted one does not."""
        return self.raw.startswith("--") and len(self.raw) > 2


def split(line: str) -> list[Word]:
    """The words; `Malformed`, with the fact `is_open`, if the line ends inside of one.

    >>> [word.text for word in split('set urn:todo:1 {"title": "a b"}  \\'x y\\'')]
    ['set', 'urn:todo:1', '{"title": "a b"}', 'x y']
    """
    words: list[Word] = []
    at = 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        words.append(_word(line, at))
        at = words[-1].end
    return words


def is_finished(line: str) -> bool:
    """Whether a line can be read as it is, rightly or wrongly, without a next one."""
    try:
        split(line)
    except Malformed as error:
        return not error.facts.get("is_open", False)
    return True


def waits_for(line: str) -> str:
    """What would finish a line that is not finished, such as `}` or a quote; nothing if it is."""
    try:
        split(line)
    except Malformed as error:
        return str(error.facts["waits_for"]) if error.facts.get("is_open") else ""
    return ""


def value_of(word: Word) -> Value:
    """The JSON value that was written; `Malformed` shows the place where it ends to be one."""
    try:
        return read_json(word.raw, "The value")
    except click.UsageError as wrong:
        raise Malformed(wrong.message, path="value", why=wrong.message) from None


def _word(line: str, start: int) -> Word:
    if line[start] in CLOSING:
        end = _end_of_json(line, start)
        return Word(line[start:end], line[start:end], start)
    return _shell_word(line, start)


def _end_of_json(line: str, start: int) -> int:
    """Where the bracket that opens at `start` is closed; brackets in texts do not count."""
    open_: list[str] = []
    at = start
    while at < len(line):
        letter = line[at]
        if letter == '"':
            at = _end_of_text(line, at)
            continue
        if letter in CLOSING:
            open_.append(CLOSING[letter])
        elif letter in CLOSING.values():
            if open_.pop() != letter:
                why = f"{letter!r} at letter {at + 1} closes nothing"
                raise Malformed(f"This is not JSON: {why}.", path="value", why=why)
            if not open_:
                return at + 1
        at += 1
    raise _unfinished(f"{open_[-1]!r} is missing", open_[-1])


def _end_of_text(line: str, start: int) -> int:
    """The place after the quote that closes the one at `start`."""
    at = start + 1
    while at < len(line):
        if line[at] == "\\":
            at += 1
        elif line[at] == line[start]:
            return at + 1
        at += 1
    raise _unfinished(f"a quote {line[start]} is not closed", line[start])


def _shell_word(line: str, start: int) -> Word:
    """Up to the next blank; quotes may begin anywhere in it, and keep blanks together."""
    parts: list[str] = []
    at = start
    while at < len(line) and not line[at].isspace():
        if line[at] in QUOTES:
            end = _end_of_text(line, at)
            parts.append(_unquoted(line[at + 1 : end - 1]))
            at = end
        else:
            parts.append(line[at])
            at += 1
    return Word("".join(parts), line[start:at], start)


def _unquoted(text: str) -> str:
    """A backslash keeps a quote or a backslash, and is itself before anything else."""
    return ESCAPED.sub(r"\1", text)


def _unfinished(why: str, waits_for: str) -> Malformed:
    message = f"The line is not finished: {why}."
    return Malformed(message, path="line", why=why, is_open=True, waits_for=waits_for)
