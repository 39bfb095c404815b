"""The options of commands that show a window of an answer: --order, --limit and --after (QUERY-8)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
import msgspec

from stemmadb.client.cli.commands.words import read_json_option
from stemmadb.client.reading.windows import WindowOptions
from stemmadb.protocol.errors import InvalidQuery
from stemmadb.protocol.model.query.window import LIMIT_MAX, AfterRow

_OPTIONS = (
    click.option(
        "--order",
        multiple=True,
        metavar="POINTER",
        help="Put entities in the order of this part of their values, such as /rank; -/rank shows the highest first.",
    ),
    click.option("--limit", type=click.IntRange(1, LIMIT_MAX), metavar="N", help="Show the first N only."),
    click.option(
        "--after",
        callback=read_json_option,
        metavar="JSON|@FILE",
        help="Show those after the page before: 'after' of its --json answer.",
    ),
)


def window_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options; the command gets them as one argument `window`."""

    @wraps(command)
    def with_window(*args: Any, order: tuple[str, ...], limit: int | None, after: object, **options: Any) -> Any:
        window = WindowOptions(order=order, limit=limit, after=read_after(after))
        return command(*args, window=window, **options)

    for option in reversed(_OPTIONS):
        with_window = option(with_window)
    return with_window


def read_after(written: object) -> AfterRow | None:
    """The row, as --json printed it; `InvalidQuery` if it is something else."""
    if written is None:
        return None
    try:
        return msgspec.convert(written, AfterRow)
    except msgspec.ValidationError as error:
        raise InvalidQuery(why=f"--after is not what --json printed as 'after' ({error})") from None
