"""Commands that work in two ways: through a server, and on a data directory that is named with `--data`.

The client brings the one, the server the other, under the same name; neither knows of the other.
"""

from __future__ import annotations

from copy import copy
from inspect import cleandoc
from typing import Any, Final

import click

DATA: Final = "--data"
STORAGE: Final = "--storage"
"""A database in place of the directory."""


class TwoWays(click.Command):
    """Has the options of both. `--data` or `--storage` among the words chooses the one that has it."""

    def __init__(self, through: click.Command, files: click.Command) -> None:
        known = {option for param in through.params for option in (*param.opts, param.name)}
        more = [_optional(param) for param in files.params if known.isdisjoint((*param.opts, param.name))]
        super().__init__(through.name, params=[*through.params, *more], help=_help(through, files))
        self._through = through
        self._files = files

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if extra.get("resilient_parsing") or (parent is not None and _wants_help(args, parent)):
            return super().make_context(info_name, args, parent, **extra)
        chosen = self._files if _names_data(args) else self._through
        return chosen.make_context(info_name, args, parent, **extra)


def joined(one: click.Command, other: click.Command) -> click.Command:
    """Two commands of one name as one: `--data` tells which is meant. Otherwise the later one is taken.

    Two groups are one group with the commands of both.
    """
    if isinstance(one, click.Group) and isinstance(other, click.Group):
        return _one_group(one, other)
    if _has_data(one) == _has_data(other):
        return other
    return TwoWays(other, one) if _has_data(one) else TwoWays(one, other)


def _one_group(one: click.Group, other: click.Group) -> click.Group:
    both = copy(one)
    shared = {name: joined(one.commands[name], other.commands[name]) for name in one.commands.keys() & other.commands}
    both.commands = {**one.commands, **other.commands, **shared}
    return both


def _has_data(command: click.Command) -> bool:
    return any(DATA in param.opts for param in command.params)


def _names_data(args: list[str]) -> bool:
    words = args[: args.index("--")] if "--" in args else args
    return any(word in (DATA, STORAGE) or word.startswith((f"{DATA}=", f"{STORAGE}=")) for word in words)


def _wants_help(args: list[str], parent: click.Context) -> bool:
    return any(word in parent.help_option_names for word in args)


def _help(through: click.Command, files: click.Command) -> str:
    """Docstrings are as they were written, and click takes the indent away from the whole."""
    return f"{cleandoc(through.help or '')}\n\nWith {DATA}: {cleandoc(files.help or '')}"


def _optional(param: click.Parameter) -> click.Parameter:
    """The same without the default that it has where it is the only way."""
    copied = copy(param)
    if isinstance(copied, click.Option):
        copied.show_default = False
    return copied
