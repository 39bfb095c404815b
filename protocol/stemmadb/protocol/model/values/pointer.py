"""JSON Pointers (RFC 6901) and when two of them overlap.

A pointer in canonical text form is its own identity: the only escapes are `~0` and `~1`, so two texts name the
same place only if they are equal, and overlap can be decided on the text without parsing it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from stemmadb.protocol.errors import InvalidPointer

ROOT: Final = ""
_BAD_ESCAPE = re.compile(r"~(?![01])")
_INDEX = re.compile(r"0|[1-9][0-9]*")
SHORT: Final = 64
"""The longest pointer in characters whose tokens are remembered."""
_INDEX_DIGITS_MAX = 12  # no array is longer; it keeps the conversion of a long run of digits from costing


def parse(text: str) -> tuple[str, ...]:
    """The tokens of a pointer, unescaped; `InvalidPointer` if it is not one."""
    if not isinstance(text, str):
        raise InvalidPointer(pointer=repr(text)[:80], why=f"it is of type {type(text).__name__}, not a string")
    return parse_short(text) if len(text) <= SHORT else _parse(text)


def _parse(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    if text[0] != "/":
        raise InvalidPointer(pointer=shown(text), why="it does not begin with '/'")
    if "~" not in text:
        return tuple(text[1:].split("/"))
    if _BAD_ESCAPE.search(text):
        raise InvalidPointer(pointer=shown(text), why="'~' must be followed by 0 or 1")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in text[1:].split("/"))


parse_short = lru_cache(maxsize=4096)(_parse)  # the same few paths are written again and again


def write(tokens: Iterable[str]) -> str:
    """The canonical text of the tokens."""
    return "".join("/" + escape(token) for token in tokens)


def escape(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")


def index(token: str, length: int) -> int | None:
    """The array index a token names, up to and including `length`; None for `01`, `-1`, `1e0`, `-` and beyond."""
    if len(token) > _INDEX_DIGITS_MAX or _INDEX.fullmatch(token) is None:
        return None
    number = int(token)
    return number if number <= length else None


def overlaps(left: str, right: str) -> bool:
    """Whether one of the two is the other or lies inside it."""
    if len(left) > len(right):
        left, right = right, left
    return right.startswith(left) and (len(left) == len(right) or right[len(left)] == "/")


def ancestors(text: str) -> Iterator[str]:
    """The pointer itself and every one above it, the root last."""
    yield text
    while text:
        text = parent(text)
        yield text


def parent(text: str) -> str:
    """The pointer one level up; the root's parent is the root."""
    return text[: text.rfind("/")] if text else ROOT


def last(text: str) -> str:
    """The last segment as written, still escaped; empty for the root."""
    return text[text.rfind("/") + 1 :] if text else ""


def shown(text: str) -> str:
    """Enough of a bad pointer to recognise it, safe to print and to send."""
    return text[:200].encode("utf-8", "backslashreplace").decode()
