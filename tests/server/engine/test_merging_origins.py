"""What the origins of an entity are traced from on a read view of a real space (MERGE-3)."""

from __future__ import annotations

import msgspec
import pytest

from asking import asked
from engines import Engine, engine
from space import set_
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.log import ancestry
from stemmadb.protocol.model.log.ancestry import BranchPoint
from stemmadb.protocol.model.log.commit_record import BranchCreate, Erase
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from stemmadb.server.engine.base.moments import BranchLookup
from stemmadb.server.engine.plan.known_merges import KnownMerges
from stemmadb.server.engine.plan.merge_origins import FACTS_PAGE, MergeOrigins
from stemmadb.server.storage.port import LogReader

X = EntityId("urn:x")
DRAFT = BranchName("draft")


def origins(reader: LogReader, *points: BranchPoint) -> MergeOrigins:
    merges = KnownMerges().seen_by(reader)
    graph = ancestry.graph(BranchLookup(reader), merges.edges, reader.last_write)
    return MergeOrigins(reader, merges, graph, points)


async def erase_on(it: Engine, branch: str) -> Version:
    """An erasure, which has no branch of its own, that sets a value on a branch."""
    made = asked("erase")
    outcome = await it.space.decide(
        msgspec.structs.replace(
            it.propose(set_(X, 0, blind=True), branch=branch),
            identity=made.identity,
            request=made.request,
            branch=None,
            details=Erase(id=X, versions=(Version(2),)),
        )
    )
    assert isinstance(outcome, Accepted)
    return outcome.commit.version


@pytest.mark.rule("MERGE-3")
async def test_a_point_knows_what_was_made_on_the_branches_it_sees() -> None:
    async with engine() as it:
        await it.must(set_(X, 1, blind=True))
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=Version(2)))
        on_main = await it.must(set_(X, 2, blind=True))
        on_draft = await it.must(set_(X, 3, blind=True), branch="draft")
        erased = await erase_on(it, "draft")

        def known(reader: LogReader) -> list[list[bool]]:
            points = [BranchPoint(name, erased) for name in (MAIN, DRAFT)]
            found = origins(reader, *points)
            versions = (Version(2), on_main, on_draft, erased)
            return [[found.knower(point)(version) for version in versions] for point in points]

        assert await it.space.read(known) == [[True, True, False, False], [True, False, True, True]]


@pytest.mark.rule("MERGE-3")
async def test_a_history_of_several_pages_is_traced_whole_and_what_no_point_knows_is_left_out() -> None:
    async with engine() as it:
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=Version(1)))
        for start in range(0, FACTS_PAGE, 500):
            await it.must(*(set_(X, start + number, blind=True) for number in range(500)))
        await it.must(set_(X, "later", blind=True))
        await it.must(set_(X, "elsewhere", blind=True), branch="draft")
        point = BranchPoint(MAIN, Version(5))
        traced = await it.space.read(lambda reader: origins(reader, point).trace(X).at(point))
        assert (traced.content, traced.version) == ("later", 5)
