"""Every Python example of the README and the docs runs as it is printed, against a real server where it needs one.

It runs twice, since a reader does: what the first time left on the server is in nobody's way.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from served import Process

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = [(page, number, code) for page in PAGES for number, code in enumerate(BLOCK.findall(page.read_text()))]
ADDRESS = "ws://127.0.0.1:8420"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What `make serve` starts, on a port of its own."""
    process = Process(tmp_path_factory.mktemp("served"))
    process.start()
    yield process.address
    process.kill()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who has never seen the project, in an empty directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("STEMMADB_HOME", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("page", "number", "code"), EXAMPLES, ids=lambda part: part.name if isinstance(part, Path) else ""
)
def test_an_example_runs_as_printed_and_again(
    page: Path, number: int, code: str, request: pytest.FixtureRequest
) -> None:
    if ADDRESS in code:
        code = code.replace(ADDRESS, request.getfixturevalue("server"))
    for turn in ("once", "again"):
        run(code, f"{page.name}, example {number}, {turn}")


def run(code: str, name: str) -> None:
    """As a script, or, if it awaits, as in `python -m asyncio`."""
    compiled = compile(code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = eval(compiled, {"__name__": "example"})  # noqa: S307
    if inspect.iscoroutine(made):
        asyncio.run(made)


def test_the_readme_has_an_example() -> None:
    assert any(page.name == "README.md" for page, _, _ in EXAMPLES)


LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    missing = [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()]
    assert not missing
