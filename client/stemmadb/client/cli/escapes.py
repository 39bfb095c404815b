"""The one function that makes text from outside safe for a terminal.

`CliContext`, the drawing of shapes and shell completion call it on everything they print. A command can therefore
not forget it, whether a text came from a server, from a file or from the command line.
"""

from __future__ import annotations

import re
from typing import Final

_HIDDEN: Final = re.compile(r"[^\x20-\x7e]")


def clean(text: str) -> str:
    """The text with everything that does not print escaped as in JSON.

    A text that is clean stays as it is. JSON stays the same JSON: what it escapes can stand only inside its strings.
    """
    return _HIDDEN.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    letter = found[0]
    if letter.isprintable():
        return letter
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
