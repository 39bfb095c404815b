"""`--json`, which every command has."""

from __future__ import annotations

from copy import copy

import click


def with_json(command: click.Command) -> click.Command:
    """The same command with one more option, which `main` has looked for already; so have its own commands."""
    copied = copy(command)
    if not any("--json" in option.opts for option in command.params):
        says = "Print one JSON object as the last line, for programs."
        copied.params = [*command.params, click.Option(["--json"], is_flag=True, expose_value=False, help=says)]
    if isinstance(copied, click.Group):
        copied.commands = {name: with_json(one) for name, one in copied.commands.items()}
    return copied
