"""What people write on the command line, read and checked: JSON, files of it, and groups that list by default."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import click

from stemmadb.client.cli.connection import read_moment
from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.group import NamedCommands
from stemmadb.protocol.model.values.json_values import Value

STANDARD: Final = "-"
FILE: Final = "@"
AROUND: Final = 20
"""How many letters before and after a mistake are shown."""

note_option: Final = click.option("--note", metavar="TEXT", help="A message stored with the commit.")
limit_option: Final = click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="The maximum number of results."
)
since_option: Final = click.option(
    "--since", callback=read_moment, metavar="MOMENT", help="Only commits after this moment."
)
until_option: Final = click.option(
    "--until", callback=read_moment, metavar="MOMENT", help="Only commits up to this moment."
)


def read_json_option(ctx: click.Context, param: click.Parameter, text: str | None) -> Value:  # noqa: ARG001
    """The callback of what takes JSON: as it is written, from a file with `@`, or from standard input with `-`."""
    if text is None:
        return None
    if text == STANDARD:
        return read_json(sys.stdin.buffer.read(), "standard input")
    if text.startswith(FILE):
        return read_json(_content(Path(text[len(FILE) :])), text[len(FILE) :])
    return read_json(text, param.human_readable_name.partition("|")[0])


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise click.UsageError(f"{str(file)!r} cannot be read: {error.strerror}.") from None


def read_json(text: str | bytes, source: str) -> Value:
    """The value; `UsageError` that shows the place if it is not JSON."""
    try:
        written = text if isinstance(text, str) else text.decode()
        value: Value = json.loads(written, object_pairs_hook=_once, parse_constant=_no_number)
    except UnicodeDecodeError as wrong:
        raise click.UsageError(f"{source} is not UTF-8, at byte {wrong.start}.") from None
    except json.JSONDecodeError as wrong:
        raise click.UsageError(_sentence(wrong, source)) from None
    except (ValueError, RecursionError) as wrong:
        why = "it is nested too deeply" if isinstance(wrong, RecursionError) else wrong
        raise click.UsageError(f"{source} is not JSON that can be stored: {why}.") from None
    return value


def _sentence(wrong: json.JSONDecodeError, source: str) -> str:
    where = f"line {wrong.lineno}, column {wrong.colno}" if "\n" in wrong.doc else f"column {wrong.colno}"
    near = wrong.doc[max(0, wrong.pos - AROUND) : wrong.pos]
    after = wrong.doc[wrong.pos : wrong.pos + AROUND]
    hint = "" if wrong.pos or not wrong.doc[:1].isalpha() else " A text is written with quotes: '\"text\"'."
    return f"{source} is not JSON at {where}: {wrong.msg}, at >>> in {clean(f'{near}>>>{after}')} .{hint}"


def _once(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    """An object whose keys are all different: of two one would be lost without a word."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {json.dumps(twice)} occurs twice")
    return made


def _no_number(name: str) -> Value:
    raise ValueError(f"{name} is not a number")


class ListingGroup(NamedCommands):
    """A group that lists what there is when it is not told what to do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks = ctx.resilient_parsing or (bool(args) and args[0] in ctx.help_option_names)
        if not asks and (not args or args[0].startswith("-")):
            args = ["list", *args]
        return super().parse_args(ctx, args)
