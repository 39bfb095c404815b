"""Which of one's own commits an undo or a redo takes back. Pure: it knows versions and nothing else.

An undo is a commit like any other (COMMIT-9). So after 3 and 4 wrote the same place and 4 was undone by 5, undoing 3
alone meets 4 and 5 on its way, which cancel each other out: it takes 3, 4 and 5 back together. A step therefore has
two forms, the narrow one, which is right if nothing later touched the same places, and the wide one, with everything
of this stack that came after.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final, Literal, NamedTuple

from stemmadb.protocol.model.values.ids import Version

UNDO_COMMITS_MAX: Final = 1_000
"""How many own writes are remembered, undos and redos included; the oldest are forgotten first."""


class UndoStep(NamedTuple):
    """An undo or a redo of the commit `target`: the versions to revert."""

    kind: Literal["undo", "redo"]
    target: Version
    narrow: tuple[Version, ...]
    wide: tuple[Version, ...]


class _Undone(NamedTuple):
    target: Version
    by: Version | None
    """The revert; None if there was nothing left to undo."""


class UndoStack:
    """Own accepted commits on one branch, in order, and those of them that are undone.

    stack.committed(Version(3))
    step = stack.undo()                    # revert step.narrow, or else step.wide
    stack.done(step, Version(4))           # the revert took version 4
    """

    def __init__(self) -> None:
        self._live: list[Version] = []
        self._undone: list[_Undone] = []
        self._all: list[Version] = []
        self.histories = 0
        """How often it forgot: the versions of a step mean something within one history only."""

    def committed(self, version: Version) -> None:
        """An own commit was accepted: what was undone before it can no longer be redone."""
        if _has(self._all, version):
            return
        self._undone.clear()
        insort(self._live, version)
        self._remember(version)

    def undo(self) -> UndoStep | None:
        """What to revert so that the newest own commit is undone; None if there is none."""
        if not self._live:
            return None
        target = self._live[-1]
        return UndoStep("undo", target, (target,), self._from(target))

    def redo(self) -> UndoStep | None:
        """What to revert so that the last undo is taken back; None if there is none."""
        if not self._undone:
            return None
        target, by = self._undone[-1]
        if by is None:
            return UndoStep("redo", target, (), ())
        return UndoStep("redo", target, (by,), self._from(Version(target + 1)))

    def done(self, step: UndoStep, version: Version | None) -> None:
        """The step was taken, by a commit of this version or, if there was nothing to write, by none."""
        if version is not None and not _has(self._all, version):
            self._remember(version)
        if step.kind == "undo":
            self._take_back(step.target, version)
        else:
            self._bring_back(step.target, version)

    def forget(self) -> None:
        """The server went back to another history: its versions are other commits (RESUME-4)."""
        self._live, self._undone, self._all = [], [], []
        self.histories += 1

    def _take_back(self, target: Version, by: Version | None) -> None:
        if self._live and self._live[-1] > target:
            # Commits came while it was undone: nobody knows which saw which, so only they can be undone from here.
            self._live = [live for live in self._live if live > target]
            self._all = list(self._live)
            return
        self._live = [live for live in self._live if live != target]
        self._undone.append(_Undone(target, by))

    def _bring_back(self, target: Version, version: Version | None) -> None:
        """The redo stands for the commit from now on, unless that was there all the time."""
        self._undone = [one for one in self._undone if one.target != target]
        self._live.append(target if version is None else version)
        self._live.sort()

    def _from(self, version: Version) -> tuple[Version, ...]:
        return tuple(one for one in self._all if one >= version)

    def _remember(self, version: Version) -> None:
        """It is not among them yet. Costs next to nothing for the newest, which it nearly always is."""
        insort(self._all, version)
        if len(self._all) > UNDO_COMMITS_MAX:
            del self._all[0]
            oldest = self._all[0]
            del self._live[: bisect_left(self._live, oldest)]
            self._undone = [one for one in self._undone if one.target >= oldest]

    def __len__(self) -> int:
        """How many own commits can be undone."""
        return len(self._live)


def _has(versions: list[Version], version: Version) -> bool:
    """Whether it is among versions in order."""
    place = bisect_left(versions, version)
    return place < len(versions) and versions[place] == version
