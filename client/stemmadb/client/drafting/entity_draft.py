"""A page: one entity in a draft, with what waits until it is known what is there (NURSERY-8)."""

from __future__ import annotations

from stemmadb.client.drafting.steps import DraftState, DraftStep, StepBase
from stemmadb.client.nursery.entities import UNKNOWN, CachedEntity
from stemmadb.client.nursery.plans import CommitWrite
from stemmadb.client.nursery.shown import Shown


class DraftEntry:
    """A step in its place among all steps of the draft, and what it writes, as soon as that is known."""

    __slots__ = ("step", "write")

    def __init__(self, step: DraftStep, write: CommitWrite | None) -> None:
        self.step = step
        self.write = write


class EntityDraft:
    """`state` is what the draft shows of the entity now. What waits always comes before all that does not."""

    __slots__ = ("_waiting", "base", "cached", "is_known", "state")

    def __init__(self, base: StepBase, cached: CachedEntity | None = None) -> None:
        self.base = base
        self.cached = cached
        self.state = DraftState(base.shown.value)
        self.is_known = base.shown.value is not UNKNOWN
        """Whether it is known what lies beneath the draft."""
        self._waiting: list[DraftEntry] = []

    @property
    def is_missing(self) -> bool:
        """Whether something waits that cannot be sent as it is."""
        return not self.is_known and any(not entry.step.blind for entry in self._waiting)

    def learn(self, shown: Shown, cached: CachedEntity | None) -> None:
        """What is there. What was known before stays: a transaction reads one view (NURSERY-2)."""
        if not self.is_known:
            self.base = self.base._replace(shown=shown)
            self.cached = cached
            self.is_known = shown.value is not UNKNOWN

    def take(self, step: DraftStep) -> DraftEntry | None:
        """Does the step, or lets it wait; None if it comes to nothing."""
        self.settle()
        if step.needs_base and self.state.value is UNKNOWN:
            entry = DraftEntry(step, step.write)
            self._waiting.append(entry)
            self.state = step.ahead or self.state
            return entry
        self.state, write = step.onto(self.state, self.base)
        return None if write is None else DraftEntry(step, write)

    def settle(self) -> None:
        """Does what waited, once it is known what is there; if one of it cannot be done, this raises each time."""
        if not self.is_known or not (self._waiting or self.state.value is UNKNOWN):
            return
        state = DraftState(self.base.shown.value)
        writes = []
        for entry in self._waiting:
            state, write = entry.step.onto(state, self.base)
            writes.append(write)
        for entry, write in zip(self._waiting, writes, strict=True):
            entry.write = write
        self._waiting = []
        if not self.state.is_own:
            self.state = state
