"""`stemmadb serve --storage` in processes of their own, which can be killed, stopped and paused."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import psycopg

LEASE_MS = 600


def url_of(conninfo: str) -> str:
    """As `--storage` takes it."""
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    host = f"?host={quote(str(parts['host']), safe='')}" if "host" in parts else ""
    return f"postgresql://{parts.get('user', 'stemmadb')}@/{parts['dbname']}{host}"


class NodeProcess:
    """One node; its address is known once it listens. Nodes of a directory share its key."""

    def __init__(self, storage: str, data: Path, *flags: str, environment: Mapping[str, str] | None = None) -> None:
        chosen = ["--storage", storage, "--data", str(data), "--port", "0", "--lease-ms", str(LEASE_MS), *flags]
        self.process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "stemmadb.client.cli", "serve", *chosen],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.log: list[str] = []
        assert self.process.stdout is not None
        self._reading = threading.Thread(target=self._read_log, daemon=True)
        self._reading.start()
        self.url = ""
        for line in self.process.stdout:
            if found := re.search(r"wss?://[\w.:\[\]]+", line):
                self.url = found[0]
                return
        raise AssertionError(f"the node did not start: {self.wait()} {self.log}")

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(self.process.stderr)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(30)
        self._reading.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code

    def close(self) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGCONT)
            self.end(signal.SIGKILL)
