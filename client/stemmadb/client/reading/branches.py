"""Branches and tags: made, listed, ended (BRANCH-1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from stemmadb.client.reading.entries import Receipt, receipt
from stemmadb.client.reading.pages import Listing, ListPage, PageTurner
from stemmadb.client.reading.plain import encoded_note
from stemmadb.client.reading.times import optional_version
from stemmadb.client.requester import Requester
from stemmadb.protocol.errors import UnknownTag
from stemmadb.protocol.model.values import ids
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire.messages import structure
from stemmadb.protocol.wire.messages.base import Written


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch: where it left its parent, and the version of the last write on it, 0 if there is none.

    One that was deleted can still be read and merged from.
    """

    name: BranchName
    parent: BranchName | None
    fork: Version
    version: Version
    deleted: Version | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A name for a version of a branch."""

    name: BranchName
    branch: BranchName
    version: Version


class Branches:
    """The branches of a space.

    await branches.create("draft")
    names = [branch.name for branch in await branches.list()]
    """

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    async def create(self, name: str, *, parent: str = MAIN, fork: int | None = None, note: Value = None) -> Receipt:
        """Makes a branch that begins as its parent is, or was at `fork`; `BranchExists` if the name was ever used."""
        written = await self._requester.write(
            structure.CreateBranch,
            Written,
            name=ids.branch_name(name),
            parent=ids.branch_name(parent),
            fork=optional_version(fork),
            note=encoded_note(note, self._requester.limits),
        )
        return receipt(written)

    async def delete(self, name: str, *, note: Value = None) -> Receipt:
        """Ends a branch. What it holds stays readable."""
        written = await self._requester.write(
            structure.DeleteBranch,
            Written,
            name=ids.branch_name(name),
            note=encoded_note(note, self._requester.limits),
        )
        return receipt(written)

    async def list(self, *, deleted: bool = False) -> list[Branch]:
        """The branches by name; those that were deleted only if they are wanted."""
        branches = await self._listing().all()
        return [branch for branch in branches if deleted or branch.deleted is None]

    def _listing(self) -> Listing[Branch]:
        async def fetch(after: str | None, size: int | None) -> ListPage[Branch]:
            answer = await self._requester.ask(
                structure.ListBranches, structure.BranchesAnswer, after=after, limit=size
            )
            return ListPage(answer.version, tuple(map(_branch, answer.branches)), answer.next)

        return Listing(partial(PageTurner, fetch))


class Tags:
    """The tags of a space: names for versions, which are kept from being compacted away.

    await tags.create("v1")
    value = await space.at(tag="v1").get("urn:todo:1")
    """

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    async def create(
        self, name: str, *, branch: str = MAIN, version: int | None = None, note: Value = None
    ) -> Receipt:
        """Names a version of a branch, or its head."""
        written = await self._requester.write(
            structure.CreateTag,
            Written,
            name=ids.branch_name(name),
            branch=ids.branch_name(branch),
            version=optional_version(version),
            note=encoded_note(note, self._requester.limits),
        )
        return receipt(written)

    async def delete(self, name: str, *, note: Value = None) -> Receipt:
        """Removes a tag; the version it named stays as long as compactions leave it."""
        written = await self._requester.write(
            structure.DeleteTag,
            Written,
            name=ids.branch_name(name),
            note=encoded_note(note, self._requester.limits),
        )
        return receipt(written)

    async def list(self) -> list[Tag]:
        """The tags by name."""
        return await _tags(self._requester).all()


async def find_tag(requester: Requester, name: BranchName) -> Tag:
    """The tag of this name; `UnknownTag` if there is none."""
    async for tag in _tags(requester):
        if tag.name == name:
            return tag
    raise UnknownTag(tag=name)


def _tags(requester: Requester) -> Listing[Tag]:
    async def fetch(after: str | None, size: int | None) -> ListPage[Tag]:
        answer = await requester.ask(structure.ListTags, structure.TagsAnswer, after=after, limit=size)
        tags = (Tag(name=one.name, branch=one.branch, version=one.version) for one in answer.tags)
        return ListPage(answer.version, tuple(tags), answer.next)

    return Listing(partial(PageTurner, fetch))


def _branch(entry: structure.BranchEntry) -> Branch:
    return Branch(name=entry.name, parent=entry.parent, fork=entry.fork, version=entry.head, deleted=entry.deleted)
