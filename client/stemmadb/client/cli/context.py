"""What a command says, to a person or to a program, and how far it has come.

Colours are for terminals, and never with NO_COLOR. What goes elsewhere has neither colours nor progress, and as many
columns as it needs, unless COLUMNS says how many there are.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final, TextIO, TypeAlias

import click
import msgspec

from stemmadb.client.cli import exits
from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.safe_text import counted
from stemmadb.client.cli.shapes import Shape
from stemmadb.protocol.errors import StemmaError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

QUICK_SECONDS: Final = 0.5
"""What ends sooner needs no progress bar."""
ROOM: Final = 100_000
"""The columns of a file or a pipe: nothing is cut there."""

Show: TypeAlias = Callable[[str, int, int | None], None]
"""Takes what is being done, how much of it is done, and of how much."""


class CliContext:
    """Every command gets it as the object of its context.

    With `--json` the last line of standard output is one JSON object, and nothing else is said there. Progress goes
    to standard error, and only where a person is looking. All text is cleaned here, so that no server, file or
    argument can send an escape sequence to the terminal.
    """

    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json
        self.exit_code: int | None = None
        """How to exit after the answer; None if no part of the work has said why, and nobody stopped it."""

    def say(self, text: str) -> None:
        """A sentence for a person; a program reads the answer instead."""
        if not self.is_json:
            click.echo(wrapped(clean(text), sys.stdout))

    def show(self, *shapes: Shape) -> None:
        """Sheets and lines for a person."""
        if self.is_json:
            return
        console = _console(sys.stdout)
        for shape in shapes:
            with console.capture() as captured:
                console.print(shape)
            for one in captured.get().splitlines():
                click.echo(one if console.is_terminal else one.rstrip(), color=True)

    def named(self, did: str) -> str:
        """A space or a person with the name that it has here, if it has one: `todo (did:key:...)`."""
        name = self._names_here.get(did)
        return did if name is None else f"{name} ({did})"

    def counted(self, count: int, one: str, many: str | None = None) -> str:
        """`1 blob`, `2 blobs`."""
        return counted(count, one, many)

    def did_of(self, name: str) -> str | None:
        """The space that has this name here, None if there is none or there are several."""
        found = [did for did, known in self._names_here.items() if known == name]
        return found[0] if len(found) == 1 else None

    def name_of(self, did: str) -> str | None:
        """The name that a space or a person has here."""
        return self._names_here.get(did)

    @cached_property
    def _names_here(self) -> dict[str, str]:
        """Names by DID, of the user's config directory. What cannot be read there gives no names."""
        from stemmadb.client.keys.names import Names  # noqa: PLC0415
        from stemmadb.client.keys.ring import KeyRing  # noqa: PLC0415

        known: dict[str, str] = {}
        with suppress(StemmaError, OSError):
            known |= {did: name for name, did in KeyRing().identities().items()}
        with suppress(StemmaError, OSError):
            known |= {str(one.space): one.name for one in Names().spaces()}
        return known

    def say_lines(self, text: str) -> None:
        """The lines of a text that is laid out, such as a script."""
        for one in () if self.is_json else text.split("\n"):
            click.echo(clean(one))

    def warn(self, text: str) -> None:
        """A line for a person beside the answer; it goes to standard error."""
        if not self.is_json:
            click.echo(wrapped(clean(text), sys.stderr), err=True)

    def no(self, error: StemmaError, **more: object) -> dict[str, object]:
        """The answer is no, and this is why; a command returns it."""
        self.warn(f"Error: {error.message}")
        return more | {"error": {"code": error.code, "message": error.message}}

    def ended(self, error: StemmaError) -> None:
        """A part of the work was not done, and this is why: the first error decides how the command exits."""
        if self.exit_code is None:
            self.exit_code = exits.code_of(error)

    def stopped(self) -> None:
        """A person ended it with Ctrl-C; the command still gives its answer."""
        self.exit_code = exits.INTERRUPTED

    def answer(self, answer: Mapping[str, object]) -> None:
        """What a command has returned, for a program."""
        if self.is_json:
            click.echo(clean(msgspec.json.encode(answer).decode()))

    def confirm(self, question: str, *, yes: bool) -> None:
        """Returns if the user means it: asks a person, and wants `--yes` of a program, which cannot be asked."""
        if yes:
            return
        if not self.can_ask:
            raise click.UsageError(f"{question} Nobody is there to answer: confirm with --yes.")
        if not click.confirm(clean(question), err=True):
            raise click.Abort("Nothing was changed.")

    def fail(self, code: str, message: str) -> None:
        """What went wrong: one sentence and a hint."""
        self.answer({"error": {"code": code, "message": message}})
        if not self.is_json:
            click.echo(wrapped(clean(f"Error: {message}"), sys.stderr), err=True)

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer a question."""
        return not self.is_json and sys.stdin.isatty() and sys.stderr.isatty()

    @contextmanager
    def progress(self, *, after_seconds: float = 0) -> Iterator[Show]:
        """Shows a bar while the block runs; none if it ends before `after_seconds`."""
        if self.is_json or not sys.stderr.isatty():
            yield _show_nothing
            return
        # Imported here: it takes a third of the time in which a command starts, and scripts never need it.
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bars = Progress(*columns, console=_console(sys.stderr), transient=True)
        task = bars.add_task("", total=None)
        with _shown(bars, after_seconds):
            yield lambda stage, done, total: bars.update(task, description=clean(stage), completed=done, total=total)


def wrapped(text: str, stream: TextIO) -> str:
    """A sentence in lines that end at words where a person looks; elsewhere in one line."""
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    if len(text) <= width:
        return text
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def has_colours(stream: TextIO) -> bool:
    """Whether a person looks at it who wants colours; a terminal that says it is dumb has none."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _console(stream: TextIO) -> Console:
    from rich.console import Console  # noqa: PLC0415

    given = os.environ.get("COLUMNS", "")
    room = None if stream.isatty() else int(given) if given.isdigit() and int(given) else ROOM
    return Console(
        file=stream,
        width=room,
        color_system="auto" if has_colours(stream) else None,
        force_terminal=stream.isatty(),
        emoji=False,
        markup=False,
        highlight=False,
    )


@contextmanager
def _shown(bars: Progress, after_seconds: float) -> Iterator[None]:
    if not after_seconds:
        with bars:
            yield
        return
    timer = threading.Timer(after_seconds, bars.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        bars.stop()


def _show_nothing(stage: str, done: int, total: int | None) -> None:
    """Nobody is looking."""
