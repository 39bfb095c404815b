"""Shapes of the command line as plain text."""

from __future__ import annotations

from rich.console import Console

from stemmadb.client.cli.shapes import Shape


def text_of(shape: Shape, width: int) -> str:
    """The shape without colours, in so many columns; no line ends with blanks."""
    console = Console(width=width, color_system=None, force_terminal=False, emoji=False)
    with console.capture() as captured:
        console.print(shape)
    return "\n".join(one.rstrip() for one in captured.get().splitlines())
