"""Nothing is undocumented: no command, option, error code or setting of a client."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import stemmadb.client
import stemmadb.client.sync
import stemmadb.client.testing
from stemmadb.client.cli import main
from stemmadb.client.console import catalogue
from stemmadb.client.session.settings import ClientSettings
from stemmadb.protocol import errors

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COMMANDS = (DOCS / "reference" / "commands.md").read_text()
ERRORS = (DOCS / "reference" / "errors.md").read_text()
WRITTEN = "\n".join(
    page.read_text()
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]
    if page.parent.name != "reference" and "spec" not in page.parts
)
"""What people wrote, as opposed to what is made from the code."""


def walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from walk(inner, f"{path} {name}".strip())


ALL = dict(walk(main, ""))


def test_the_reference_is_current() -> None:
    words = [sys.executable, "-m", "scripts.docpages", "reference", "--check"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    assert done.returncode == 0, f"run `make reference`: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("path", [path for path in ALL if path])
def test_every_command_and_option_is_in_the_reference(path: str) -> None:
    found = re.search(rf"^#+ {re.escape(path)}\n(.*?)(?=^#|\Z)", COMMANDS, re.MULTILINE | re.DOTALL)
    assert found is not None
    for option in ALL[path].params:
        if isinstance(option, click.Option) and not {"--json", "--help"} & set(option.opts):
            assert any(f"{name} " in found[1] or f"{name}`" in found[1] for name in option.opts), option.opts


@pytest.mark.parametrize("name", [path for path in ALL if path and " " not in path])
def test_every_command_is_told_of_in_a_guide(name: str) -> None:
    assert f"stemmadb {name}" in WRITTEN or f"`{name}" in WRITTEN


@pytest.mark.parametrize("path", [path for path in ALL if path and not isinstance(ALL[path], click.Group)])
def test_every_command_has_an_example_in_its_help(path: str) -> None:
    assert "Example" in (ALL[path].help or "")


@pytest.mark.parametrize("name", sorted(catalogue.COMMANDS))
def test_every_command_of_the_console_is_told_of(name: str) -> None:
    page = (DOCS / "guides" / "console.md").read_text()
    assert re.search(rf"`{name}[ `]", page)


@pytest.mark.parametrize("code", sorted(errors.BY_CODE))
def test_every_error_code_is_documented(code: str) -> None:
    kind = errors.BY_CODE[code]
    assert f"| `{code}` | `{kind.__name__}` |" in ERRORS


def test_every_setting_of_a_client_is_documented_with_its_default() -> None:
    page = (DOCS / "client.md").read_text()
    for name, default in ClientSettings._field_defaults.items():
        row = re.search(rf"^\| `{name}` \| ([^|]+) \|", page, re.MULTILINE)
        assert row is not None, name
        assert in_bytes(row[1].strip()) == default, name


def in_bytes(text: str) -> float:
    number = float(text.removesuffix(" MiB").replace(",", ""))
    return number * 1024 * 1024 if text.endswith(" MiB") else number


@pytest.mark.parametrize(
    "module", [stemmadb.client, stemmadb.client.sync, stemmadb.client.testing], ids=lambda module: module.__name__
)
def test_every_public_name_is_in_the_reference(module: object) -> None:
    pages = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    assert ":::" not in pages, "the reference reads well in the repository, without building the site"
    names = set(module.__all__)  # type: ignore[attr-defined]  # each of these modules says what is public
    missing = {name for name in names if not re.search(rf"^### {name}$", pages, re.MULTILINE)}
    assert missing <= {"Conflict", "DELETED", "Rejected", "StemmaError"}, "those are in errors.md and in a guide"
    assert "DELETED" in WRITTEN
