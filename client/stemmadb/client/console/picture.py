"""The picture of branches in words and colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stemmadb.client.cli import shapes
from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.safe_text import Viewer, counted, note_text
from stemmadb.client.cli.shapes import TextLines, line
from stemmadb.client.console.graph import GraphRow, Mark
from stemmadb.client.reading.branches import Branch
from stemmadb.client.reading.entries import LogEntry
from stemmadb.protocol.model.values.ids import BranchName

COLOURS: Final = ("green", "magenta", "cyan", "yellow", "blue", "red")
GAP: Final = "  "


def picture(rows: Sequence[GraphRow], branches: Sequence[Branch], viewer: Viewer) -> TextLines:
    """One line for each row: the letters, the version, and what happened."""
    colours = _colours(branches)
    width = max((len(str(row.mark.version)) for row in rows), default=0)
    return TextLines([_line(row, colours, viewer, width) for row in rows])


def _colours(branches: Sequence[Branch]) -> dict[BranchName, str]:
    oldest = sorted(branches, key=lambda branch: (branch.fork, branch.name))
    return {branch.name: COLOURS[at % len(COLOURS)] for at, branch in enumerate(oldest)}


def _line(row: GraphRow, colours: dict[BranchName, str], viewer: Viewer, width: int) -> shapes.TextLine:
    letters = [
        shapes.TextCell(cell.letter, colours.get(cell.branch, "") if cell.branch else "") for cell in row.cells
    ]
    mark = row.mark
    if mark.kind == "gap":
        text = f"{' ' * width}{GAP}{counted(mark.count, 'commit')}"
        return line(*letters, GAP, shapes.TextCell(text, "dim"), cut=True)
    version = shapes.TextCell(f"{mark.version:>{width}}", "bold")
    return line(*letters, GAP, version, GAP, *_words(mark, colours), *_about(mark.entry, viewer), cut=True)


def _words(mark: Mark, colours: dict[BranchName, str]) -> list[shapes.Given]:
    name = shapes.TextCell(clean(mark.branch), f"bold {colours[mark.branch]}")
    if mark.kind == "merge" and mark.other is not None:
        source = shapes.TextCell(clean(mark.other), f"bold {colours[mark.other]}")
        at = (mark.entry.details or {}).get("source_version") if mark.entry else None
        return [name, " <- ", source, f"@{at}"]
    if mark.kind == "fork":
        parent = f" from {clean(mark.other)}" if mark.other is not None else ""
        return [name, f" begins{parent}"]
    if mark.kind == "end":
        return [name, " was deleted"]
    if mark.kind == "here":
        return [name, shapes.TextCell(" you are here", "yellow")]
    return [name]


def _about(entry: LogEntry | None, viewer: Viewer) -> list[shapes.Given]:
    if entry is None:
        return []
    note = note_text(entry.note)
    said: list[shapes.Given] = [GAP, shapes.TextCell(note, "italic")] if note else []
    return [GAP, viewer.time(entry.time), GAP, viewer.person(entry.author), *said]
