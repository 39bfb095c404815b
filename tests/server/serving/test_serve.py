"""`stemmadb serve` as a process: it listens, answers, is found by `status`, and stops when it is told to."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import greeting_server
from command_line import MODULE, here
from stemmadb.protocol.wire.version import JSON
from stemmadb.server.storage.sqlite import sqlite_version
from wire_peers import SPACE

GREETING = (sys.executable, greeting_server.__file__)
WAIT_SECONDS = 30


class Process:
    """A server in a process of its own, listening."""

    def __init__(self, running: subprocess.Popen[str], answer: dict[str, Any]) -> None:
        self.running = running
        self.answer = answer
        self.port = int(answer["port"])

    def get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        try:
            connection.request("GET", path)
            got = connection.getresponse()
            return got.status, got.read().decode()
        finally:
            connection.close()

    def signal(self, number: signal.Signals) -> None:
        self.running.send_signal(number)

    def ended(self) -> tuple[int, str]:
        """Its exit code, and what it has logged."""
        _, log = self.running.communicate(timeout=WAIT_SECONDS)
        return self.running.returncode, log


@contextmanager
def serving(
    *words: object, program: tuple[str, ...] = GREETING, environment: dict[str, str] | None = None
) -> Iterator[Process]:
    running = subprocess.Popen(  # noqa: S603
        [*program, *map(str, words), "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | (environment or {}),
    )
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        yield Process(running, json.loads(line))
    finally:
        running.kill()
        running.communicate()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.mark.parametrize("listener", ["picows", "websockets"])
def test_it_listens_greets_and_stops_with_0(data: Path, listener: str) -> None:
    with serving("serve", "--data", data, "--listener", listener) as server:
        assert server.answer["listening"] == f"ws://127.0.0.1:{server.port}"
        assert server.answer["data"] == str(data)
        assert server.answer["sqlite"] == sqlite_version()
        assert server.get("/healthz") == (200, "ok\n")
        assert server.get("/readyz") == (200, "ok\n")
        assert server.get("/nothing")[0] == 404
        with connect(f"ws://127.0.0.1:{server.port}/v1/spaces/{SPACE}", subprotocols=[JSON]) as client:  # type: ignore[list-item]
            assert json.loads(client.recv())["server"] == server.answer["did"]
            status, metrics = server.get("/metrics")
            assert status == 200
            assert "stemmadb_connections 1.0" in metrics
            assert f'stemmadb_space_messages_sent_total{{space="{SPACE}"}} 1.0' in metrics
            server.signal(signal.SIGTERM)
            with pytest.raises(ConnectionClosed) as closed:
                client.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
        code, log = server.ended()
    assert code == 0
    assert [line.split()[2] for line in log.splitlines()] == ["listening", "stopping", "stopped"]


def test_ctrl_c_stops_it_with_0_too(data: Path) -> None:
    with serving("serve", "--data", data) as server:
        server.signal(signal.SIGINT)
        assert server.ended()[0] == 0


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(data: Path, second: signal.Signals) -> None:
    with serving(greeting_server.STUCK, "serve", "--data", data, "--stop-timeout-ms", 1_000_000) as server:
        server.signal(signal.SIGTERM)
        assert server.running.stderr is not None
        while "stopping" not in server.running.stderr.readline():
            pass
        server.signal(second)
        assert server.ended()[0] == 130


def test_one_that_cannot_stop_in_time_stops_all_the_same(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(greeting_server.STUCK, "serve", "--data", data, "--stop-timeout-ms", 1) as server:
        server.signal(signal.SIGTERM)
        code, log = server.ended()
    assert code == 0
    assert "stop_timed_out" in log


@pytest.mark.rule("STORE-4")
def test_a_second_server_on_the_same_data_is_refused(data: Path) -> None:
    with serving("serve", "--data", data) as server:
        second = here("serve", "--data", data, "--port", "0", "--json")
        assert (second.code, second.error) == (3, "directory_held")
        assert str(server.running.pid) in second.json["error"]["message"]
        assert server.get("/readyz") == (200, "ok\n")


def test_a_port_in_use_is_one_sentence_and_exit_code_3(data: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = here("serve", "--data", data, "--port", port)
    assert done.code == 3
    assert done.err.splitlines()[-1] == (
        f"Error: Another program is listening on 127.0.0.1, port {port}. Stop it, or choose another port with --port."
    )
    assert not (data / "server.json").exists()


def test_an_address_of_another_machine_exits_with_3(data: Path) -> None:
    done = here("serve", "--data", data, "--host", "192.0.2.1", "--allow-remote", "--json")
    assert (done.code, done.error) == (3, "unavailable")
    assert "192.0.2.1" in done.json["error"]["message"]


def test_a_directory_that_cannot_be_made_exits_with_3(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = here("serve", "--data", tmp_path / "file" / "data", "--port", "0", "--json")
    assert (done.code, done.error) == (3, "unavailable")
    assert str(tmp_path / "file") in done.json["error"]["message"]


def test_it_says_to_people_where_it_is_and_what_to_try(data: Path) -> None:
    running = subprocess.Popen(  # noqa: S603
        [*GREETING, "serve", "--data", str(data), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert running.stdout is not None
        lines = [running.stdout.readline()]
        while lines[-1] and "Ctrl-C" not in lines[-1]:  # an empty line is the end of a process that failed
            lines.append(running.stdout.readline())
    finally:
        running.kill()
        running.communicate()
    text = "".join(lines)
    url = lines[0].removeprefix("StemmaDB is listening on ").strip()
    for part in (str(data), "did:key:z6Mk", sqlite_version(), f'db = await connect("{url}")', "tx.set("):
        assert part in text


def test_listening_to_strangers_is_warned_about(data: Path) -> None:
    with serving("serve", "--data", data, "--host", "0.0.0.0", "--allow-remote") as server:  # noqa: S104
        (warning,) = server.answer["warnings"]
        assert "Without TLS" in warning
        assert "stemmadb_space_" not in server.get("/metrics")[1]
        server.signal(signal.SIGTERM)
        assert "open_to_strangers" in server.ended()[1]


def test_logs_are_json_where_that_is_wanted(data: Path) -> None:
    with serving("serve", "--data", data, environment={"STEMMADB_LOG_FORMAT": "json"}) as server:
        server.signal(signal.SIGTERM)
        _, log = server.ended()
    events = [json.loads(line) for line in log.splitlines()]
    assert [one["event"] for one in events] == ["listening", "stopping", "stopped"]
    assert events[0]["did"] == server.answer["did"]


def test_it_keeps_its_identity(data: Path) -> None:
    with serving("serve", "--data", data) as first:
        pass
    with serving("serve", "--data", data) as second:
        pass
    assert first.answer["did"] == second.answer["did"]


def test_the_real_service_greets(data: Path) -> None:
    with serving("serve", "--data", data, program=MODULE) as server:
        with connect(f"ws://127.0.0.1:{server.port}/v1/spaces/{SPACE}", subprotocols=[JSON]) as client:  # type: ignore[list-item]
            assert json.loads(client.recv())["server"] == server.answer["did"]
        server.signal(signal.SIGTERM)
        assert server.ended()[0] == 0


# ------------------------------------------------------------ status


def test_status_shows_the_server_that_runs_there(data: Path) -> None:
    with serving("serve", "--data", data) as server:
        told = here("status", "--data", data, "--json").json
        assert told["held"] is True
        known = {key: told["server"][key] for key in ("pid", "host", "port", "tls", "did", "ready")}
        assert known == {
            "pid": server.running.pid,
            "host": "127.0.0.1",
            "port": server.port,
            "tls": False,
            "did": server.answer["did"],
            "ready": True,
        }
        assert (told["server"]["connections"], told["server"]["commits"]) == (0, 0)
        text = here("status", "--data", data).out
        assert f"process {server.running.pid}, 127.0.0.1 port {server.port}, ready" in text
        server.signal(signal.SIGTERM)
        assert server.ended()[0] == 0
    assert not (data / "server.json").exists()
    assert here("status", "--data", data, "--json").json["server"] is None


def test_status_says_that_a_server_does_not_answer(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stemmadb.server.commands.running_server.TIMEOUT_SECONDS", 0.2)
    with serving("serve", "--data", data) as server:
        server.signal(signal.SIGSTOP)
        told = here("status", "--data", data, "--json")
        assert told.code == 0
        assert told.json["server"]["ready"] is False
        assert "does not answer" in told.json["server"]["says"]
        assert "not ready: It does not answer" in here("status", "--data", data).out


def test_status_does_not_believe_what_a_killed_server_left(data: Path) -> None:
    with serving("serve", "--data", data) as server:
        server.signal(signal.SIGKILL)
        server.ended()
    assert (data / "server.json").exists()
    assert here("status", "--data", data, "--json").json["server"] is None
    with serving("serve", "--data", data) as again:
        assert here("status", "--data", data, "--json").json["server"]["pid"] == again.running.pid
