"""Where commands come from: the entry points `stemmadb.commands`, one for each command, under its name.

The client needs no server to be there, and a command loads no module of another one: scripts run many, and all
modules together take longer to load than most commands take to run. What follows a dot in the name of an entry
point is another way of the same command: `status` and `status.data` are one, see `ways`.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Final

import click

from stemmadb.client.cli.for_programs import with_json
from stemmadb.client.cli.ways import joined

ENTRY_POINTS: Final = "stemmadb.commands"
OURS: Final = "stemmadb"


class LoadedCommand:
    """What one name stands for."""

    def __init__(self, points: list[EntryPoint]) -> None:
        self.command: click.Command | None = None
        self.is_partial = False
        """Whether some of it was left out, since what it needs is not installed."""
        for point in points:
            command = _loaded(point)
            if command is None:
                self.is_partial = True
            else:
                self.command = command if self.command is None else joined(self.command, command)


def points_by_command() -> dict[str, list[EntryPoint]]:
    """The entry points of every command; nothing is loaded."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=ENTRY_POINTS):
        found.setdefault(point.name.partition(".")[0], []).append(point)
    return found


def _loaded(point: EntryPoint) -> click.Command | None:
    """The command, or None if a package that it needs is not there."""
    try:
        command = point.load()
    except ModuleNotFoundError as missing:
        if not _is_not_installed(missing, point):
            raise
        return None
    assert isinstance(command, click.Command), f"{point.value} is a command"
    return with_json(command)


def _is_not_installed(missing: ModuleNotFoundError, point: EntryPoint) -> bool:
    """Whether a package is not there, as opposed to a module of a package that is: that is an internal error."""
    package = (missing.name or "").partition(".")[0]
    if package != OURS:
        return bool(package)
    return f"{point.module}.".startswith(f"{missing.name}.")
