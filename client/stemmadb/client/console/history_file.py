"""The lines of earlier consoles: a private file of the config directory, the newest kept."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from prompt_toolkit.history import History

from stemmadb.client.keys import private_files

FILE: Final = "console-history"
LINES_KEPT: Final = 1_000
LINES_MAX: Final = 2 * LINES_KEPT
"""Past so many the file is written anew with the newest."""
FILE_BYTES_MAX: Final = 16 * 1024 * 1024
LINE_BYTES_MAX: Final = 4 * 1024
"""A longer line, such as a large value, is not kept."""


class SavedHistory(History):
    """One JSON text for each line. A file that cannot be used is left alone, and the console goes on without it."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._file = directory / FILE

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        lines = self._read()
        if len(lines) > LINES_MAX:
            with suppress(OSError):
                self._rewrite(lines[-LINES_KEPT:])
        return reversed(lines[-LINES_KEPT:])

    def store_string(self, string: str) -> None:
        encoded = f"{json.dumps(string)}\n".encode()
        if len(encoded) > LINE_BYTES_MAX:
            return
        with suppress(OSError):
            private_files.make_directory(self._file.parent)
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with open(descriptor, "ab") as stream:
                stream.write(encoded)

    def _read(self) -> list[str]:
        with suppress(OSError), self._file.open("rb") as stream:
            return [line for text in stream.read(FILE_BYTES_MAX).splitlines() if (line := _line(text)) is not None]
        return []

    def _rewrite(self, lines: list[str]) -> None:
        with private_files.locked(self._file.parent):
            private_files.write(self._file, "".join(f"{json.dumps(line)}\n" for line in lines).encode())


def _line(text: bytes) -> str | None:
    """A line as it was kept; None for one that was torn or is of something else."""
    with suppress(ValueError):
        line = json.loads(text)
        return line if isinstance(line, str) else None
    return None
