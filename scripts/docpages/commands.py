"""docs/reference/commands.md: every command with its arguments and options, from click itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final

import click

from stemmadb.client.cli import main

HEAD: Final = """\
# The command line
In a clone, `pip install -e .` installs the commands that talk to a server, and `pip install -e ".[server]"` also
those that run one and maintain its data. `stemmadb COMMAND --help` prints the same text as this page, which
`make reference` writes from the code. Scripts can rely on these exit codes:

| exit code | when |
|---|---|
| 0 | done |
| 1 | the answer is no: what you named is not there, `verify` found a break, a merge has conflicts under `fail` |
| 2 | wrong use |
| 3 | the server or the data directory cannot be reached or opened |
| 4 | refused |
| 130 | Ctrl-C, also when it ends `watch` |

With `--json` the last line of standard output is one JSON object; a command that failed prints
`{"error": {"code", "message"}}` ([the codes](errors.md)). Colours and progress bars are for terminals only;
`NO_COLOR` turns them off.

| variable | meaning |
|---|---|
| `STEMMADB_URL` | `--url`, the address of the server |
| `STEMMADB_SPACE` | `--space`, a local name or a `did:key` |
| `STEMMADB_HOME` | the directory of your keys and names, as `--config` |
| `STEMMADB_*` | settings of `stemmadb serve`, see [operating](../operating.md#settings) |
"""
EVERYWHERE: Final = frozenset({"--json", "--help"})
EXAMPLE: Final = re.compile(r"Examples?:\s*")


def page() -> str:
    context = click.Context(main, info_name="stemmadb")
    names = main.list_commands(context)
    index = ", ".join(f"[`{name}`](#{name})" for name in names)
    found = {name: main.get_command(context, name) for name in names}
    parts = [part for name, command in found.items() if command for part in _parts(command, f"stemmadb {name}", 2)]
    return "\n".join([HEAD, f"Commands: {index}.", "", *parts])


def _parts(command: click.Command, path: str, level: int) -> Iterator[str]:
    yield _entry(command, path, level)
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _parts(inner, f"{path} {name}", level + 1)


def _entry(command: click.Command, path: str, level: int) -> str:
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    title = path.removeprefix("stemmadb ")
    lines = [f"{'#' * level} {title}", "```", usage, "```", *_help(command)]
    rows = [_row(option, context) for option in command.params if _is_told(option)]
    return "\n".join([*lines, *(["| option | what it does |", "|---|---|", *rows, ""] if rows else [])])


def _help(command: click.Command) -> Iterator[str]:
    """What it says, paragraph by paragraph, with its examples as code."""
    text = inspect.cleandoc(command.help or command.short_help or "").replace("\b\n", "")
    for paragraph in re.split(r"\n\s*\n", text):
        if example := EXAMPLE.match(paragraph.strip()):
            shown = re.sub(r"\s*\n\s*", "\n", paragraph.strip()[example.end() :])
            yield from ("```sh", shown, "```", "")
        else:
            yield from (_safe(paragraph).strip(), "")


def _is_told(option: click.Parameter) -> bool:
    return isinstance(option, click.Option) and not option.hidden and not EVERYWHERE & set(option.opts)


def _row(option: click.Parameter, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None, "an option that is told has help"
    name, says = (re.sub(r"\s+", " ", part).strip() for part in record)
    return f"| `{_cell(name)}` | {_cell(_safe(says))} |"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _safe(text: str) -> str:
    """Words that Markdown would take for something else."""
    return re.sub(r"([*<_])", r"\\\1", text)
