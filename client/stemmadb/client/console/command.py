"""`stemmadb console`: a prompt to query and browse any branch at any version."""

from __future__ import annotations

from pathlib import Path

import click

from stemmadb.client.cli.connection import Target, branch_options, finished
from stemmadb.client.cli.context import CliContext


@click.command()
@click.option("--at", metavar="MOMENT", help="Start at a version (42), a tag (tag:v1) or a time ('10 minutes ago').")
@click.option("--web", is_flag=True, help="Open the web console in a browser, and let it in for 8 hours.")
@click.option("--write", is_flag=True, help="Allow writes; the console is read-only otherwise.")
@click.option(
    "--journal",
    type=click.Path(file_okay=False, path_type=Path),
    help="A directory for the journal of undecided and rejected writes; needs --write.",
)
@branch_options
@click.pass_obj
def console(
    shell: CliContext, target: Target, at: str | None, web: bool, write: bool, journal: Path | None
) -> dict[str, object]:
    """Query and browse any branch at any version, at a prompt; or answer the lines of a pipe.

    'help' there lists its commands. From a pipe it goes on after an error, and exits as the first one says. With
    --json every answer is a line, and the last one sums up.

    With --web a browser opens the server's web console instead. Its page has a key of its own, and gets the right to
    read, with --write also to write, after a click there. The command then says how to take that back.

    Example: stemmadb console --space todo
    """
    if web:
        if at is not None or journal is not None:
            raise click.UsageError("--at and --journal are not for --web.")
        from stemmadb.client.console.web import open_web  # noqa: PLC0415

        return open_web(shell, target, may_write=write)
    if journal is not None and not write:
        raise click.UsageError("--journal needs --write, because a journal sends the writes it holds.")
    # Imported here: the prompt takes longer to load than all other commands together.
    from stemmadb.client.console.runner import run  # noqa: PLC0415

    return finished(lambda: run(shell, target, may_write=write, journal=journal, at=at), writes=write)
