"""What ends a worker without a signal: its parent is gone, as its control channel or its lifeline says."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from client_processes import PATIENCE_SECONDS
from stemmadb.protocol.errors import Unavailable
from stemmadb.server.serving import parent, server_identity
from stemmadb.server.serving.settings.config import Config
from stemmadb.server.serving.workers import places
from stemmadb.server.serving.workers.opening import SECRET_BYTES
from stemmadb.server.serving.workers.worker import ORPHANED, WorkerStart
from stemmadb.server.storage.directory import is_held

pytestmark = pytest.mark.workers


class Orphan:
    """The process of a worker, with the parent's ends of what it inherits."""

    def __init__(self, data: Path) -> None:
        places.make(data, 2)
        server_identity.keep(data)
        self.control, theirs = socket.socketpair()
        lifeline, self.held = os.pipe()
        start = WorkerStart(
            number=1,
            workers=2,
            secret=bytes(SECRET_BYTES).hex(),
            config=Config(data=data, port=0, workers=2).model_dump(mode="json"),
            listening=[],
            control=theirs.fileno(),
            lifeline=lifeline,
        )
        command = [sys.executable, "-m", parent.MODULE]
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[theirs.fileno(), lifeline]
            )
        os.close(lifeline)
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(start))
        self.process.stdin.close()
        self.control.settimeout(PATIENCE_SECONDS)
        assert self.control.recv(1_000).startswith(b'{"ready"')

    def end_control(self) -> None:
        self.control.close()

    def end_lifeline(self) -> None:
        os.close(self.held)
        self.held = -1


@contextmanager
def orphan(data: Path) -> Iterator[Orphan]:
    data.mkdir()
    made = Orphan(data)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()
        assert made.process.stderr is not None
        made.process.stderr.close()
        made.end_control()
        if made.held >= 0:
            made.end_lifeline()


@pytest.mark.rule("STORE-4")
@pytest.mark.parametrize("end", [Orphan.end_control, Orphan.end_lifeline], ids=["control", "lifeline"])
def test_a_worker_without_a_parent_stops_by_itself(short: Path, end: object) -> None:
    with orphan(short / "data") as worker:
        assert is_held(short / "data" / "workers" / "1")
        assert worker.process.poll() is None
        assert callable(end)
        end(worker)
        assert worker.process.wait(PATIENCE_SECONDS) == ORPHANED
        assert not is_held(short / "data" / "workers" / "1")


def test_the_directory_of_another_user_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places.make(tmp_path, 2)
    places.check(tmp_path, 2)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Unavailable, match=r"belongs to another user\. Start the server as that user"):
        places.check(tmp_path, 2)
