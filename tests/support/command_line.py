"""The `stemmadb` command as a person or a script runs it: a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner

from stemmadb.client.cli import main

MODULE = (sys.executable, "-m", "stemmadb.client.cli")


class Ran(msgspec.Struct, frozen=True):
    """What came out of it."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The last line of standard output, which is one JSON object."""
        answer = json.loads(self.out.splitlines()[-1])
        assert isinstance(answer, dict)
        return answer

    @property
    def error(self) -> str:
        return str(self.json["error"]["code"])


def run(*words: object, stdin: bytes | None = None, cwd: Path | None = None) -> Ran:
    done = subprocess.run(  # noqa: S603
        [*MODULE, *map(str, words)], input=stdin, capture_output=True, cwd=cwd, timeout=60, check=False
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def here(*words: object, stdin: bytes | None = None) -> Ran:
    """The same in this process, which is faster."""
    done = CliRunner().invoke(main, [str(word) for word in words], input=stdin)
    return Ran(done.exit_code, done.stdout, done.stderr)


def start(*words: object, **how: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*MODULE, *map(str, words)], **how)  # noqa: S603
