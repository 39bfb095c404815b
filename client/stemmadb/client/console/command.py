"""`stemmadb console`: a prompt to query and browse any branch at any version."""

from __future__ import annotations

from pathlib import Path

import click

from stemmadb.client.cli.connecting import Target, branch_options, finished
from stemmadb.client.cli.shell import Shell


@click.command()
@click.option("--at", metavar="MOMENT", help="Begin at a version (42), a tag (tag:v1) or a time ('10 minutes ago').")
@click.option("--write", is_flag=True, help="Let it write; otherwise it only reads.")
@click.option(
    "--journal",
    type=click.Path(file_okay=False, path_type=Path),
    help="A directory that keeps writes which are not decided or were refused; needs --write.",
)
@branch_options
@click.pass_obj
def console(shell: Shell, target: Target, at: str | None, write: bool, journal: Path | None) -> dict[str, object]:
    """Query and browse any branch at any version, at a prompt; or answer the lines of a pipe.

    'help' there lists its commands. From a pipe it goes on after an error, and exits as the first one says. With
    --json every answer is a line, and the last one sums up.

    Example: stemmadb console --space todo
    """
    if journal is not None and not write:
        raise click.UsageError("A journal sends what it keeps: say --write with --journal.")
    # Imported here: the prompt takes longer to load than all other commands together.
    from stemmadb.client.console.running import run  # noqa: PLC0415

    return finished(lambda: run(shell, target, may_write=write, journal=journal, at=at), writes=write)
