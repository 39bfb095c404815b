"""The commands of an operator on a database, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from appends import append_to
from logs import LogMaker
from space import SPACE, set_
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.storage.postgres import PostgresStorage

SECONDS = 60


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stemmadb.client.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603


def fill(url: str) -> None:
    storage = PostgresStorage(url)
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    append_to(log, Version(0), [maker.commit(set_("urn:x", n, blind=True)) for n in range(3)])
    storage.close()
