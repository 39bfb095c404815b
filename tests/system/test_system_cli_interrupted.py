"""Ctrl-C in the middle of things, on a real terminal: one sentence, exit 130, and nothing half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
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


def wait_for_socket(pid: int) -> None:
    """Until the process has one."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(OSError):
            if any(
                os.readlink(f"/proc/{pid}/fd/{one}").startswith("socket:") for one in os.listdir(f"/proc/{pid}/fd")
            ):
                return
        time.sleep(0.01)
    raise AssertionError("it never dialed")


SLOW = """
import builtins, os, signal, sys
real = builtins.__import__
def slow(name, *given):
    if name == "click":
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *given)
builtins.__import__ = slow
from stemmadb.client.cli import main
main()
"""


def test_a_command_that_is_interrupted_while_it_is_loaded_says_so_too() -> None:
    command = [sys.executable, "-c", SLOW, "keys", "list"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    assert ended.returncode == 130
    assert ended.stderr == "Interrupted. Nothing was left half done.\n"
    assert ended.stdout == ""


def test_an_app_that_imports_the_command_line_keeps_its_own_handler() -> None:
    script = "import signal, stemmadb.client.cli; print(signal.getsignal(2) is signal.default_int_handler)"
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    assert ended.stdout == "True\n"


def test_a_merge_that_is_interrupted_says_that_it_may_be_done_or_not(ada: Home, server: Process) -> None:
    assert ada("branch", "create", "draft").code == 0
    assert ada("set", "urn:todo:1", '{"done": true}', "--branch", "draft").code == 0
    freeze(server, signal.SIGSTOP)
    try:
        with ada.terminal("merge", "draft") as terminal:
            wait_for_socket(terminal.process.pid)  # it waits for an answer that does not come
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
