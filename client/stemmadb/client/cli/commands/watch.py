"""`stemmadb watch`: what is happening, until Ctrl-C."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import click

from stemmadb.client import Change, Space
from stemmadb.client.cli import layouts
from stemmadb.client.cli.commands import answers
from stemmadb.client.cli.commands.windows import window_options
from stemmadb.client.cli.commands.words import read_json_option
from stemmadb.client.cli.completer import complete_ids
from stemmadb.client.cli.connection import Target, branch_options, now, run, viewer
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.safe_text import Viewer, counted
from stemmadb.client.reading.queries import Schema
from stemmadb.client.reading.windows import WindowOptions
from stemmadb.protocol.model.query.query import EVERY

LOOK_SECONDS: Final = 0.5
"""How often it is looked whether the connection is there."""


@click.command()
@click.argument("selector", default=EVERY, shell_complete=complete_ids)
@window_options
@click.option(
    "--schema",
    callback=read_json_option,
    metavar="JSON|@FILE",
    help="A JSON Schema that entities must match; links it names are followed.",
)
@click.option("--changes", type=click.IntRange(min=1), metavar="N", help="Stop after N changes.")
@branch_options
@click.pass_obj
def watch(
    shell: CliContext,
    target: Target,
    selector: str,
    schema: Schema | None,
    changes: int | None,
    window: WindowOptions,
) -> dict[str, object]:
    """Print what enters, changes and leaves an answer, as it happens, until Ctrl-C. First comes what is there.

    SELECTOR is an id, or a prefix that ends with '*'. With --order and --limit it shows what enters and leaves the
    first N. With --json each change is a line, and the last one sums up.
    Exits with 130 after Ctrl-C, and with 0 after --changes N.

    Example: stemmadb watch 'urn:todo:*' --space todo
    """
    watching = _Watching(shell, target.branch, viewer(target))

    async def work(space: Space) -> None:
        reporting = asyncio.create_task(watching.report_connection(space))
        try:
            async with space.watch(selector, schema=schema, **window) as seen:
                async for change in seen:
                    watching.report(change)
                    if watching.count == changes:
                        return
        finally:
            reporting.cancel()

    try:
        run(target, work)
    except click.Abort:  # Ctrl-C is how a watch ends; the terminal has shown it on the line
        shell.stopped()
        if sys.stderr.isatty():
            shell.warn("")
    shell.warn(f"{counted(watching.count, 'change')}, up to version {watching.version}.")
    return {"changes": watching.count, "version": watching.version, "branch": target.branch}


class _Watching:
    """What was told so far."""

    def __init__(self, shell: CliContext, branch: str, looks: Viewer) -> None:
        self._shell = shell
        self._branch = branch
        self._looks = looks
        self.count = 0
        self.version = 0

    def report(self, change: Change) -> None:
        self.count += 1
        self.version = change.version
        self._shell.answer(answers.of_change(change))
        self._shell.show(layouts.change(change, now(), self._looks, branch=self._branch))

    async def report_connection(self, space: Space) -> None:
        """A lost connection comes back by itself; whoever looks wants to know that nothing comes meanwhile."""
        was_open = True
        while True:
            is_open = space.status().connection == "open"
            if is_open != was_open:
                said = "Connected again." if is_open else "The connection is lost. It is tried again, until Ctrl-C."
                self._shell.warn(said)
            was_open = is_open
            await asyncio.sleep(LOOK_SECONDS)
