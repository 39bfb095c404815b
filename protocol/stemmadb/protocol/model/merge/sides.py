"""The states a merge compares: an entity at the best common ancestors, at the source and at the target (MERGE-2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import msgspec

from stemmadb.protocol.model.history import stamps
from stemmadb.protocol.model.history.difference import Content, is_gone, same
from stemmadb.protocol.model.history.stamps import IsCommon, Stamp
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, EntityId, Version


class MergeSide(msgspec.Struct, frozen=True):
    """An entity at one point, with the version of its last fact there (0 if none).

    `origins` is asked at most once, and only where a conflict or a pair of increments depends on it: it takes the
    entity's history (`origins.Trace`). Without it everything originates at the version of the last fact.

    `knows` is asked of a base only: whether it knows the commit of a version (`ancestry.knower`). Without it a base
    knows of a number what it was assigned there.
    """

    content: Content
    version: Version
    origins: Callable[[], Stamp] | None = None
    knows: Callable[[Version], bool] | None = None

    def stamp(self) -> Stamp:
        return self.origins() if self.origins is not None else stamps.whole(self.version)


NEVER_WRITTEN = MergeSide(Missing.ABSENT, EMPTY_SPACE)


class Candidate(msgspec.Struct, frozen=True, dict=True):
    """An entity that may have to be merged: one with facts where the source and a base are apart (`branch.apart`)."""

    id: EntityId
    bases: tuple[MergeSide, ...]
    source: MergeSide
    target: MergeSide
    is_common: IsCommon = stamps.nothing
    """Whether a commit was made before source and target split. A compaction keeps of what branches have in common
    the value alone, so that nothing else may depend on how that was made."""

    @cached_property
    def base(self) -> MergeSide | None:
        """The state to compare with; None where several best ancestors disagree (MERGE-2)."""
        assert self.bases, "the empty space is an ancestor of everything"
        first, *others = self.bases
        return first if all(is_same_side(first, other) for other in others) else None

    @cached_property
    def is_crossed(self) -> bool:
        """Whether there are several bases, made by different facts: equal values may then hold other increments."""
        return any(base.version != self.bases[0].version for base in self.bases)

    @cached_property
    def base_content(self) -> Content:
        """The content to compare with. `ERASED` stands for a base that there is not: nothing is equal to it."""
        return self.base.content if self.base is not None else Missing.ERASED

    @cached_property
    def source_stamp(self) -> Stamp:
        return self.source.stamp()

    @cached_property
    def target_stamp(self) -> Stamp:
        return self.target.stamp()

    @cached_property
    def base_stamps(self) -> tuple[Stamp, ...]:
        return tuple(base.stamp() for base in self.bases)

    @property
    def source_changed(self) -> bool:
        return self.base is None or not is_same_side(self.source, self.base)

    @property
    def target_changed(self) -> bool:
        return self.base is None or not is_same_side(self.target, self.base)


def is_same_side(one: MergeSide, other: MergeSide) -> bool:
    """Equal content; where it is not known any more, the same last fact."""
    if is_gone(one.content) or is_gone(other.content):
        return one.version == other.version
    return same(one.content, other.content)
