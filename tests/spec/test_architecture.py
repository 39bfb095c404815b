"""docs/architecture.md leads to files that are there, and its import picture is of now."""

from __future__ import annotations

import re
from pathlib import Path

from scripts import census

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()


def test_every_path_that_the_page_names_exists() -> None:
    paths = re.findall(r"`((?:protocol|server|client)/stemmadb/[\w/]+(?:\.py|/))`", PAGE)
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_import_picture_is_current() -> None:
    assert census.with_picture(PAGE) == PAGE, "run `python scripts/census.py --imports`"


def test_no_class_name_gains_another_meaning() -> None:
    named = census.ambiguous_classes(census.modules())
    assert len(named) <= 13, sorted(named)
