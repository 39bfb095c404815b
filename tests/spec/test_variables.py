"""All environment variables that users set are of one family, `STEMMADB_*`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [
    file
    for folder in ("client", "server", "protocol", "memory", "docs", "scripts", "examples", "tests")
    for kind in ("*.py", "*.md")
    for file in (ROOT / folder).rglob(kind)
]
OTHER = re.compile(r"\bSTEMMA_[A-Z]")


def test_no_variable_has_another_prefix() -> None:
    found = [str(file.relative_to(ROOT)) for file in SOURCES if OTHER.search(file.read_text())]
    assert found == []
