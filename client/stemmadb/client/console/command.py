"""`stemmadb console`: a prompt to query and browse any branch at any version."""

from __future__ import annotations

from pathlib import Path

import click

from stemmadb.client.cli.connection import Target, branch_options, finished
from stemmadb.client.cli.context import CliContext


@click.command()
@click.option("--at", metavar="MOMENT", help="Start at a version (42), a tag (tag:v1) or a time ('10 minutes ago').")
@click.option("--write", is_flag=True, help="Allow writes; the console is read-only otherwise.")
@click.option(
    "--journal",
    type=click.Path(file_okay=False, path_type=Path),
    help="A directory for the journal of undecided and rejected writes; needs --write.",
)
@branch_options
@click.pass_obj
def console(
    shell: CliContext, target: Target, at: str | None, write: bool, journal: Path | None
) -> dict[str, object]:
    """Query and browse any branch at any version, at a prompt; or answer the lines of a pipe.

    'help' there lists its commands. From a pipe it goes on after an error, and exits as the first one says. With
    --json every answer is a line, and the last one sums up.

    Example: stemmadb console --space todo
    """
    if journal is not None and not write:
        raise click.UsageError("--journal needs --write, because a journal sends the writes it holds.")
    # Imported here: the prompt takes longer to load than all other commands together.
    from stemmadb.client.console.runner import run  # noqa: PLC0415

    return finished(lambda: run(shell, target, may_write=write, journal=journal, at=at), writes=write)
