"""The fenced blocks of a page, the directives before them, and the page with other output in its place. Pure.

A block `console` is a transcript: lines that begin with `$ ` are commands, `> ` goes on with one, anything else is
output. A block `py title="app.py"` is a file. A comment in front of a block says how it is run:

    <!-- run: exit 1 -->            its last command ends with this code
    <!-- run: live until "left" --> its last command goes on while the next block runs, until it has printed this
    <!-- run: in any order -->      it prints the same lines, in an order that chance decides
    <!-- run: no, it never ends --> it is not run, and why
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

PROMPT: Final = "$ "
MORE: Final = "> "
FENCE: Final = "```"
DIRECTIVE: Final = re.compile(r"<!-- run: (.+?) -->")
_TITLE: Final = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True, slots=True)
class Step:
    """A command as it is written, and what it printed."""

    command: str
    output: tuple[str, ...] = ()

    @property
    def typed(self) -> str:
        """What the shell gets."""
        return self.command.replace(f"\n{MORE}", "\n")

    def lines(self) -> list[str]:
        return [f"{PROMPT}{self.command}", *self.output]


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: where its text stands in the page, and what it is."""

    start: int
    """The line of its first text, from 0."""
    end: int
    """The line of its closing fence."""
    language: str
    title: str | None
    text: tuple[str, ...]
    directive: str = ""
    steps: tuple[Step, ...] = field(default=())

    @property
    def is_skipped(self) -> bool:
        return self.directive.startswith("no")

    @property
    def is_unordered(self) -> bool:
        return self.directive == "in any order"

    @property
    def exit_code(self) -> int:
        return int(self.directive.removeprefix("exit ")) if self.directive.startswith("exit ") else 0

    @property
    def live_until(self) -> str | None:
        """What a command that goes on prints last."""
        found = re.fullmatch(r'live until "(.+)"', self.directive)
        return found[1] if found else None


def read(page: str) -> list[Block]:
    """The blocks of a page in their order."""
    lines, blocks, directive, at = page.splitlines(), [], "", 0
    while at < len(lines):
        line = lines[at]
        if found := DIRECTIVE.fullmatch(line.strip()):
            directive = found[1]
        elif line.startswith(FENCE):
            end = next(place for place in range(at + 1, len(lines)) if lines[place].rstrip() == FENCE)
            blocks.append(_block(lines[at], at + 1, tuple(lines[at + 1 : end]), directive))
            directive, at = "", end
        elif line.strip():
            directive = ""
        at += 1
    return blocks


def _block(fence: str, start: int, text: tuple[str, ...], directive: str) -> Block:
    language, _, info = fence.removeprefix(FENCE).partition(" ")
    title = _TITLE.search(info)
    steps = _steps(text) if language in ("console", "sh") else ()
    return Block(start, start + len(text), language, title[1] if title else None, text, directive, steps)


def _steps(text: Sequence[str]) -> tuple[Step, ...]:
    """Text before the first command is none of ours: such a block is not a transcript."""
    steps: list[Step] = []
    for line in text:
        if line.startswith(PROMPT):
            steps.append(Step(line.removeprefix(PROMPT)))
        elif not steps:
            return ()
        elif line.startswith(MORE) and not steps[-1].output:
            steps[-1] = Step(f"{steps[-1].command}\n{line}")
        else:
            steps[-1] = Step(steps[-1].command, (*steps[-1].output, line))
    return tuple(steps)


def rewritten(page: str, outputs: Mapping[int, Sequence[Step]]) -> str:
    """The page with these steps in the blocks that begin at these lines."""
    lines = page.splitlines()
    for block in reversed(read(page)):
        if block.start in outputs:
            lines[block.start : block.end] = [line for step in outputs[block.start] for line in step.lines()]
    return "\n".join(lines) + "\n"
