"""The writes of a draft, each as a step from one state of an entity to the next (COMMIT-3, COMMIT-6)."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from stemmadb.client.drafting.declared_reads import PATHS_MAX, Reads
from stemmadb.client.drafting.inputs import CheckedPatch, CheckedValue
from stemmadb.client.nursery.entities import ABSENT, UNKNOWN, Nothing
from stemmadb.client.nursery.plans import CommitWrite
from stemmadb.client.nursery.shown import Shown
from stemmadb.protocol.errors import AlreadyExists, LimitExceeded, NotFound, PatchFailed, StemmaError
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.patch import Footprint
from stemmadb.protocol.model.values import body, pointer
from stemmadb.protocol.model.values.ids import BranchName, EntityId
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import Limits

_WHOLE: Final = (pointer.ROOT,)


class DraftState(NamedTuple):
    """An entity at one moment of a draft; UNKNOWN where it is not in view and what is done to it waits."""

    value: Value | Nothing
    size: int | None = None
    """The bytes of the value, once something had to know."""
    is_own: bool = False
    """A `set` or `delete` of this draft lies beneath: what follows relies on nothing else (COMMIT-3)."""


class DraftContext(NamedTuple):
    """What all steps of a draft share."""

    branch: BranchName
    limits: Limits
    reads: Reads
    work: patch.Work
    """What patches may cost together: a server counts for the whole commit."""


class StepBase(NamedTuple):
    """What a step stands on: the entity as the view shows it."""

    id: EntityId
    shown: Shown
    context: DraftContext

    def claim(self, state: DraftState, path: str) -> None:
        """Declares that a path was relied on, unless the draft itself wrote the entity before."""
        if not state.is_own:
            self.context.reads.declare(self.id, path, self.shown)


class DraftStep(Protocol):
    """A write that the app asked for."""

    @property
    def needs_base(self) -> bool:
        """Whether it can be done only where it is known what is there."""
        ...

    @property
    def blind(self) -> bool:
        """It claims nothing, and nothing is fetched for it."""
        ...

    @property
    def write(self) -> CommitWrite | None:
        """What it writes whatever is there; None if that depends on it."""
        ...

    @property
    def ahead(self) -> DraftState | None:
        """The state after it whatever is there; None if that depends on it."""
        ...

    def onto(self, state: DraftState, base: StepBase) -> tuple[DraftState, CommitWrite | None]:
        """The state after it and what it writes; declares what it relies on, and raises if it cannot be done.

        It declares before it looks: an app that catches the error and goes on has learned something.
        """
        ...


class Put(NamedTuple):
    """The whole value. With `is_new` it claims that nothing was there."""

    id: EntityId
    taken: CheckedValue
    blind: bool = False
    is_new: bool = False

    @property
    def needs_base(self) -> bool:
        return self.is_new

    @property
    def write(self) -> CommitWrite:
        return CommitWrite("set", self.id, self.taken.body, self.taken.value, None, self.blind)

    @property
    def ahead(self) -> DraftState:
        return DraftState(self.taken.value, len(self.taken.body), is_own=True)

    def onto(self, state: DraftState, base: StepBase) -> tuple[DraftState, CommitWrite]:
        if not self.blind:
            base.claim(state, pointer.ROOT)
        if self.is_new and state.value is not ABSENT:
            raise AlreadyExists(id=self.id, branch=base.context.branch)
        return self.ahead, self.write


class Delete(NamedTuple):
    """Nothing is there afterwards, and it must have been there before."""

    id: EntityId
    blind: bool = False
    needs_base: bool = False

    @property
    def write(self) -> CommitWrite:
        return CommitWrite("delete", self.id, None, None, None, self.blind)

    @property
    def ahead(self) -> DraftState:
        return DraftState(ABSENT, 0, is_own=True)

    def onto(self, state: DraftState, base: StepBase) -> tuple[DraftState, CommitWrite]:
        if not self.blind:
            base.claim(state, pointer.ROOT)
        if state.value is ABSENT:
            raise NotFound(id=self.id, branch=base.context.branch)
        return self.ahead, self.write


class Patch(NamedTuple):
    """The operations of a patch on what is there."""

    id: EntityId
    taken: CheckedPatch
    blind: bool = False
    needs_base: bool = True
    ahead: DraftState | None = None

    @property
    def write(self) -> CommitWrite:
        body_, operations, footprint = self.taken
        return CommitWrite("patch", self.id, body_, list(operations), footprint.writes, self.blind)

    def onto(self, state: DraftState, base: StepBase) -> tuple[DraftState, CommitWrite]:
        footprint = self.taken.footprint
        if not self.blind:
            _claim_all(claims(footprint), state, base)
        try:
            after = self._applied(state, base.context)
        except (NotFound, PatchFailed):
            if not self.blind:
                _claim_all(footprint.writes, state, base)  # increments too: it was told what is there
            raise
        return after, self.write

    def _applied(self, state: DraftState, context: DraftContext) -> DraftState:
        """The state after it, within the bounds that a server keeps; nothing is spent on a patch that fails."""
        value, size = state.value, state.size
        if isinstance(value, Nothing):
            assert value is not UNKNOWN, "a patch waits for what is there"
            raise NotFound(id=self.id, branch=context.branch)
        if size is None:
            size = len(body.encode(value))
        size_max, depth_max, spent = context.limits.value_bytes_max, context.limits.depth_max, context.work.done
        operations, work = self.taken.operations, context.work
        try:
            value, size = patch.apply_sized(
                value, size, operations, size_max=size_max, depth_max=depth_max, work=work
            )
        except StemmaError:
            work.done = spent
            raise
        return DraftState(value, size, state.is_own)


class Update(NamedTuple):
    """Another value in the place of the one that is there, written as the small patch that leads to it."""

    id: EntityId
    taken: CheckedValue
    blind: bool = False
    needs_base: bool = True
    write: CommitWrite | None = None
    ahead: DraftState | None = None

    def onto(self, state: DraftState, base: StepBase) -> tuple[DraftState, CommitWrite | None]:
        if isinstance(state.value, Nothing):
            base.claim(state, pointer.ROOT)
            raise NotFound(id=self.id, branch=base.context.branch)
        operations = patch.diff(state.value, self.taken.value)
        if not operations:
            return state, None
        made = CheckedPatch(body.encode(operations), operations, patch.footprint(operations))
        whole = Put(self.id, self.taken)
        if self._is_better_whole(made, state, base.context.limits):
            return whole.onto(state, base)
        try:
            return Patch(self.id, made).onto(state, base)
        except LimitExceeded:  # the patch is too much work; the value itself is within its bounds
            return whole.onto(state, base)

    def _is_better_whole(self, made: CheckedPatch, state: DraftState, limits: Limits) -> bool:
        """Where the value is shorter and the patch would claim no less; a small value is patched all the same.

        Its writers would collide on the whole of it, and what that saves is a few bytes.
        """
        if len(made.body) > limits.value_bytes_max or len(made.operations) > limits.patch_operations_max:
            return True
        claims_all = state.is_own or claims(made.footprint) == _WHOLE
        return claims_all and len(made.body) >= len(self.taken.body)


def claims(footprint: Footprint) -> tuple[str, ...]:
    """The paths that a patch relies on: those it reads, and those it writes but for what is only incremented."""
    increments = frozenset(footprint.increments)
    paths = dict.fromkeys((*footprint.reads, *(path for path in footprint.writes if path not in increments)))
    return _WHOLE if len(paths) > PATHS_MAX else tuple(paths)


def _claim_all(paths: tuple[str, ...], state: DraftState, base: StepBase) -> None:
    for path in paths:
        base.claim(state, path)
