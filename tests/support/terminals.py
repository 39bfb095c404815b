"""A pseudo-terminal with a program on it: what a person types, and what a person sees."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

PATIENCE_SECONDS: Final = 60.0
"""After so long something is stuck, also on a machine that does much else."""
CTRL_C: Final = "\x03"
CTRL_D: Final = "\x04"
TAB: Final = "\t"
ENTER: Final = "\r"
READ_BYTES: Final = 65_536

_TAKES_THE_TERMINAL: Final = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal its own, so that Ctrl-C reaches it, and becomes the program."""
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-9;?>=]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>78]"
)
_WHERE_IS_THE_CURSOR: Final = b"\x1b[6n"


def plain(text: str) -> str:
    """What is left for the eye: without colours and movements of the cursor."""
    return _ESCAPES.sub("", text)


class Terminal:
    """One program on one terminal. Use `opened`: the program does not outlive the block."""

    def __init__(self, words: Sequence[str], *, columns: int, rows: int, environment: Mapping[str, str]) -> None:
        self._master, slave = os.openpty()
        self.resize(columns, rows)
        self.raw = ""
        """All that came, with its escapes."""
        self._bytes = b""
        self._seen = 0
        try:
            self.process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-c", _TAKES_THE_TERMINAL, *words],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=dict(environment),
                start_new_session=True,
            )
        finally:
            os.close(slave)

    @property
    def screen(self) -> str:
        """All that came, for the eye, with plain line ends."""
        return plain(self.raw).replace("\r\n", "\n")

    def resize(self, columns: int, rows: int = 40) -> None:
        """Another size; the program is told by a signal."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, text: str) -> None:
        """Types it."""
        os.write(self._master, text.encode())

    def expect(self, text: str, *, timeout: float = PATIENCE_SECONDS) -> str:
        """Waits until this comes after what was expected last; what came up to its end."""
        deadline = time.monotonic() + timeout
        while (at := self.screen.find(text, self._seen)) < 0:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} did not come, only {self.screen[self._seen :]!r}")
        begin, self._seen = self._seen, at + len(text)
        return self.screen[begin : self._seen]

    def ended(self, *, timeout: float = PATIENCE_SECONDS) -> int:
        """Waits until the program has ended; its exit code."""
        deadline = time.monotonic() + timeout
        while self._read(deadline - time.monotonic()):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self._master)

    def _read(self, seconds: float) -> bool:
        """Takes what has come, if something comes in time; False if not, or if the program has gone."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, seconds))
        if not ready:
            return False
        try:
            came = os.read(self._master, READ_BYTES)
        except OSError:  # Linux says so when nobody has the terminal any more
            return False
        if _WHERE_IS_THE_CURSOR in came:
            os.write(self._master, b"\x1b[1;1R")
        self._bytes += came
        self.raw = self._bytes.decode(errors="replace")
        return bool(came)


@contextmanager
def opened(
    *words: str,
    columns: int = 80,
    rows: int = 40,
    environment: Mapping[str, str] | None = None,
    term: str = "xterm-256color",
) -> Iterator[Terminal]:
    """The program on a terminal of this size and kind, until the block ends."""
    ours = os.environ if environment is None else environment
    given = {name: ours[name] for name in ours if name not in ("COLUMNS", "LINES")} | {"TERM": term}
    terminal = Terminal(words, columns=columns, rows=rows, environment=given)
    try:
        yield terminal
    finally:
        terminal.close()
