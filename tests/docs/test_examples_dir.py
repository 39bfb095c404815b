"""Each example of examples/ runs as a person would run it, twice, against a server that others use too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from served import Process

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py") if not path.name.startswith("test_"))
SAYS = {
    "audit_trail.py": "the limit before the last change: 500",
    "branch_review_merge.py": "{'urn:item:chair': {'price': 60}, 'urn:item:lamp': {'price': 35}}",
    "offline_restart.py": "urn:note:3: {'text': 'in the tunnel'}",
    "shopping_list.py": "{}",
    "todo_two_clients.py": "bob sees ['call home']",
}
"""The line that shows that it did what it is about."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    process = Process(tmp_path_factory.mktemp("served"))
    process.start()
    yield process.address
    process.kill()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def run(*words: str, home: Path) -> str:
    environment = {**os.environ, "STEMMADB_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(  # noqa: S603
        [sys.executable, *words],
        cwd=EXAMPLES,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_runs_and_runs_again(script: str, server: str, home: Path) -> None:
    for _ in range(2):
        lines = run(script, "--url", server, home=home).splitlines()
        assert SAYS[script] in [line.strip() for line in lines]


def test_the_shopping_list_takes_commands(server: str, home: Path) -> None:
    assert run("shopping_list.py", "add", "milk", "2", "--url", server, home=home) == "{'milk': 2}\n"
    assert run("shopping_list.py", "add", "milk", "--url", server, home=home) == "{'milk': 3}\n"
    assert run("shopping_list.py", "bought", "milk", "--url", server, home=home) == "{}\n"


def test_the_tested_app_passes_its_tests(tmp_path: Path) -> None:
    told = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shopping_list.py", home=tmp_path)
    assert "passed" in told
    assert "failed" not in told


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_says_how_it_is_run_and_is_listed(script: str) -> None:
    assert f"python examples/{script}" in (EXAMPLES / script).read_text()
    assert f"`{script}`" in (EXAMPLES.parent / "docs" / "guides" / "index.md").read_text()
