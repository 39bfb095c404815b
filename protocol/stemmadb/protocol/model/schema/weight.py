"""What searching for a pattern may cost, told from the pattern before any text is seen (QUERY-3).

The engine keeps what it learns about a pattern in tables of bounded size. While they suffice it reads a text at a few
nanoseconds for each character; when they do not it follows every place of the pattern at once, for each character.
Tables suffice where there are few places: n of them can be combined in at most 2^n ways. Both rates were measured.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stemmadb.protocol.model.schema.work import SchemaRun, spend

PLACES_MAX: Final = 8
"""Places of a pattern for which the engine's tables suffice, whatever the text."""
_READ_FAST: Final = 16  # characters for a unit, with tables
_STEPS: Final = 24  # steps at one character for a unit, beside the one that a character costs without tables
_SIZE_MAX: Final = 1 << 30  # far above what the engine accepts
_PLAIN = re.compile(r"\^?[^\\^$.*+?()\[\]{}|]*\$?")
_COUNTS = re.compile(r"\{([0-9]+)(,?)([0-9]*)\}")


class Size(NamedTuple):
    """The places where a character stands, and the steps from place to place, with all repetitions written out."""

    places: int = 0
    steps: int = 0

    def plus(self, other: Size) -> Size:
        return Size(min(self.places + other.places, _SIZE_MAX), min(self.steps + other.steps, _SIZE_MAX))

    def times(self, count: int) -> Size:
        return Size(self.places * count, self.steps * count)


class Weight:
    """Counts along with the one pass over a pattern that translates it."""

    def __init__(self, pattern: str) -> None:
        self._around: list[Size] = []
        self._before = Size()
        self._last = Size()
        self._endless = False
        self._from_start = pattern.startswith("^")
        self._plain = _PLAIN.fullmatch(pattern) is not None  # such a text is looked for as it is

    def place(self) -> None:
        """One character, or one of a class."""
        self._add(Size(1, 1))

    def step(self) -> None:
        """What takes no character: an anchor, the edge of a word."""
        self._add(Size(0, 1))

    def either(self) -> None:
        self._from_start = self._from_start and len(self._around) > 0
        self.step()

    def open(self) -> None:
        self._around.append(self._before.plus(self._last))
        self._before = self._last = Size()

    def close(self) -> None:
        inner = self._before.plus(self._last)
        self._before = self._around.pop() if self._around else Size()  # the engine refuses what is not balanced
        self._last = inner.plus(Size(0, 1))

    def repeat(self, written: str) -> None:
        """`*`, `+`, `?`, `{2}`, `{2,}` or `{2,3}` behind what came last."""
        found = _COUNTS.fullmatch(written)
        if found is None:
            self._endless = self._endless or written != "?"
        elif found[2] and not found[3]:
            self._endless = True
        count = int(found[3] or found[1]) if found else 1
        choice = Size(0, 0 if found and not found[2] else 1)
        self._last = self._last.plus(choice).times(max(count, 1))

    def cost(self) -> Cost:
        """What the pattern costs, once it was all counted."""
        size = self._before.plus(self._last)
        few = self._plain or size.places <= PLACES_MAX
        ends = self._from_start and not self._endless
        return Cost(0 if few else _STEPS + size.steps, size.places + 1 if ends else _SIZE_MAX)

    def _add(self, size: Size) -> None:
        self._before = self._before.plus(self._last)
        self._last = size


class Cost(NamedTuple):
    """`steps` for a character, 0 where tables suffice; `reads` characters at most, from the start of a text."""

    steps: int
    reads: int

    def pay(self, text: str, run: SchemaRun) -> None:
        """Takes the search through this text from what is left; a character may be several bytes to the engine."""
        length = min(len(text), self.reads) * (1 if text.isascii() else 3)
        spend(run, length * self.steps // _STEPS if self.steps else length // _READ_FAST)
