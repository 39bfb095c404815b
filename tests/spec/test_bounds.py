"""Every bound is documented with its default."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from stemmadb.protocol.model.limits import Limits

PAGE = (Path(__file__).parents[2] / "docs" / "spec" / "07-invariants.md").read_text()
UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def documented() -> dict[str, int]:
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) ?(\w*) \|", PAGE, re.MULTILINE)
    return {name: int(number.replace(",", "")) * UNITS[unit] for name, number, unit in rows}


@pytest.mark.rule("MODEL-3")
def test_every_bound_is_documented_with_its_default() -> None:
    assert documented() == msgspec.structs.asdict(Limits())
