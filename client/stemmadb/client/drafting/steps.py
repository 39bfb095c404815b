"""The writes of a draft, each as a step from one state of an entity to the next (COMMIT-3, COMMIT-6)."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from stemmadb.client.drafting.declaring import PATHS_MAX, Reads
from stemmadb.client.drafting.taking import Taken, TakenPatch
from stemmadb.client.nursery.held import ABSENT, UNKNOWN, Nothing, Shown
from stemmadb.client.nursery.plans import Write
from stemmadb.protocol.errors import AlreadyExists, LimitExceeded, NotFound, PatchFailed, StemmaError
from stemmadb.protocol.model import body, patch, pointer
from stemmadb.protocol.model.ids import BranchName, EntityId
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.model.patch import Footprint
from stemmadb.protocol.model.values import Value

_WHOLE: Final = (pointer.ROOT,)


class State(NamedTuple):
    """An entity at one moment of a draft; UNKNOWN where it is not in view and what is done to it waits."""

    value: Value | Nothing
    size: int | None = None
    """The bytes of the value, once something had to know."""
    is_own: bool = False
    """A `set` or `delete` of this draft lies beneath: what follows relies on nothing else (COMMIT-3)."""


class Desk(NamedTuple):
    """What all steps of a draft share."""

    branch: BranchName
    limits: Limits
    reads: Reads
    work: patch.Work
    """What patches may cost together: a server counts for the whole commit."""


class Ground(NamedTuple):
    """What a step stands on: the entity as the view shows it."""

    id: EntityId
    shown: Shown
    desk: Desk

    def claim(self, state: State, path: str) -> None:
        """Declares that a path was relied on, unless the draft itself wrote the entity before."""
        if not state.is_own:
            self.desk.reads.declare(self.id, path, self.shown)


class Step(Protocol):
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
    def write(self) -> Write | None:
        """What it writes whatever is there; None if that depends on it."""
        ...

    @property
    def ahead(self) -> State | None:
        """The state after it whatever is there; None if that depends on it."""
        ...

    def onto(self, state: State, ground: Ground) -> tuple[State, Write | None]:
        """The state after it and what it writes; declares what it relies on, and raises if it cannot be done.

        It declares before it looks: an app that catches the error and goes on has learned something.
        """
        ...


class Put(NamedTuple):
    """The whole value. With `is_new` it claims that nothing was there."""

    id: EntityId
    taken: Taken
    blind: bool = False
    is_new: bool = False

    @property
    def needs_base(self) -> bool:
        return self.is_new

    @property
    def write(self) -> Write:
        return Write("set", self.id, self.taken.body, self.taken.value, None, self.blind)

    @property
    def ahead(self) -> State:
        return State(self.taken.value, len(self.taken.body), is_own=True)

    def onto(self, state: State, ground: Ground) -> tuple[State, Write]:
        if not self.blind:
            ground.claim(state, pointer.ROOT)
        if self.is_new and state.value is not ABSENT:
            raise AlreadyExists(id=self.id, branch=ground.desk.branch)
        return self.ahead, self.write


class Delete(NamedTuple):
    """Nothing is there afterwards, and it must have been there before."""

    id: EntityId
    blind: bool = False
    needs_base: bool = False

    @property
    def write(self) -> Write:
        return Write("delete", self.id, None, None, None, self.blind)

    @property
    def ahead(self) -> State:
        return State(ABSENT, 0, is_own=True)

    def onto(self, state: State, ground: Ground) -> tuple[State, Write]:
        if not self.blind:
            ground.claim(state, pointer.ROOT)
        if state.value is ABSENT:
            raise NotFound(id=self.id, branch=ground.desk.branch)
        return self.ahead, self.write


class Patch(NamedTuple):
    """The operations of a patch on what is there."""

    id: EntityId
    taken: TakenPatch
    blind: bool = False
    needs_base: bool = True
    ahead: State | None = None

    @property
    def write(self) -> Write:
        body_, operations, footprint = self.taken
        return Write("patch", self.id, body_, list(operations), footprint.writes, self.blind)

    def onto(self, state: State, ground: Ground) -> tuple[State, Write]:
        footprint = self.taken.footprint
        if not self.blind:
            _claim_all(claims(footprint), state, ground)
        try:
            after = self._applied(state, ground.desk)
        except (NotFound, PatchFailed):
            if not self.blind:
                _claim_all(footprint.writes, state, ground)  # increments too: it was told what is there
            raise
        return after, self.write

    def _applied(self, state: State, desk: Desk) -> State:
        """The state after it, within the bounds that a server keeps; nothing is spent on a patch that fails."""
        value, size = state.value, state.size
        if isinstance(value, Nothing):
            assert value is not UNKNOWN, "a patch waits for what is there"
            raise NotFound(id=self.id, branch=desk.branch)
        if size is None:
            size = len(body.encode(value))
        size_max, depth_max, spent = desk.limits.value_bytes_max, desk.limits.depth_max, desk.work.done
        operations, work = self.taken.operations, desk.work
        try:
            value, size = patch.apply_sized(
                value, size, operations, size_max=size_max, depth_max=depth_max, work=work
            )
        except StemmaError:
            work.done = spent
            raise
        return State(value, size, state.is_own)


class Update(NamedTuple):
    """Another value in the place of the one that is there, written as the small patch that leads to it."""

    id: EntityId
    taken: Taken
    blind: bool = False
    needs_base: bool = True
    write: Write | None = None
    ahead: State | None = None

    def onto(self, state: State, ground: Ground) -> tuple[State, Write | None]:
        if isinstance(state.value, Nothing):
            ground.claim(state, pointer.ROOT)
            raise NotFound(id=self.id, branch=ground.desk.branch)
        operations = patch.diff(state.value, self.taken.value)
        if not operations:
            return state, None
        made = TakenPatch(body.encode(operations), operations, patch.footprint(operations))
        whole = Put(self.id, self.taken)
        if self._is_better_whole(made, state, ground.desk.limits):
            return whole.onto(state, ground)
        try:
            return Patch(self.id, made).onto(state, ground)
        except LimitExceeded:  # the patch is too much work; the value itself is within its bounds
            return whole.onto(state, ground)

    def _is_better_whole(self, made: TakenPatch, state: State, limits: Limits) -> bool:
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


def _claim_all(paths: tuple[str, ...], state: State, ground: Ground) -> None:
    for path in paths:
        ground.claim(state, path)
