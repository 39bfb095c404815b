"""Colours of a line while it is written: the command, options, ids, texts and JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from stemmadb.client.console.catalogue import ALIASES, COMMANDS

_PIECES: Final = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\])*"?|'[^']*'?)
    |(?P<option>(?<!\S)--[\w-]+)
    |(?P<constant>\b(?:true|false|null)\b)
    |(?P<id>(?<![^\s])[a-z][\w+.-]*:[^\s{}\[\]"',]+)
    |(?P<number>(?<![\w-])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)
    |(?P<mark>[{}\[\]:,])""",
    re.VERBOSE,
)
STYLE: Final = Style.from_dict(
    {
        "command": "bold ansigreen",
        "unknown": "ansired",
        "text": "ansigreen",
        "option": "ansicyan",
        "constant": "italic ansimagenta",
        "id": "ansibrightblue",
        "number": "ansicyan",
        "mark": "ansibrightblack",
        "space": "bold ansicyan",
        "place": "ansigreen",
        "past": "bold ansiyellow",
        "writes": "bold ansired",
    }
)


def pieces(line: str, *, is_first: bool) -> list[tuple[str, str]]:
    """The parts of a line, each with the name of its style; together they are the line. Pure.

    >>> pieces("get urn:a", is_first=True)
    [('command', 'get'), ('', ' '), ('id', 'urn:a')]
    """
    found: list[tuple[str, str]] = []
    at = 0
    if is_first and (word := re.match(r"\s*\S+", line)):
        name = word[0].strip()
        is_known = name in COMMANDS or name in ALIASES
        found.append(("command" if is_known else "unknown", word[0]))
        at = word.end()
    for piece in _PIECES.finditer(line, at):
        if piece.start() > at:
            found.append(("", line[at : piece.start()]))
        found.append((str(piece.lastgroup), piece[0]))
        at = piece.end()
    if at < len(line):
        found.append(("", line[at:]))
    return found


class ConsoleLexer(Lexer):
    """The same for the prompt; an answer may take several lines."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = document.lines

        def styled(number: int) -> StyleAndTextTuples:
            if number >= len(lines):
                return []
            return [
                (f"class:{style}" if style else "", text)
                for style, text in pieces(lines[number], is_first=number == 0)
            ]

        return styled
