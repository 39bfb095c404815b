"""Every bound is documented with its default."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from stemmadb.protocol.model.values.limits import Limits

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spec" / "07-invariants.md").read_text()
UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def documented(table: str) -> dict[str, int]:
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) ?(\w*) \|", table, re.MULTILINE)
    return {name: int(number.replace(",", "")) * UNITS[unit] for name, number, unit in rows}


@pytest.mark.rule("MODEL-3")
def test_every_bound_is_documented_with_its_default() -> None:
    settings = PAGE.split("## Bounds")[1].split("These are fixed")[0]
    assert documented(settings) == msgspec.structs.asdict(Limits())


@pytest.mark.rule("WIRE-4")
def test_every_bound_that_an_error_can_name_is_documented() -> None:
    sources = "".join(file.read_text() for file in (ROOT / "protocol").rglob("*.py"))
    named = set(re.findall(r'bound="(\w+)"', sources))
    assert {name for name in named if f"| `{name}` |" not in PAGE} == set()
