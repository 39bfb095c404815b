"""People at the command line: each with keys and names of their own, all with one server."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from click.testing import CliRunner

import terminals
from command_line import MODULE, Ran
from stemmadb.client.cli import main

SECONDS: Final = 60
_DID_END: Final = re.compile(r"…[1-9A-HJ-NP-Za-km-z]{8}\b")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


class Home:
    """One person. What is in `variables` is set for every command."""

    def __init__(self, directory: Path, url: str, *, space: str | None = None) -> None:
        self.directory = directory
        self.variables = {"STEMMADB_HOME": str(directory), "STEMMADB_URL": url, "COLUMNS": "80", "TZ": "UTC"}
        if space is not None:
            self.variables["STEMMADB_SPACE"] = space

    @property
    def environment(self) -> dict[str, str]:
        """Ours, without what would lead to the settings of whoever runs the tests."""
        left_out = ("STEMMA", "XDG_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
        ours = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        return ours | self.variables

    def __call__(self, *words: object, stdin: bytes | None = None) -> Ran:
        """Runs a command in this process, which is faster."""
        done = CliRunner(env=self.variables).invoke(main, [str(word) for word in words], input=stdin)
        return Ran(done.exit_code, done.stdout, done.stderr)

    def process(self, *words: object, stdin: bytes | None = None, **variables: str) -> Ran:
        """The same in a process of its own, with pipes."""
        done = subprocess.run(  # noqa: S603
            [*MODULE, *map(str, words)],
            input=stdin,
            capture_output=True,
            env=self.environment | variables,
            timeout=SECONDS,
            check=False,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    @contextmanager
    def terminal(
        self, *words: object, columns: int = 80, term: str = "xterm-256color", **variables: str
    ) -> Iterator[terminals.Terminal]:
        """The same on a terminal."""
        given, program = self.environment | variables, [*MODULE, *map(str, words)]
        with terminals.opened(*program, columns=columns, environment=given, term=term) as opened:
            yield opened


def timeless(text: str) -> str:
    """The text with every time and every end of a DID replaced by one as long."""
    return _DID_END.sub("…abcdefgh", _TIME.sub("2026-11-16 09:00:00", text))
