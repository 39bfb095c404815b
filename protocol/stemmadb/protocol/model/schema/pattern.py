"""The `pattern` keyword: ECMA-262 regular expressions, searched for in time linear in the text (QUERY-3).

A pattern is read as ECMA-262 means it with the `u` flag and written again, construct by construct, for an engine that
never backtracks. So `.`, `$`, `\\b` and the classes mean what the draft says and not what the engine would take them
for, and what such an engine cannot do (looking around, back references) is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import jsonschema_rs

from stemmadb.protocol.model.schema.weight import Weight
from stemmadb.protocol.model.schema.work import SchemaRun

COMPILED_BYTES_MAX: Final = 256 * 1024
PATTERNS_CACHED_MAX: Final = 256
_SHORT: Final = 8  # characters that cost no more than the call

_ENGINE = jsonschema_rs.RegexOptions(size_limit=COMPILED_BYTES_MAX, dfa_size_limit=COMPILED_BYTES_MAX)
_NOT_A_LINE_END = r"[^\n\r\x{2028}\x{2029}]"
_ANY, _NONE = r"[\x{0}-\x{10FFFF}]", r"[^\x{0}-\x{10FFFF}]"
_REPEAT = re.compile(r"[*+?]|\{[0-9]{1,6}(?:,[0-9]{0,6})?\}")
_NAMED_GROUP = re.compile(r"\(\?<[A-Za-z_$][A-Za-z0-9_$]*>")
_PROPERTY = re.compile(r"[pP]\{[A-Za-z0-9_]+(?:=[A-Za-z0-9_]+)?\}")
_CODE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}")
_LOW_SURROGATE = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_CONTROL = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}


class BadPattern(ValueError):
    """Why a pattern cannot be used, in words."""


@lru_cache(maxsize=PATTERNS_CACHED_MAX)
def searcher(pattern: str) -> Callable[[str, SchemaRun], bool]:
    """A function that tells whether the pattern occurs in a text, and pays; `BadPattern` if there can be none."""
    translation = _Translation(pattern)
    translated = translation.run()
    try:
        validator = jsonschema_rs.Draft202012Validator(
            {"type": "string", "pattern": translated}, pattern_options=_ENGINE
        )
    except jsonschema_rs.ValidationError:
        raise BadPattern("it is not a regular expression, or it is too large") from None
    occurs, pay = validator.is_valid, translation.weight.cost().pay

    def search(text: str, run: SchemaRun) -> bool:
        if len(text) > _SHORT:
            pay(text, run)
        return occurs(text)

    return search


def _literal(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\x{{{code:X}}}"


class _Translation:
    """One pass over a pattern; `at` is the place reached and `out` what was written so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.out: list[str] = []
        self.repeatable = False
        self.weight = Weight(text)

    def run(self) -> str:
        while self.at < len(self.text):
            self._term()
        return "".join(self.out)

    def _term(self) -> None:
        char = self.text[self.at]
        if char == "(":
            self._open()
        elif char == "|":
            self.weight.either()
            self._write(char, 1, repeatable=False)
        elif char == ")":
            self.weight.close()
            self._write(char, 1)
        elif char in "^$":
            self.weight.step()
            self._write(char, 1, repeatable=False)
        elif char in "*+?{":
            self._repeat()
        elif char in "]}":
            raise BadPattern(f"{char!r} at {self.at} must be written '\\{char}'")
        elif char == "[":
            self._class()
        elif char == ".":
            self._write_place(_NOT_A_LINE_END, 1)
        elif char == "\\":
            self.at += 1
            self._escape()
        else:
            self._write_place(_literal(ord(char)), 1)

    def _write_place(self, text: str, length: int) -> None:
        """Writes what stands for one character."""
        self.weight.place()
        self._write(text, length)

    def _write(self, text: str, length: int, *, repeatable: bool = True) -> None:
        self.out.append(text)
        self.at += length
        self.repeatable = repeatable

    def _open(self) -> None:
        """A group is only for grouping here: nothing asks what it caught."""
        rest = self.text[self.at : self.at + 4]
        if rest.startswith(("(?=", "(?!", "(?<=", "(?<!")):
            raise BadPattern("looking ahead or behind cannot be done in linear time and is not supported")
        named = _NAMED_GROUP.match(self.text, self.at)
        if rest.startswith("(?") and not rest.startswith("(?:") and named is None:
            raise BadPattern(f"'(?' at {self.at} does not begin a group")
        length = named.end() - self.at if named else 3 if rest.startswith("(?:") else 1
        self.weight.open()
        self._write("(?:", length, repeatable=False)

    def _repeat(self) -> None:
        found = _REPEAT.match(self.text, self.at)
        if found is None or not self.repeatable:
            raise BadPattern(
                f"{self.text[self.at]!r} at {self.at} repeats nothing; write it '\\{self.text[self.at]}'"
            )
        lazy = self.text[found.end() : found.end() + 1] == "?"
        self.weight.repeat(found.group())
        self._write(found.group(), found.end() - self.at + lazy, repeatable=False)

    def _escape(self) -> None:
        char = self.text[self.at : self.at + 1]
        if char in ("b", "B"):
            self.weight.step()
            self._write(f"(?-u:\\{char})", 1, repeatable=False)
        elif (shorthand := self._shorthand()) is not None:
            self._write_place(shorthand, len(shorthand) - 1)
        elif char == "k" or char in tuple("123456789"):
            raise BadPattern("a back reference cannot be done in linear time and is not supported")
        else:
            self._write_place(_literal(self._code()), 0)

    def _shorthand(self) -> str | None:
        """`\\d`, `\\W`, `\\p{L}` and their like, as they are written."""
        if self.text[self.at : self.at + 1] in tuple("dDwWsS"):
            return "\\" + self.text[self.at]
        found = _PROPERTY.match(self.text, self.at)
        return "\\" + found.group() if found else None

    def _code(self) -> int:
        """The code point that the escape at `at` stands for; moves behind it."""
        char = self.text[self.at : self.at + 1]
        following = self.text[self.at + 1 : self.at + 2]
        if (found := _CODE.match(self.text, self.at)) is not None:
            return self._code_point(found)
        self.at += 1
        if char in _CONTROL:
            return _CONTROL[char]
        if char == "0" and not following.isdigit():
            return 0
        if char == "c" and following.isascii() and following.isalpha():
            self.at += 1
            return ord(following) % 32
        if char and char.isascii() and not char.isalnum():
            return ord(char)
        raise BadPattern(f"'\\{char}' at {self.at - 2} is not an escape")

    def _code_point(self, found: re.Match[str]) -> int:
        self.at = found.end()
        code = int(next(digits for digits in found.groups() if digits is not None), 16)
        low = _LOW_SURROGATE.match(self.text, self.at)
        if 0xD800 <= code < 0xDC00 and low is not None:
            self.at = low.end()
            return 0x10000 + ((code - 0xD800) << 10) + int(low.group(1), 16) - 0xDC00
        if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
            raise BadPattern(f"{found.group()!r} is not a character")
        return code

    def _class(self) -> None:
        negated = self.text.startswith("[^", self.at)
        self.at += 1 + negated
        items: list[str] = []
        while not self.text.startswith("]", self.at):
            items.append(self._class_range())
        empty = _ANY if negated else _NONE
        self._write_place(f"[{'^' * negated}{''.join(items)}]" if items else empty, 1)

    def _class_range(self) -> str:
        first = self._class_atom()
        if not self.text.startswith("-", self.at) or self.text.startswith("-]", self.at):
            return first if isinstance(first, str) else _literal(first)
        self.at += 1
        last = self._class_atom()
        if isinstance(first, str) or isinstance(last, str) or first > last:
            raise BadPattern(f"the range that ends at {self.at} is not from a lower to a higher character")
        return f"{_literal(first)}-{_literal(last)}"

    def _class_atom(self) -> int | str:
        """One character as its code point, or a shorthand as it is written."""
        if self.at >= len(self.text):
            raise BadPattern("a '[' is not closed")
        char = self.text[self.at]
        self.at += 1
        if char != "\\":
            return ord(char)
        if self.text.startswith("b", self.at):
            self.at += 1
            return 8
        if (shorthand := self._shorthand()) is not None:
            self.at += len(shorthand) - 1
            return shorthand
        return self._code()
