"""Branches and tags of a real space (BRANCH-1, COMMIT-11)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from asking import asked, tip_of
from engines import Engine, engine
from space import ALICE, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.log.commit_record import Compact
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.engine.plan import branch_writes
from stemmadb.server.engine.plan.planned_write import CompletedWrite
from stemmadb.server.storage.port import StoredTag

DRAFT = BranchName("draft")
STRANGER = Did("did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH")

Write = Callable[[SpaceApi], Awaitable[object]]


async def fork(it: Engine, name: str, parent: str = "main", fork: int | None = None) -> CompletedWrite:
    at = None if fork is None else Version(fork)
    return await branch_writes.create_branch(
        it.space, asked(f"fork {name}"), name=BranchName(name), parent=BranchName(parent), fork=at
    )


@pytest.mark.rule("BRANCH-1")
async def test_a_branch_begins_as_its_parent_is() -> None:
    async with engine() as it:
        await it.must(set_("urn:x", 1, blind=True))
        made = await fork(it, "draft")
        await it.must(set_("urn:x", 2, blind=True))
        assert (made.version, await it.value("urn:x", "draft"), await it.value("urn:x")) == (3, 1, 2)
        await it.must(set_("urn:x", 3, blind=True), branch="draft")
        assert (await it.value("urn:x", "draft"), await it.value("urn:x")) == (3, 2)


@pytest.mark.rule("BRANCH-1")
async def test_a_branch_can_begin_in_the_past() -> None:
    async with engine() as it:
        first = await it.must(set_("urn:x", 1, blind=True))
        await it.must(set_("urn:x", 2, blind=True))
        await fork(it, "draft", fork=first)
        assert await it.value("urn:x", "draft") == 1


@pytest.mark.rule("BRANCH-1")
async def test_a_deleted_branch_is_read_and_not_written() -> None:
    async with engine() as it:
        await fork(it, "draft")
        await it.must(set_("urn:x", 1, blind=True), branch="draft")
        await branch_writes.delete_branch(it.space, asked("end"), name=DRAFT)
        assert await it.value("urn:x", "draft") == 1
        await refused(
            it, errors.BranchDeleted, lambda space: branch_writes.delete_branch(space, asked("b"), name=DRAFT)
        )
        await refused(
            it, errors.BranchExists, lambda space: branch_writes.create_branch(space, asked("c"), name=DRAFT)
        )


async def refused(it: Engine, kind: type[errors.StemmaError], write: Write) -> None:
    """It raises, and nothing is written."""
    before = await tip_of(it.space)
    with pytest.raises(kind):
        await write(it.space)
    assert await tip_of(it.space) == before


@pytest.mark.rule("BRANCH-1")
@pytest.mark.parametrize(
    ("kind", "name", "parent", "at"),
    [
        (errors.UnknownBranch, "a", "nowhere", None),
        (errors.UnknownBranch, "a", "nowhere", 1),
        (errors.FutureVersion, "a", "main", 99),
        (errors.Malformed, "a", "main", -1),
        (errors.InvalidName, "a b", "main", None),
        (errors.BranchExists, "main", "main", None),
    ],
)
async def test_a_branch_that_cannot_be_is_refused(
    kind: type[errors.StemmaError], name: str, parent: str, at: int | None
) -> None:
    async with engine() as it:
        await refused(it, kind, lambda _: fork(it, name, parent, at))


@pytest.mark.rule("BRANCH-1")
async def test_the_65th_level_of_branches_is_refused() -> None:
    async with engine() as it:
        parent = "main"
        for depth in range(2, 65):
            await fork(it, f"b{depth}", parent)
            parent = f"b{depth}"
        await refused(it, errors.LimitExceeded, lambda _: fork(it, "b65", parent))


@pytest.mark.rule("BRANCH-1")
async def test_main_cannot_be_deleted_and_neither_what_is_not_there() -> None:
    async with engine() as it:
        await refused(it, errors.BranchProtected, lambda at: branch_writes.delete_branch(at, asked("a"), name=MAIN))
        await refused(it, errors.UnknownBranch, lambda at: branch_writes.delete_branch(at, asked("b"), name=DRAFT))
        await refused(it, errors.UnknownTag, lambda at: branch_writes.delete_tag(at, asked("c"), name="v1"))


@pytest.mark.rule("ACL-1")
async def test_a_stranger_makes_no_branch() -> None:
    async with engine() as it:
        stranger = asked("a", author=STRANGER)
        await refused(it, errors.Forbidden, lambda at: branch_writes.create_branch(at, stranger, name=DRAFT))


@pytest.mark.rule("COMMIT-11")
async def test_a_write_that_is_sent_again_gets_the_same_answer() -> None:
    async with engine() as it:
        made = await fork(it, "draft")
        tagged = await branch_writes.create_tag(it.space, asked("tag"), name="v1")
        await it.must(set_("urn:x", 1, blind=True))
        head = await tip_of(it.space)
        assert await fork(it, "draft") == made
        assert await branch_writes.create_tag(it.space, asked("tag"), name="v1") == tagged
        assert await tip_of(it.space) == head


@pytest.mark.rule("COMMIT-11")
async def test_another_write_under_the_same_operation_id_is_refused() -> None:
    async with engine() as it:
        await fork(it, "draft")
        other = asked("fork draft", request="another")
        await refused(
            it, errors.IdentityClash, lambda at: branch_writes.create_branch(at, other, name=BranchName("b"))
        )
        await refused(it, errors.IdentityClash, lambda at: branch_writes.delete_branch(at, other, name=DRAFT))


@pytest.mark.rule("COMMIT-7")
async def test_the_note_and_the_author_are_recorded() -> None:
    async with engine() as it:
        made = await branch_writes.create_branch(it.space, asked("a", note=b"\xa3why"), name=DRAFT)
        commit = (await it.space.read(lambda reader: reader.commits([made.version])))[made.version]
        assert (commit.author, commit.note, commit.hash, commit.time) == (ALICE, b"\xa3why", made.hash, made.time)


@pytest.mark.rule("COMPACT-1")
async def test_a_branch_and_a_tag_of_what_was_compacted_away_are_refused() -> None:
    async with engine() as it:
        for value in range(3):
            await it.must(set_("urn:x", value, blind=True))
        early = await branch_writes.create_tag(it.space, asked("early"), name="early", version=Version(2))
        old = await fork(it, "old", fork=3)
        await it.structure(Compact(floor=Version(4)))
        await refused(it, errors.Compacted, lambda _: fork(it, "draft", fork=3))
        await refused(
            it, errors.Compacted, lambda at: branch_writes.create_tag(at, asked("t"), name="t", version=Version(3))
        )
        assert await branch_writes.create_tag(it.space, asked("early"), name="early", version=Version(2)) == early
        assert await fork(it, "old", fork=3) == old
        await fork(it, "kept", fork=2)
        await fork(it, "draft", fork=4)


async def test_a_tag_names_a_version_of_a_branch() -> None:
    async with engine() as it:
        await fork(it, "draft")
        head = await it.must(set_("urn:x", 1, blind=True), branch="draft")
        await branch_writes.create_tag(it.space, asked("a"), name="v1", branch=DRAFT)
        await branch_writes.create_tag(it.space, asked("b"), name="v0", version=Version(1))
        await refused(it, errors.TagExists, lambda at: branch_writes.create_tag(at, asked("c"), name="v0"))
        await refused(
            it,
            errors.UnknownBranch,
            lambda at: branch_writes.create_tag(at, asked("d"), name="v2", branch=BranchName("?")),
        )
        assert (await branch_writes.list_tags(it.space)).tags == (
            StoredTag("v0", MAIN, Version(1)),
            StoredTag("v1", DRAFT, head),
        )
        await branch_writes.delete_tag(it.space, asked("e"), name="v0")
        page = await branch_writes.list_tags(it.space)
        assert ([tag.name for tag in page.tags], page.version, page.next) == (["v1"], head + 3, None)


async def test_branches_are_listed_with_their_last_write() -> None:
    async with engine() as it:
        await fork(it, "draft")
        await fork(it, "empty")
        written = await it.must(set_("urn:x", 1, blind=True), branch="draft")
        ended = await branch_writes.delete_branch(it.space, asked("end"), name=DRAFT)
        page = await branch_writes.list_branches(it.space)
        assert [(one.name, one.parent, one.fork, one.head, one.deleted) for one in page.branches] == [
            ("draft", "main", 1, written, ended.version),
            ("empty", "main", 2, 0, None),
            ("main", None, 0, 1, None),
        ]
        assert (page.version, page.next) == (ended.version, None)


async def test_pages_give_each_name_once() -> None:
    async with engine(limits=Limits(page_max=3)) as it:
        names = ["main", *(f"b{number}" for number in range(6))]
        for name in names[1:]:
            await fork(it, name)
            await branch_writes.create_tag(it.space, asked(f"tag {name}"), name=name)
        found: list[str] = []
        tags: list[str] = []
        after = at = None
        for _ in range(4):
            page = await branch_writes.list_branches(it.space, after=after, limit=2)
            found, after = [*found, *(one.name for one in page.branches)], page.next
        for _ in range(2):
            tag_page = await branch_writes.list_tags(it.space, after=at)
            tags, at = [*tags, *(tag.name for tag in tag_page.tags)], tag_page.next
        assert (found, after, tags, at) == (sorted(names), None, sorted(names[1:]), None)
        with pytest.raises(errors.LimitExceeded):
            await branch_writes.list_branches(it.space, limit=4)
