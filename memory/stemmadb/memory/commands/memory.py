"""The group `stemmadb memory`."""

from __future__ import annotations

import click

from stemmadb.memory.commands.files import files


@click.group()
def memory() -> None:
    """Agent memory: plans, decisions and what agents learned.

    Example: stemmadb memory files sync
    """


memory.add_command(files)
