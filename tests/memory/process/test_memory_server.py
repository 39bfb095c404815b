"""The memory server as a process: found, started, refused, killed; its commands, roles and secrets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from command_line import here
from memory_worlds import bytes_under
from stemmadb.memory.process import finding, places
from stemmadb.memory.process.finding import MemoryNote
from stemmadb.memory.process.secret_file import SecretFile
from stemmadb.protocol.errors import DirectoryHeld, Unavailable

COMMAND = (sys.executable, "-m", "stemmadb.client.cli")
SECRET_TEXT = "ZEBRA-4711"  # noqa: S105


class Ran(NamedTuple):
    code: int
    answer: dict[str, Any]
    error: str


class Home:
    """A user's home with a data directory, and the processes that were started in it."""

    def __init__(self, path: Path) -> None:
        self.data = path / "data"
        self.environment = {**os.environ, "HOME": str(path), "XDG_RUNTIME_DIR": str(path / "run")}
        self.environment |= {"STEMMADB_MEMORY": str(self.data)}
        self.environment.pop("STEMMADB_HOME", None)
        (path / "run").mkdir(mode=0o700)
        self.processes: list[subprocess.Popen[bytes]] = []

    def run(self, *words: str, secret: str | None = None) -> Ran:
        """In this process, which is faster; the memory server is another one all the same."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("HOME", "XDG_RUNTIME_DIR", "STEMMADB_MEMORY"):
                patch.setenv(name, self.environment[name])
            patch.delenv("STEMMADB_HOME", raising=False)
            if secret is not None:
                patch.setenv("AGENT_MEMORY_SECRET", secret)
            done = here(*words, "--json")
        return Ran(done.code, done.json, done.err)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(  # noqa: S603
            [*COMMAND, *words], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.processes.append(process)
        return process

    def serve(self, *words: str) -> MemoryNote:
        """Starts a memory server and waits until it can be found."""
        process = self.start("memory", "serve", *words)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            found = finding.find(self.data)
            if found is not None:
                return found
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        raise AssertionError("it did not start")

    def kill(self) -> None:
        process = self.processes.pop()
        process.kill()
        process.communicate()

    def close(self) -> None:
        for process in self.processes:
            process.terminate()
            process.communicate(timeout=20)
        note = self.data / "server.json"
        if note.exists():  # one that a command started by itself
            os.kill(json.loads(note.read_text())["pid"], signal.SIGTERM)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    made = Home(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    yield made
    made.close()


def ask(note: MemoryNote, method: str, path: str, body: object = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310
        note.http[0] + path, data=data, method=method, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


@pytest.mark.rule("MEM-10")
def test_a_command_starts_a_memory_server_and_the_next_one_joins_it(home: Home) -> None:
    first = home.run("memory", "namespaces")
    assert (first.code, first.answer["namespaces"]) == (0, [])
    pid = json.loads((home.data / "server.json").read_text())["pid"]
    assert home.run("memory", "check").answer["findings"] == []
    assert json.loads((home.data / "server.json").read_text())["pid"] == pid
    assert (home.data.stat().st_mode & 0o777) == 0o700


@pytest.mark.rule("MEM-10")
def test_a_second_memory_server_is_refused_and_names_the_holder(home: Home) -> None:
    home.serve()
    second = home.start("memory", "serve")
    error = second.communicate(timeout=30)[1].decode()
    assert second.returncode == 3
    assert f"process {home.processes[0].pid}" in error


@pytest.mark.rule("MEM-10")
def test_two_that_start_at_once_leave_one(home: Home) -> None:
    both = [home.start("memory", "serve") for _ in range(2)]
    until = time.monotonic() + 30
    while all(process.poll() is None for process in both) and time.monotonic() < until:
        time.sleep(0.05)
    ended = [process for process in both if process.poll() is not None]
    assert [process.returncode for process in ended] == [3]
    assert home.run("memory", "namespaces").code == 0


@pytest.mark.rule("MEM-10")
def test_a_plain_server_on_the_directory_is_named_with_the_way_out(home: Home) -> None:
    plain = home.start("serve", "--data", str(home.data), "--port", "0")
    until = time.monotonic() + 30
    while not (home.data / "server.json").exists() and time.monotonic() < until:
        time.sleep(0.05)
    done = home.run("memory", "namespaces")
    assert done.code == 3
    assert f"Process {plain.pid}" in done.answer["error"]["message"]
    assert "--memory memory" in done.answer["error"]["message"]
    with pytest.raises(DirectoryHeld):
        finding.find(home.data)


def test_serve_with_memory_serves_both(home: Home) -> None:
    home.start("serve", "--data", str(home.data), "--port", "0", "--memory", "memory", "--memory-http", "127.0.0.1:0")
    until = time.monotonic() + 30
    while (found := finding.find(home.data)) is None and time.monotonic() < until:
        time.sleep(0.05)
    assert found is not None
    assert ask(found, "GET", "/v1/health")[0] == 200
    assert home.run("memory", "namespaces").code == 0
    alone = home.run("serve", "--memory-http", "127.0.0.1:0")
    assert (alone.code, "--memory SPACE" in alone.answer["error"]["message"]) == (2, True)


@pytest.mark.rule("MEM-7", "MEM-5")
def test_a_memory_server_that_is_killed_loses_nothing_and_finishes_forgetting(home: Home) -> None:
    note = home.serve("--http", "127.0.0.1:0")
    assert ask(note, "PUT", "/v1/namespaces/org:a", {"kind": "org"})[0] == 200
    write = {"kind": "fact", "source": "agent"}
    made = [ask(note, "POST", "/v1/namespaces/org:a/memories", write | {"content": f"{SECRET_TEXT} {number}"})
            for number in range(5)]  # fmt: skip
    home.kill()
    note = home.serve("--http", "127.0.0.1:0")
    status, found = ask(note, "POST", "/v1/search", {"namespaces": ["org:a"], "query": SECRET_TEXT})
    assert status == 200
    assert {one["id"] for one in found["memories"]} == {answer["id"] for _, answer in made}
    for _, answer in made:
        body = {"requested_by_namespace": "org:a"}
        assert ask(note, "DELETE", f"/v1/memories/{answer['id']}", body)[0] == 204
        if answer is made[2][1]:
            home.kill()
            note = home.serve("--http", "127.0.0.1:0")
    until = time.monotonic() + 30
    while SECRET_TEXT.encode() in bytes_under(home.data) and time.monotonic() < until:
        time.sleep(0.05)
    assert SECRET_TEXT.encode() not in bytes_under(home.data)
    verified = home.run("verify", "--data", str(home.data))
    assert verified.code == 0, verified


@pytest.mark.rule("MEM-11")
def test_secrets_give_roles_and_nothing_else_does(home: Home) -> None:
    note = home.serve("--http", "127.0.0.1:0")
    ask(note, "PUT", "/v1/namespaces/org:a", {"kind": "org"})
    write = {"content": "a zebra", "kind": "fact", "source": "user"}
    _, made = ask(note, "POST", "/v1/namespaces/org:a/memories", write)
    assert len(home.run("memory", "search", "zebra").answer["memories"]) == 1, "reading needs no secret"
    refused = home.run("memory", "forget", made["id"])
    assert (refused.code, refused.answer["error"]["code"]) == (4, "forbidden")
    assert "stemmadb memory secret new agent" in refused.answer["error"]["message"]
    assert home.run("memory", "forget", made["id"], secret="wrong").code == 4  # noqa: S106
    agent = home.run("memory", "secret", "new", "agent", "--name", "ada", "--ns", "org:b").answer["secret"]
    limited = home.run("memory", "forget", made["id"], secret=agent)
    assert (limited.code, limited.answer["error"]["code"]) == (1, "not_found"), "it does not learn that it exists"
    assert home.run("memory", "search", "zebra", secret=agent).answer["memories"] == []
    assert home.run("memory", "check", secret=agent).code == 4, "its findings name other namespaces"
    assert home.run("memory", "check").code == 0
    narrow = home.run("memory", "secret", "new", "admin", "--ns", "org:other").answer["secret"]
    assert home.run("memory", "sweep", secret=narrow).code == 4, "it would delete in other namespaces"
    other = home.run("memory", "secret", "new", "agent").answer["secret"]
    history = home.run("memory", "history", made["id"]).answer["changes"]
    assert [one["kind"] for one in history] == ["set"]
    assert home.run("memory", "forget", "--ns", "org:a", secret=other).code == 4, "a namespace needs an admin"
    assert home.run("memory", "secret", "revoke", "agent-1").code == 0
    assert home.run("memory", "forget", made["id"], secret=other).code == 4
    admin = home.run("memory", "secret", "new", "admin").answer["secret"]
    done = home.run("memory", "forget", made["id"], secret=admin)
    assert (done.code, done.answer["erased"]) == (0, True)
    stored = (home.data / "secrets.json").read_text()
    assert admin not in stored
    assert agent not in stored
    assert (home.data / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert [one["name"] for one in home.run("memory", "secret", "list").answer["secrets"]] == [
        "ada",
        "admin-1",
        "admin-2",
    ]


def test_commands_search_the_past_sweep_and_reindex(home: Home) -> None:
    note = home.serve("--http", "127.0.0.1:0")
    ask(note, "PUT", "/v1/namespaces/org:a", {"kind": "org"})
    write = {"kind": "fact", "source": "user"}
    ask(note, "POST", "/v1/namespaces/org:a/memories", write | {"content": "first zebra"})
    then = home.run("memory", "search", "zebra").answer
    ask(note, "POST", "/v1/namespaces/org:a/memories", write | {"content": "second zebra"})
    assert len(home.run("memory", "search", "zebra", "--ns", "org:a").answer["memories"]) == 2
    past = home.run("memory", "believed", "zebra", "--at", str(then["version"])).answer
    assert [one["text"] for one in past["memories"]] == ["first zebra"]
    assert home.run("memory", "believed", "zebra", "--at", "no-such-tag").code == 1
    admin = home.run("memory", "secret", "new", "admin").answer["secret"]
    assert home.run("memory", "sweep", secret=admin).answer["memories"] == 0
    assert home.run("memory", "reindex").code == 4
    assert home.run("memory", "reindex", secret=admin).answer["version"] >= then["version"]
    assert len(home.run("memory", "search", "zebra").answer["memories"]) == 2
    assert home.run("memory", "search", "--ns", "BAD").code == 2
    assert home.run("memory", "history", "nonsense").code == 2
    assert home.run("memory", "forget").code == 2


def test_a_memory_server_that_nobody_uses_stops(home: Home) -> None:
    home.serve("--idle", "0.2")
    process = home.processes.pop()
    assert process.wait(timeout=30) == 0
    process.communicate()
    assert finding.find(home.data) is None


def test_the_test_clock_is_announced(home: Home) -> None:
    home.serve("--test-clock", "+1h")
    process = home.processes.pop()
    process.terminate()
    assert b"shifted by 3600000 ms" in process.communicate(timeout=20)[1]


def test_a_socket_directory_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    open_to_others = tmp_path / "open"
    open_to_others.mkdir(mode=0o755)
    with pytest.raises(Unavailable, match="nobody else"):
        places.make_private(open_to_others)


def test_a_secret_file_that_others_may_read_is_not_believed(tmp_path: Path) -> None:
    secrets = SecretFile(tmp_path)
    made = secrets.make("agent", None, None)
    assert secrets.caller(made, "mcp").role == "agent"
    assert secrets.caller(made + "x", "mcp").role == "viewer"
    assert secrets.caller(None, "mcp").role == "viewer"
    assert secrets.caller("", "mcp").lowered("admin").role == "viewer"
    (tmp_path / "secrets.json").chmod(0o644)
    with pytest.raises(Exception, match="others may use it"):
        SecretFile(tmp_path).all()
