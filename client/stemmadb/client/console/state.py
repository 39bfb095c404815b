"""Where the console stands: a space, a branch and a moment. A command gets one, and may give another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from stemmadb.client.cli import moments
from stemmadb.client.cli.connection import at
from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.moments import AtHead, BranchMoment
from stemmadb.client.cli.safe_text import Viewer, short_did
from stemmadb.client.reading.moment import Moment
from stemmadb.client.space import Space
from stemmadb.protocol import identity
from stemmadb.protocol.errors import Forbidden, InvalidQuery, UnknownBranch
from stemmadb.protocol.model.values.ids import BranchName, Did, Version

WRITES = " (writes)"
"""In the prompt of a console that can write where it stands."""
READ_ONLY = "This console only reads. Start it with 'stemmadb console --write' to change things."


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleState:
    """A place to read from. `moment` is settled, or None at the head."""

    space: Space
    name: str
    """What the user calls the space."""
    me: Did
    url: str
    viewer: Viewer
    now: Callable[[], datetime]
    may_write: bool = False
    moment: Moment | None = None

    @property
    def branch(self) -> BranchName:
        return self.space.branch_name

    @property
    def version(self) -> Version | None:
        """The version looked at, None at the head."""
        return None if self.moment is None else self.moment.version

    @property
    def place(self) -> str:
        """The branch and the moment, as the prompt shows them."""
        return f"{clean(self.branch)}@{'head' if self.version is None else self.version}"

    @property
    def prompt(self) -> str:
        name = short_did(self.name) if self.name.startswith(identity.PREFIX) else clean(self.name)
        return f"{name}{WRITES if self.may_write and self.version is None else ''} {self.place}> "

    @property
    def reader(self) -> Space | Moment:
        """What is asked for values: at the head own writes are seen at once."""
        return self.space if self.moment is None else self.moment

    def pinned(self) -> Moment:
        """A moment all of whose answers are of one version; at the head the one that it is when it is asked."""
        return self.moment or self.space.at()

    # ------------------------------------------------------------ moving

    async def on(self, branch: str) -> ConsoleState:
        """The same moment on another branch; `UnknownBranch` if there is none."""
        space = await self.space.branch(branch)
        if self.version is None:
            return replace(self, space=space)
        return await replace(self, space=space)._at(space.at(version=self.version))

    async def at(self, text: str) -> ConsoleState:
        """The moment that a person means, on this branch or on the one that is named."""
        place = self._place(text)
        space = self.space if place.branch is None else await self._named(place.branch, text)
        if isinstance(place.when, AtHead):
            return replace(self, space=space, moment=None)
        return await replace(self, space=space)._at(at(space, place.when))

    async def side(self, text: str) -> Moment:
        """One side of a comparison."""
        place = self._place(text)
        space = self.space if place.branch is None else await self._named(place.branch, text)
        return at(space, place.when)

    def time(self, text: str) -> datetime:
        """The time that a person means."""
        return moments.parse_time(text, now=self.now(), zone=self.viewer.zone)

    async def _at(self, moment: Moment) -> ConsoleState:
        await moment.settled()
        if moment.branch == self.branch:
            return replace(self, moment=moment)
        return replace(self, moment=moment, space=await self.space.branch(moment.branch))

    def _place(self, text: str) -> BranchMoment:
        return moments.parse_place(text, now=self.now(), zone=self.viewer.zone)

    async def _named(self, branch: BranchName, text: str) -> Space:
        try:
            return await self.space.branch(branch)
        except UnknownBranch as unknown:
            if moments.AT in text or text.lower().startswith(moments.BRANCH):
                raise
            message = f"{clean(text)!r} is neither a branch nor a moment: write {moments.EXAMPLES}."
            raise InvalidQuery(message, why=unknown.message) from None

    # ------------------------------------------------------------ writing

    def check_writing(self) -> None:
        """`Forbidden` unless this console writes, `InvalidQuery` unless it stands at a head."""
        if not self.may_write:
            raise Forbidden(READ_ONLY, action="write", needs="write")
        if self.version is not None:
            hint = "the past does not change. Say 'at head' first"
            raise InvalidQuery(f"You are at version {self.version}: {hint}.", why=hint)
