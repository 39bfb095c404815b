"""The two shapes in which commands and the console show things: a sheet of columns, and lines of pieces.

Both are plain data. They know how to draw themselves with rich, which is imported only when something is drawn, since
that takes a third of the time in which a command starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from stemmadb.client.cli.escapes import clean

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table
    from rich.text import Text

NARROW: Final = 76
"""Below so many columns of a terminal a sheet leaves out what matters least."""
WIDE: Final = 150
"""From so many on a cell is shown in its long form."""
GAP: Final = 2
"""Blanks between columns."""


class TextCell(NamedTuple):
    """A text and how it looks; `wide` is its long form where there is room. A JSON text is coloured as JSON."""

    text: str
    style: str = ""
    wide: str | None = None
    is_json: bool = False
    narrow: str | None = None
    """Its short form on a narrow terminal."""


class Column(NamedTuple):
    """A column. One that is `whole` is never cut, one that is `cut` has one line, and others are folded."""

    title: str
    whole: bool = False
    cut: bool = False
    spare: bool = False
    """Left out of a narrow terminal."""
    right: bool = False


Given: TypeAlias = TextCell | str


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows under titles."""

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Given]]
    title: str | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        yield _table(self, options.max_width)


class TextLine(NamedTuple):
    """Pieces of text after one another; `cut` to one line, or folded."""

    pieces: tuple[Given, ...]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class TextLines:
    """Lines under one another."""

    lines: Sequence[TextLine]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for line in self.lines:
            yield _joined(line, options.max_width)


Shape: TypeAlias = TextTable | TextLines


def line(*pieces: Given, cut: bool = False) -> TextLine:
    return TextLine(pieces, cut)


def lines(*given: TextLine) -> TextLines:
    return TextLines(given)


# ---------------------------------------------------------------- drawing


def _table(sheet: TextTable, width: int) -> Table:
    from rich.table import Table  # noqa: PLC0415

    shown = [index for index, column in enumerate(sheet.columns) if width >= NARROW or not column.spare]
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, GAP, 0, 0),
        header_style="bold",
        title=sheet.title and clean(sheet.title),
    )
    for index in shown:
        column = sheet.columns[index]
        table.add_column(
            column.title,
            no_wrap=column.whole,
            overflow="ellipsis" if column.cut or column.whole else "fold",
            justify="right" if column.right else "left",
        )
    for row in sheet.rows:
        table.add_row(*(_text(row[index], width, cut=sheet.columns[index].cut) for index in shown))
    return table


def _joined(given: TextLine, width: int) -> Text:
    from rich.text import Text  # noqa: PLC0415

    joined = Text(no_wrap=given.cut, overflow="ellipsis" if given.cut else "fold")
    for piece in given.pieces:
        joined.append_text(_text(piece, width, cut=False))
    return joined


def _text(given: Given, width: int, *, cut: bool) -> Text:
    """Cleaned, and never read as markup: what is shown was written by others."""
    from rich.highlighter import JSONHighlighter  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    cell = given if isinstance(given, TextCell) else TextCell(given)
    written = cell.wide if cell.wide is not None and width >= WIDE else cell.text
    if cell.narrow is not None and width < NARROW:
        written = cell.narrow
    text = Text(clean(written), style=cell.style, no_wrap=cut or None, overflow="ellipsis" if cut else "fold")
    if cell.is_json:
        JSONHighlighter().highlight(text)
    return text
