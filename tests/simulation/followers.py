"""Followers: each adds up what one watch tells, and holds every change against what is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from simulation.states import States, answer, covers, differences, same
from stemmadb.client.nursery.entities import ABSENT, Nothing
from stemmadb.client.nursery.operations import DoesNotApply, after
from stemmadb.client.nursery.pending import Pending
from stemmadb.client.space import Space
from stemmadb.client.watches import Watch
from stemmadb.client.watching import Change
from stemmadb.protocol.errors import Forbidden, GoingAway, JournalFailed, UnknownBranch, UnknownSpace
from stemmadb.protocol.model.query.query import Root
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.json_values import Value

MayRead = Callable[[int, Version], bool]
"""Whether the app may read at all, by what is durable at a version of a history."""


class Follower:
    """What it was told is a state of the log at its version, with own pending work on top (NURSERY-4, WATCH-1)."""

    def __init__(
        self, space: Space, watch: Watch, roots: Sequence[Root], states: States, *, may_read: MayRead
    ) -> None:
        self.space = space
        self.watch = watch
        self.roots = roots
        self.state: dict[str, Value] = {}
        self.version = Version(0)
        self.epoch = 0
        self.is_over = False
        """Whether its branch went away when the server was restored, or the right to read it."""
        self.changes = 0
        self.checked = 0
        self._states = states
        self._may_read = may_read
        self._selects_by_id = all(root.schema is None and not root.path for root in roots)

    async def follow(self, pause: Callable[[], float]) -> None:
        try:
            while True:
                self.take(await self.watch.next())
                if seconds := pause():
                    await asyncio.sleep(seconds)
        except GoingAway:
            pass
        except (Forbidden, UnknownSpace, JournalFailed):
            self.is_over = True
        except UnknownBranch:
            assert self._states.epoch, "a branch goes away only with its history"
            self.is_over = True

    def take(self, change: Change) -> None:
        """Right after it was told, before anything else can happen."""
        assert change or not self.changes, f"{self}: a change without a change"
        self.changes += 1
        assert not change.entered.keys() & self.state.keys(), f"{self}: {change} enters what was there"
        assert change.updated.keys() <= self.state.keys(), f"{self}: {change} updates what was not there"
        assert set(change.left) <= self.state.keys(), f"{self}: {change} takes what was not there"
        self.state |= change.entered | change.updated
        for id_ in change.left:
            del self.state[id_]
        self._compare(change)

    def _compare(self, change: Change) -> None:
        """It is right in the history it was in before, at a later version, or in one that began since."""
        found = ""
        for epoch in range(self.epoch, self._states.epoch + 1):
            found = self._wrong(change, epoch)
            if not found:
                self.epoch, self.version = epoch, change.version
                return
        raise AssertionError(f"{self} at {change.version}: {found}")

    def _wrong(self, change: Change, epoch: int) -> str:
        """What is wrong with the state at this version of this history.

        With own pending work it is known only where all that it writes is: under a watch without a schema.
        """
        version = change.version
        if epoch == self.epoch and version < self.version:
            return f"goes back from {self.version}"
        state = self._states.at(self.space.branch_name, version, epoch)
        if state is None:
            return "there is no such version"
        pending = self.space._session.nursery.pending()
        is_news = (epoch, version) != (self.epoch, self.version) and not pending
        if is_news and (change.entered or change.updated) and not self._may_read(epoch, version):
            return "it may not be read any more"
        if pending and not self._selects_by_id:
            return ""
        self.checked += 1
        try:
            expected = answer(self._shown(state, pending), self.roots)
        except DoesNotApply as error:
            return str(error)
        return "" if same(self.state, expected) else differences(self.state, expected)

    def _shown(self, state: Mapping[EntityId, Value], pending: Iterable[Pending]) -> dict[EntityId, Value]:
        """The state with the pending commits on top that are said to be shown."""
        shown: dict[EntityId, Value | Nothing] = dict(state)
        for one in pending:
            if one.is_shown and one.branch == self.space.branch_name:
                for write in one.writes:
                    if covers(self.roots, write.id):
                        shown[write.id] = after(shown.get(write.id, ABSENT), (write,))
        return {id_: value for id_, value in shown.items() if not isinstance(value, Nothing)}

    def is_right(self) -> bool:
        return self.is_over or not self.end()

    def end(self) -> str:
        """How what it was told differs from the query at the head, afresh."""
        expected = answer(self._states.head(self.space.branch_name), self.roots)
        return "" if same(self.state, expected) else differences(self.state, expected)

    def __repr__(self) -> str:
        return f"Follower({self.space.branch_name}, {self.roots})"
