"""`stemmadb memory op`: one JSON request on standard input, one JSON answer on standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from stemmadb.memory.commands.asking import ask, asks


@click.command()
@asks
@click.pass_obj
def op(shell: Any, data: Path | None, space: str | None) -> Mapping[str, object]:
    """Read, write or update memory: one JSON request from standard input, one JSON answer. Exit code 1 for an error.

    Example: stemmadb memory op < request.json
    """
    from msgspec import json  # noqa: PLC0415

    answer = _answer(data, space, sys.stdin.buffer.read())
    shell.say_lines(json.format(json.encode(answer), indent=2).decode())
    if answer["status"] == "error":
        shell.exit_code = 1
    return answer


def _answer(data: Path | None, space: str | None, body: bytes) -> Mapping[str, Any]:
    """What is no JSON is refused here; everything else is for the memory server to judge."""
    from stemmadb.memory.interfaces.json.answers import refusal  # noqa: PLC0415
    from stemmadb.memory.rules.lessons import gates  # noqa: PLC0415
    from stemmadb.memory.rules.lessons.faults import LessonRefused  # noqa: PLC0415

    try:
        request = gates.read_request(body)
    except LessonRefused as refused:
        return refusal(refused)
    return ask(data, space, "op", request=request)
