"""`stemmadb memory op` as a script runs it: the pairs of request and answer in examples/memory, and bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, here
from stemmadb.memory.process import finding
from stemmadb.memory.process.secret_file import SecretFile

EXAMPLES = Path(__file__).parents[3] / "examples" / "memory"
REQUESTS = sorted(EXAMPLES.glob("*.request.json"))
TIMES = ("created_at", "now")


def without_times(value: Any) -> Any:
    """Times are those of the moment; everything else of an answer is the same each time."""
    if isinstance(value, dict):
        return {name: without_times(item) for name, item in value.items() if name not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A memory server with counted ids, and an agent's secret in the environment."""
    data, run = tmp_path / "data", tmp_path / "run"
    for directory in (data, run):
        directory.mkdir(mode=0o700)
    for name, value in (("HOME", tmp_path), ("XDG_RUNTIME_DIR", run), ("STEMMADB_MEMORY", data)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("STEMMADB_HOME", raising=False)
    monkeypatch.setenv("AGENT_MEMORY_SECRET", SecretFile(data).make("agent", "ada", None))
    command = [sys.executable, "-m", "stemmadb.client.cli", "memory", "serve", "--test-ids", "examples"]
    with subprocess.Popen(  # noqa: S603
        command, env=dict(os.environ), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            until = time.monotonic() + 60
            while finding.find(data) is None:
                assert server.poll() is None, "it ended"
                assert time.monotonic() < until, "it did not start"
                time.sleep(0.02)
            yield data
        finally:
            server.terminate()


def op(body: bytes) -> Ran:
    return here("memory", "op", stdin=body)


@pytest.mark.rule("OPS-1")
def test_the_examples_give_the_answers_beside_them_and_errors_write_nothing(
    served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(REQUESTS) > 10
    answers: dict[str, Any] = {}
    for request in REQUESTS:
        name = request.name.removesuffix(".request.json")
        done = op(request.read_bytes())
        answers[name] = json.loads(done.out)
        expected = json.loads((EXAMPLES / f"{name}.answer.json").read_text())
        assert without_times(answers[name]) == without_times(expected), name
        assert done.code == (0 if expected["status"] == "ok" else 1), name
    assert answers["09-read"]["data"]["memories"] == answers["10-read-again"]["data"]["memories"]
    assert answers["09-read"]["version"] == answers["08-global-preference"]["version"]
    head = answers["09-read"]["version"]
    for body in (b"", b"{", b"[]", b"\xff", b'{"op": "read"}', b'{"op": "drop"}'):
        refused = op(body)
        assert refused.code == 1
        assert {error["code"] for error in json.loads(refused.out)["errors"]} == {"schema_error"}
    monkeypatch.delenv("AGENT_MEMORY_SECRET")
    refused = op(REQUESTS[0].read_bytes())
    assert [error["code"] for error in json.loads(refused.out)["errors"]] == ["forbidden"]
    assert json.loads(op((EXAMPLES / "09-read.request.json").read_bytes()).out)["version"] == head
    assert here("memory", "check", "--json").json == {"version": head, "findings": []}
