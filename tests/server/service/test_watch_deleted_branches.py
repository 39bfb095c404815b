"""Watches on a branch that was deleted, and of which a compaction left nothing (BRANCH-1)."""

from __future__ import annotations

from typing import Any

import pytest

from service_peers import ALICE, CAROL, Peer, ServiceHarness, put, service_harness
from stemmadb.protocol.errors import BranchDeleted
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import BranchName, Version
from stemmadb.protocol.wire.messages.session import HeldWatch
from stemmadb.protocol.wire.messages.structure import CompactRequest, CreateBranch, DeleteBranch

DRAFT = BranchName("draft")


def writing(name: str) -> dict[str, Any]:
    return {"operation": name.encode().rjust(16), "nonce": bytes(16)}


async def deleted(home: ServiceHarness) -> Peer:
    """An owner who has made a branch, written to it, deleted it, and compacted it away."""
    alice = await home.peer(ALICE).open()
    await alice.ask(CreateBranch, **writing("create"), name=DRAFT)
    await alice.commit(put("urn:x", 1), branch="draft")
    await alice.ask(DeleteBranch, **writing("delete"), name=DRAFT)
    last = await alice.commit(put("urn:x", 2))
    await alice.ask(CompactRequest, **writing("compact"), floor=last.version)
    return alice


@pytest.mark.rule("BRANCH-1", "WATCH-3")
@pytest.mark.parametrize("since", [None, 1, 3, 5])
async def test_a_watch_on_it_is_refused_whether_it_begins_now_or_in_the_past(since: int | None) -> None:
    async with service_harness() as home:
        await deleted(home)
        carol = await home.peer(CAROL).open()
        for _ in range(2):
            with pytest.raises(BranchDeleted):
                await carol.watch(1, "urn:*", branch="draft", since=None if since is None else Version(since))
        assert carol.closed is None


@pytest.mark.rule("BRANCH-1", "RESUME-1")
async def test_a_watch_on_it_that_is_resumed_ends_once() -> None:
    async with service_harness() as home:
        alice = await home.peer(ALICE).open()
        await alice.ask(CreateBranch, **writing("create"), name=DRAFT)
        carol = await home.peer(CAROL).open()
        await carol.watch(1, "urn:*", branch="draft")
        carol.lose()
        await alice.commit(put("urn:x", 1), branch="draft")
        await alice.ask(DeleteBranch, **writing("delete"), name=DRAFT)
        last = await alice.commit(put("urn:x", 2))
        await alice.ask(CompactRequest, **writing("compact"), floor=last.version)
        query = Query(roots=(Root("urn:*"),), branch="draft")
        again = home.peer(CAROL, session=carol.session)
        standing = {"to": carol.connection.to, "hash": carol.connection.hash}
        await again.open(**standing, watches=(HeldWatch(watch=1, query=query, filled=True),))
        await alice.commit(put("urn:x", 3))
        assert [(one.watch, one.code) for frame in again.frames for one in frame.ended] == [(1, "branch_deleted")]
        assert again.closed is None
