"""What the commands share: the data directory, the secret, and one question to the memory server."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from stemmadb.memory.process import finding, places
from stemmadb.memory.process.finding import SECRET_VARIABLE, MemoryClient

F = TypeVar("F", bound=Callable[..., Any])

data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"The data directory; default: ${places.DATA_VARIABLE}, or the user's own.",
)
space_name_option = click.option("--space", help="The memory space, if the server has more than one.")


def asks(function: F) -> F:
    """Adds the options of a command that asks the memory server."""
    return data_option(space_name_option(function))


def directory(data: Path | None) -> Path:
    return places.data_directory() if data is None else data.absolute()


def ask(data: Path | None, space: str | None, operation: str, **arguments: object) -> Mapping[str, Any]:
    """One question, with the secret of the environment."""
    note = finding.find_or_start(directory(data))
    given = {name: value for name, value in arguments.items() if value is not None}
    with MemoryClient(note, secret=os.environ.get(SECRET_VARIABLE), space=space) as client:
        return client.ask(operation, given)
