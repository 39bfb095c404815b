"""`stemmadb completion`: the script that makes a shell complete commands, ids and branches."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from stemmadb.client.cli.context import CliContext

SHELLS: Final = ("bash", "zsh", "fish")
NAME: Final = "stemmadb"
VARIABLE: Final = "_STEMMADB_COMPLETE"


@click.command()
@click.argument("shell_name", metavar="|".join(SHELLS), type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell_name: str) -> dict[str, object]:
    """Print the script for a shell that completes commands, options, branches and ids.

    Example: stemmadb completion bash >> ~/.bashrc
    """
    shell = ctx.find_object(CliContext)
    found = get_completion_class(shell_name)
    assert shell is not None, "every command has one"
    assert found is not None, "click knows these shells"
    script = found(ctx.find_root().command, {}, NAME, VARIABLE).source()
    shell.say_lines(script.rstrip())
    return {"shell": shell_name, "script": script}
