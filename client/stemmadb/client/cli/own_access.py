"""Asks before the caller writes an access list that leaves itself out: it could not change the list back."""

from __future__ import annotations

from typing import Final

import click

from stemmadb.client.cli.context import CliContext

QUESTION: Final = "You ({did}) are not in the new access list, and cannot change it back. Write it?"

yes_option = click.option("--yes", is_flag=True, help="Do not ask before you give up your own rights.")


def confirm_giving_up(shell: CliContext, did: str, *, yes: bool) -> None:
    """Returns if the caller means it. A program cannot be asked, so it has to say `--yes`."""
    if yes:
        return
    if shell.is_json:
        raise click.UsageError("This takes your own rights: confirm with --yes.")
    if not click.confirm(QUESTION.format(did=did), err=True):
        raise click.Abort("The access list was not changed.")
