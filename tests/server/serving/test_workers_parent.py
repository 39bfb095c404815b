"""The parent goes on when a worker cannot be started and when the disk is full. The workers here are no processes."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from served import config_of
from stemmadb.server.serving import parent, presence, server_identity
from stemmadb.server.serving.app import Serving
from stemmadb.server.serving.listeners.listener import ALL
from stemmadb.server.serving.parent import Parent


class PlainWorker:
    """Stands for a process: its end of the control channel, and its end when it is told to stop."""

    def __init__(self, control: socket.socket) -> None:
        self.pid = os.getpid()
        self.told: list[dict[str, Any]] = []
        self._sock = control.dup()
        self._sock.setblocking(False)
        self._life = asyncio.get_running_loop().create_task(self._live())

    async def say(self, message: dict[str, Any]) -> None:
        await asyncio.get_running_loop().sock_sendall(self._sock, json.dumps(message).encode() + b"\n")

    async def wait(self) -> int:
        return await self._life

    async def _live(self) -> int:
        heard = b""
        with self._sock:
            while {"stop": True} not in self.told:
                heard += await asyncio.get_running_loop().sock_recv(self._sock, 65_536)
                *lines, heard = heard.split(b"\n")
                self.told += [json.loads(line) for line in lines]
        return 0


class PlainParent(Parent):
    """Each start takes what a test put into `starts`: an error, or an event that it waits for first."""

    starts: list[Exception | asyncio.Event]
    workers: list[PlainWorker]
    tried = 0

    async def _spawn(self, child: Any, control: socket.socket, lifeline: int) -> Any:  # noqa: ARG002
        self.tried += 1
        start = self.starts.pop(0) if self.starts else None
        if isinstance(start, Exception):
            raise start
        if start is not None:
            await start.wait()
        self.workers.append(PlainWorker(control))
        return cast(Any, self.workers[-1])


class Server:
    """A parent of one worker that runs."""

    def __init__(self, data: Path, *starts: Exception | asyncio.Event) -> None:
        config = config_of(data, workers=1)
        self.stop = asyncio.Event()
        self.announced: list[Serving] = []
        self._sock = socket.create_server(("127.0.0.1", 0))
        data.mkdir(exist_ok=True)
        identity = server_identity.keep(data)
        self.parent = PlainParent(config, identity, [self._sock], self.announced.append, self.stop)
        self.parent.starts, self.parent.workers = list(starts), []
        self.running = asyncio.ensure_future(self.parent.run())

    async def first(self) -> PlainWorker:
        """The first worker that could be started."""
        await self.until(lambda: bool(self.parent.workers))
        return self.parent.workers[0]

    async def until(self, so: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not so():
                await asyncio.sleep(0.001)

    async def end(self) -> None:
        self.stop.set()
        await self.running
        self._sock.close()


@pytest.mark.parametrize(
    "failure",
    [
        OSError(errno.EAGAIN, "no process"),
        OSError(errno.EMFILE, "no descriptor"),
        RuntimeError("can't start new thread"),
    ],
)
async def test_a_worker_that_could_not_be_started_is_started_again(
    tmp_path: Path, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    it = Server(tmp_path / "data", failure)
    worker = await it.first()
    assert it.parent.tried == 2
    assert [record.message for record in caplog.records if record.name.endswith("workers")] == ["worker_not_started"]
    await worker.say({"ready": {}})
    await it.until(lambda: bool(it.announced))
    await it.end()


async def test_a_worker_that_cannot_be_started_for_long_is_trouble(tmp_path: Path) -> None:
    it = Server(tmp_path / "data")
    child = it.parent._children[0]
    now = asyncio.get_running_loop().time()
    for _ in range(4):
        child.restarts.died(now)
    it.parent.starts[:] = [OSError(errno.ENOMEM, "no memory")]
    await it.until(lambda: it.parent._trouble is not None)
    await it.end()
    assert not it.parent.workers


async def test_an_internal_error_of_the_parent_ends_the_server_and_is_told(tmp_path: Path) -> None:
    it = Server(tmp_path / "data", ValueError("a mistake"))
    with pytest.raises(ValueError, match="a mistake"):
        await asyncio.wait_for(it.running, 30)
    assert it.stop.is_set()
    it._sock.close()


async def test_a_worker_that_was_being_started_at_the_stop_is_told(tmp_path: Path) -> None:
    start = asyncio.Event()
    it = Server(tmp_path / "data", start)
    await it.until(lambda: it.parent.tried == 1)
    it.stop.set()
    for _ in range(5):
        await asyncio.sleep(0)
    start.set()
    await it.end()
    assert {"stop": True} in it.parent.workers[0].told


async def test_a_full_disk_ends_no_control_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(parent, "LOOK_SECONDS", 0.001)
    it = Server(tmp_path / "data")
    worker = await it.first()
    with monkeypatch.context() as patched:
        patched.setattr(presence, "write", full)
        await worker.say({"ready": {}})
        await it.until(lambda: bool(it.announced))
        await worker.say({"counts": {ALL: 10**9}})
        await it.until(lambda: {"full": [ALL]} in worker.told)
    note = tmp_path / "data" / presence.NAME
    await it.until(note.exists)
    await it.end()
    assert [record.message for record in caplog.records].count("presence_not_written") == 1


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "no space")
