"""The first write of a space is its access list, in a real space (ACL-3)."""

from __future__ import annotations

import pytest

from engines import ACCESS, engine
from space import ALICE, SPACE, prefix_, set_, structural
from stemmadb.protocol.errors import Forbidden
from stemmadb.protocol.model.log.commit_record import Compact, OperationIdentity
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, TimeMs, Version
from stemmadb.server.engine.base.space_port import Asked
from stemmadb.server.engine.plan import branch_writes, compaction, erasure, merge, undo
from stemmadb.server.engine.plan.merge import MergeWanted
from stemmadb.server.engine.plan.undo import RevertWanted
from verdicts import X, code, refusal

ASKED = Asked(OperationIdentity(SPACE, b"o" * 16), Hash(b"r" * 32))


@pytest.mark.rule("ACL-3")
async def test_the_first_write_is_the_access_list_made_by_the_space_itself() -> None:
    async with engine(access=None) as it:
        for author in (ALICE, SPACE):
            error = refusal(await it.commit(set_(X, 1, blind=True), author=author))
            assert error.code == "forbidden"
            assert "no access list yet" in error.message
        assert code(await it.commit(set_(SPACE, ACCESS, blind=True), author=ALICE)) == "forbidden"
        assert await it.must(set_(SPACE, ACCESS), author=SPACE, reads=[prefix_("", 0)]) == 1
        assert await it.must(set_(X, 1, blind=True), author=ALICE) == 2


@pytest.mark.rule("ACL-3")
async def test_what_was_sent_together_with_the_list_is_decided_after_it() -> None:
    async with engine(access=None) as it:
        first = it.propose(set_(SPACE, ACCESS, blind=True), author=SPACE)
        decisions = [it.space.submit(first), it.space.submit(it.propose(set_(X, 1, blind=True)))]
        assert [code(await one) for one in decisions] == ["accepted", "accepted"]


@pytest.mark.rule("ACL-3")
@pytest.mark.parametrize("dry_run", [True, False])
async def test_nothing_is_planned_before_there_is_a_list(dry_run: bool) -> None:
    async with engine(access=None) as it:
        with pytest.raises(Forbidden, match="no access list yet"):
            await merge.merge(it.space, ASKED, MergeWanted(source=BranchName("b")), dry_run=dry_run)
        with pytest.raises(Forbidden, match="no access list yet"):
            await undo.revert(it.space, ASKED, RevertWanted(versions=(Version(1),)), dry_run=dry_run)


@pytest.mark.rule("ACL-3")
async def test_nothing_is_made_or_destroyed_before_there_is_a_list() -> None:
    async with engine(access=None) as it:
        with pytest.raises(Forbidden):
            await branch_writes.create_branch(it.space, ASKED, name=BranchName("b"))
        with pytest.raises(Forbidden):
            await compaction.compact(it.space, ASKED, Version(0), now=TimeMs(1_000))
        with pytest.raises(Forbidden):
            await erasure.erase(it.space, ASKED, {EntityId(X): [Version(1)]}, {})
        outcome = await it.space.decide(structural(Compact(floor=Version(0)), "c", author=SPACE))
        assert code(outcome) == "forbidden"
        assert it.space.version == 0
