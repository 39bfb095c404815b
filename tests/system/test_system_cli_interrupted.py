"""Ctrl-C in the middle of things, on a real terminal: one sentence, exit 130, and nothing half done."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_homes import Home
from served import Process
from terminals import CTRL_C

BLOBS = 4
"""Of 6 MB each in the space: a backup of it takes long enough to be interrupted."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    made = Process(tmp_path / "data")
    made.start()
    yield made
    made.kill()


@pytest.fixture
def ada(server: Process, tmp_path: Path) -> Home:
    home = Home(tmp_path / "ada", server.address, space="todo")
    assert home("space", "create", "todo").code == 0
    assert home("set", "urn:todo:1", '{"done": false}').code == 0
    return home


def freeze(server: Process, how: signal.Signals) -> None:
    assert server._process is not None
    os.kill(server._process.pid, how)


def test_a_merge_that_is_interrupted_says_that_it_may_be_done_or_not(ada: Home, server: Process) -> None:
    assert ada("branch", "create", "draft").code == 0
    assert ada("set", "urn:todo:1", '{"done": true}', "--branch", "draft").code == 0
    freeze(server, signal.SIGSTOP)
    try:
        with ada.terminal("merge", "draft") as terminal:
            time.sleep(1.0)  # it waits for an answer that does not come
            terminal.send(CTRL_C)
            assert terminal.ended() == 130
            assert "Interrupted" in terminal.screen
            assert "Traceback" not in terminal.screen
    finally:
        freeze(server, signal.SIGCONT)
    assert ada("merge", "draft").code == 0
    assert '"done": true' in ada("get", "urn:todo:1").out


def test_a_backup_that_is_interrupted_leaves_no_half_of_one(ada: Home, server: Process, tmp_path: Path) -> None:
    big = tmp_path / "big"
    for number in range(BLOBS):
        big.write_bytes(os.urandom(6_400_000) + bytes([number]))
        assert ada("blob", "put", str(big)).code == 0
    target = tmp_path / "backup"
    with ada.terminal("backup", str(target), "--data", str(tmp_path / "data")) as terminal:
        deadline = time.monotonic() + 60
        while not target.exists() and terminal.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        terminal.send(CTRL_C)
        code = terminal.ended()
        assert "Traceback" not in terminal.screen
    assert code in (0, 130), "done before it was interrupted, or not at all"
    again = ada.process("backup", str(target), "--data", str(tmp_path / "data"), "--json")
    assert again.code == 0, again.out
    restored = tmp_path / "restored"
    assert ada.process("restore", str(target), "--data", str(restored)).code == 0
    assert ada.process("verify", "--data", str(restored)).code == 0
