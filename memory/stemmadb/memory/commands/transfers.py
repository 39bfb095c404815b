"""`stemmadb memory export|import`: decisions as JSON lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import click
import msgspec

from stemmadb.memory.commands.asking import ask, asks
from stemmadb.memory.commands.decisions import namespace_option
from stemmadb.memory.commands.project_namespace import project_namespace


@click.command()
@namespace_option
@asks
@click.pass_obj
def export(shell: Any, data: Path | None, space: str | None, ns: str | None) -> Mapping[str, object]:
    """Print every decision of a namespace as one line of JSON. An agent's rationale begins with '[via MCP]'.

    Example: stemmadb memory export --ns custom:acme.api > decisions.jsonl
    """
    found = ask(data, space, "export", ns=project_namespace(ns))
    for one in found["decisions"]:
        shell.say(msgspec.json.encode(one).decode())
    return found


@click.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@namespace_option
@asks
@click.pass_obj
def import_(shell: Any, data: Path | None, space: str | None, ns: str | None, file: IO[str]) -> Mapping[str, object]:
    """Import decisions from lines of JSON, all or none. A rationale that begins with '[via MCP' is an agent's.

    Example: stemmadb memory import decisions.jsonl --ns custom:acme.api
    """
    lines = []
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                lines.append(msgspec.json.decode(line))
            except (msgspec.DecodeError, UnicodeEncodeError) as broken:
                raise click.UsageError(f"Line {number} is no JSON: {broken}") from None
    done = ask(data, space, "import", ns=project_namespace(ns), decisions=lines)
    shell.say(f"{len(done['imported'])} decisions were imported, {len(done['known'])} were known")
    return done
