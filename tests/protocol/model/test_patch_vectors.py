"""The golden patches, as an implementation in another language would check them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stemmadb.protocol.errors import PatchFailed
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.values import json_values

CASES: list[Any] = json.loads((Path(__file__).parents[2] / "vectors" / "patches.json").read_text())["cases"]


@pytest.mark.rule("PATCH-1", "COMMIT-9")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["comment"])
def test_a_golden_patch_gives_what_is_written_and_its_inverse_leads_back(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(PatchFailed) as failed:
            patch.apply(case["value"], case["operations"])
        assert failed.value.facts["patch_index"] == case["error"]["index"]
        return
    assert json_values.equal(patch.apply(case["value"], case["operations"]), case["expected"])
    assert json_values.equal(patch.apply(case["expected"], case["inverse"]), case["value"])
    ours: Any = patch.invert(case["value"], case["operations"])
    assert json_values.equal(ours, case["inverse"])


@pytest.mark.rule("PATCH-4")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["comment"])
def test_a_golden_patch_has_the_footprint_that_is_written(case: dict[str, Any]) -> None:
    if case["footprint"] is None:
        with pytest.raises(PatchFailed):
            patch.footprint(case["operations"])
        return
    found = patch.footprint(case["operations"])
    assert {name: list(getattr(found, name)) for name in ("writes", "reads", "increments")} == case["footprint"]
