"""What a merge looks at follows what was changed, and not what there is (MERGE-2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

from asking import Overtaken, asked
from engines import engine
from merge_builders import replace
from space import patch_, set_
from stemmadb.protocol.model.log.commit_record import BranchCreate
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Version
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.engine.plan.known_merges import KnownMerges
from stemmadb.server.engine.plan.merge import MergeWanted, merge
from stemmadb.server.storage.port import LogReader

DRAFT = BranchName("draft")
THERE = 500
CHANGED = 8
CONTESTED = 2
T = TypeVar("T")


class CountingReader:
    """A read view that counts what is asked of it: calls, entities and records."""

    def __init__(self, reader: LogReader, counts: Counter[str]) -> None:
        self._reader = reader
        self._counts = counts

    def __getattr__(self, name: str) -> Any:
        def ask(*arguments: Any, **named: Any) -> Any:
            self._counts[name] += 1
            if name in ("replays", "replays_upto"):
                spans, ids, *bound = arguments
                arguments = spans, list(ids), *bound
                self._counts["entities"] += len(arguments[1])
            found = getattr(self._reader, name)(*arguments, **named)
            if name == "log":
                self._counts["records"] += len(found)
            return found

        return ask


class CountingSpace(Overtaken):
    def __init__(self, space: SpaceApi) -> None:
        super().__init__(space, _nothing)
        self.counts: Counter[str] = Counter()

    async def read(self, ask: Callable[[LogReader], T]) -> T:
        return await super().read(lambda reader: ask(CountingReader(reader, self.counts)))


async def _nothing() -> None:
    """Nothing overtakes it."""


def entities(numbers: Iterable[int]) -> list[str]:
    return [f"urn:x:{number:04}" for number in numbers]


@pytest.mark.rule("MERGE-2")
async def test_a_merge_loads_what_the_source_changed_and_traces_what_is_contested() -> None:
    async with engine() as it:
        await it.must(*(set_(id_, {"a": 0, "b": 0}, blind=True) for id_ in entities(range(THERE))))
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=Version(2)))
        for branch, value, count in (("draft", 1, CHANGED), ("main", 2, CONTESTED)):
            changes = (patch_(id_, replace("/a", value), blind=True) for id_ in entities(range(count)))
            await it.must(*changes, branch=branch)
        space = CountingSpace(it.space)
        report = await merge(space, asked("m"), MergeWanted(source=DRAFT))
        assert (len(report.writes), len(report.conflicts)) == (CHANGED - CONTESTED, CONTESTED)
        points, access_list = 3, 1
        assert space.counts["entities"] == points * CHANGED + access_list
        pages = 2
        assert space.counts["facts_of"] == pages * CONTESTED
        assert space.counts["ids"] == space.counts["history"] == space.counts["branches"] == 0


@pytest.mark.rule("MERGE-2")
async def test_merges_that_were_read_are_not_read_again() -> None:
    async with engine() as it:
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=Version(1)))
        known, records = KnownMerges(), []
        for number in range(3):
            await it.must(set_("urn:x", number, blind=True), branch="draft")
            space = CountingSpace(it.space)
            await merge(space, asked(f"m{number}"), MergeWanted(source=DRAFT), known=known)
            records.append(space.counts["records"])
        assert records == [1, 1, 1]
        space = CountingSpace(it.space)
        for _ in range(2):
            await merge(space, asked("dry"), MergeWanted(source=DRAFT), known=known, dry_run=True)
        assert space.counts["records"] == 1
