"""From what a caller asks to a full-text expression. Nothing that a caller writes is taken for an operator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

SHORTEST: Final = 2
"""Words of fewer characters are not looked for: they are searched as a substring instead."""
COMMON_SHARE: Final = 0.2
"""A word in a larger share of all rows is left out while others remain: it ranks little and costs much."""
_WORD: Final = re.compile(r"\w+")
_STOP_WORDS: Final = """
a about after all also am an and any are as at be because been before being but by can could did do does doing
for from had has have having he her here hers him his how i if in into is it its just me more most my no nor not
of off on once only or other our out over own same she should so some such than that the their them then there
these they this those through to too under until up very was we were what when where which while who whom why will
with would you your
"""
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())


class WordQuery(NamedTuple):
    """The words that are looked for."""

    words: tuple[str, ...]
    is_common: bool
    """Whether every one of them is in so many rows that only the newest rows are ranked."""


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, each once, without stop words unless there are only those."""
    found = dict.fromkeys(word for word in _WORD.findall(text.lower()) if len(word) >= SHORTEST)
    kept = tuple(word for word in found if word not in STOP_WORDS)
    return kept or tuple(found)


def chosen(words: Sequence[str], share: Callable[[str], float]) -> WordQuery:
    """Drops words that are nearly everywhere, unless that leaves none that is somewhere.

    `share` is a word's share of all rows.
    """
    rare = tuple(word for word in words if 0 < share(word) <= COMMON_SHARE)
    return WordQuery(rare, is_common=False) if rare else WordQuery(tuple(words), is_common=True)


def expression(words: Iterable[str], namespaces: Iterable[str]) -> str:
    """An FTS5 expression: any of the words, in one of the namespaces.

    >>> expression(["cats", "near"], ["n7", "n9"])
    'ns : ("n7" OR "n9") AND text : ("cats" OR "near")'
    """
    return f"ns : ({_any_of(namespaces)}) AND text : ({_any_of(words)})"


def _any_of(words: Iterable[str]) -> str:
    return " OR ".join('"' + word.replace('"', '""') + '"' for word in words)
