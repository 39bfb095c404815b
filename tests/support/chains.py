"""A small history to verify, and to tamper with."""

from __future__ import annotations

from space import MemorySpace, delete_, patch_, set_
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import BranchCreate, Commit
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Version

History = list[tuple[Commit, tuple[Fact, ...]]]
DRAFT = BranchName("draft")


def make_space() -> MemorySpace:
    space = MemorySpace()
    space.must(set_("urn:x", {"n": 1}, blind=True), set_("urn:y", "y", blind=True), note=encode(["first", None]))
    space.structure(BranchCreate(name=BranchName("draft"), parent=MAIN, fork=Version(1)))
    space.must(patch_("urn:x", {"op": "increment", "path": "/n", "by": 1}), branch="draft")
    space.must(delete_("urn:x", blind=True), set_("urn:x", 2))
    space.must(patch_("urn:x", {"op": "increment", "path": "/n", "by": 1}), branch="draft")
    space.structure(BranchCreate(name=BranchName("twig"), parent=BranchName("draft"), fork=Version(3)))
    space.must(set_("urn:x", 3, blind=True), branch="twig")
    return space


def verified(space: MemorySpace, history: History) -> int:
    version = 0
    for progress in chain.verify(space.space, history):
        version = progress.version
    return version
