"""The golden merges and ancestors of tests/vectors/merges.json (MERGE-2, MERGE-3)."""

from __future__ import annotations

import json
from bisect import bisect_right
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stemmadb.protocol.errors import BY_CODE
from stemmadb.protocol.model.history import stamps
from stemmadb.protocol.model.history.difference import Content, same
from stemmadb.protocol.model.history.stamps import Count, Stamp
from stemmadb.protocol.model.log.ancestry import BranchPoint, MergeEdge, best_common_ancestors, graph
from stemmadb.protocol.model.log.state import BranchState, Missing
from stemmadb.protocol.model.merge import Candidate, MergePlan, MergeSide, plan
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "merges.json").read_text())


def content(case: dict[str, Any]) -> Content:
    return Missing.ABSENT if case.get("absent") else case["value"]


def side(case: dict[str, Any]) -> MergeSide:
    stamp = stamps.whole(Version(case["version"]))
    for part in case.get("stamps", []):
        made = Stamp(Version(part["version"]), Version(part["assigned"]), count=count(part))
        stamp = stamps.put(stamp, pointer.parse(part["path"]), made)
    known = case.get("known", [])
    return MergeSide(content(case), Version(case["version"]), lambda: stamp, lambda version: version in known)


def count(part: dict[str, Any]) -> Count | None:
    made: Count | None = None
    for version, amount in part.get("increments", []):
        value = (part["start"] if made is None else made.value) + amount
        before = () if made is None else (made,)
        made = Count(Version(part["assigned"]), part["start"], Version(version), value, amount, before)
    return made


def planned(case: dict[str, Any]) -> MergePlan:
    bases = tuple(side(base) for base in case["bases"])
    common = case.get("common", [])
    entity = Candidate(
        EntityId(case["id"]), bases, side(case["source"]), side(case["target"]), lambda version: version in common
    )
    resolutions = {EntityId(id_): content(choice) for id_, choice in case.get("resolutions", {}).items()}
    return plan([entity], strategy=case["strategy"], resolutions=resolutions)


@pytest.mark.rule("MERGE-2", "MERGE-3")
@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_a_golden_merge_writes_and_records_what_it_says(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(BY_CODE[case["error"]]):
            planned(case)
        return
    made = planned(case)
    expected = [(write["id"], Missing.ABSENT if write.get("delete") else write["value"]) for write in case["writes"]]
    assert [write.id for write in made.writes] == [id_ for id_, _ in expected]
    assert all(same(write.content, value) for write, (_, value) in zip(made.writes, expected, strict=True))
    recorded = [{"path": "", "base": None} | msgspec.to_builtins(conflict) for conflict in made.conflicts]
    assert recorded == case["conflicts"]


@pytest.mark.rule("MERGE-2")
@pytest.mark.parametrize("case", VECTORS["ancestry"], ids=lambda case: case["name"])
def test_golden_points_have_the_best_ancestors_it_says(case: dict[str, Any]) -> None:
    branches = {MAIN: BranchState(name=MAIN)}
    for made in case["branches"]:
        branches[made["name"]] = BranchState(**made)

    def last(name: BranchName, version: Version) -> Version:
        versions = case["commits"].get(name, [])
        count = bisect_right(versions, version)
        return Version(versions[count - 1] if count else 0)

    known = graph(branches, [MergeEdge(**edge) for edge in case["merges"]], last)
    for one, other in [("one", "other"), ("other", "one")]:
        found = best_common_ancestors(known, BranchPoint(**case[one]), BranchPoint(**case[other]))
        assert [{"branch": at.branch, "version": at.version} for at in found] == case["best"]
