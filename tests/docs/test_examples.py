"""Every Python example of the README and the docs runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = [(page, number, code) for page in PAGES for number, code in enumerate(BLOCK.findall(page.read_text()))]


@pytest.mark.parametrize(
    ("page", "number", "code"), EXAMPLES, ids=lambda part: part.name if isinstance(part, Path) else ""
)
def test_an_example_runs_as_it_is_printed(page: Path, number: int, code: str) -> None:
    exec(compile(code, f"{page.name}, example {number}", "exec"), {"__name__": "example"})  # noqa: S102


def test_the_readme_has_an_example() -> None:
    assert any(page.name == "README.md" for page, _, _ in EXAMPLES)


LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    missing = [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()]
    assert not missing
