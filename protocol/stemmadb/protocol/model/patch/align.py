"""Which elements of two arrays correspond: the fewest insertions and removals, while they are few.

This is the greedy algorithm of E. Myers, "An O(ND) Difference Algorithm and Its Variations" (1986). A state is
how far one gets in the old array on each diagonal (old position minus new position) with a number of edits; equal
elements are walked over for free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

EDITS_MAX: Final = 64
COMPARISONS_MAX: Final = 1_000_000


class Hunk(NamedTuple):
    """The elements `old_start:old_end` of the old array stand where `new_start:new_end` of the new one do."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int

    @property
    def removes(self) -> int:
        return self.old_end - self.old_start

    @property
    def adds(self) -> int:
        return self.new_end - self.new_start


def align(old: Sequence[bytes], new: Sequence[bytes]) -> list[Hunk]:
    """Where the two differ, in order; all in one hunk where they differ too much to look closer."""
    rounds = _search(old, new)
    if rounds is None:
        return [Hunk(0, len(old), 0, len(new))]
    return _join(_trace_back(rounds, len(old), len(new)))


def _search(old: Sequence[bytes], new: Sequence[bytes]) -> list[dict[int, int]] | None:
    """How far one gets on each diagonal, as it was before each round, until the end of both is reached."""
    furthest, rounds, comparisons = {1: 0}, [], 0
    for edits in range(EDITS_MAX + 1):
        rounds.append(furthest.copy())
        for diagonal in range(-edits, edits + 1, 2):
            start = _step(furthest, edits, diagonal)
            reached = _walk(old, new, start, diagonal)
            furthest[diagonal] = reached
            comparisons += reached - start + 1
            if diagonal == len(old) - len(new) and reached >= len(old):
                return rounds
        if comparisons > COMPARISONS_MAX:
            return None
    return None


def _step(furthest: dict[int, int], edits: int, diagonal: int) -> int:
    """The old position after the better of the two edits that lead to this diagonal."""
    if _inserts(furthest, edits, diagonal):
        return furthest[diagonal + 1]
    return furthest[diagonal - 1] + 1


def _inserts(furthest: dict[int, int], edits: int, diagonal: int) -> bool:
    """Whether that edit is an insertion of a new element, and not the removal of an old one."""
    if diagonal in (-edits, edits):
        return diagonal == -edits
    return furthest[diagonal - 1] < furthest[diagonal + 1]


def _walk(old: Sequence[bytes], new: Sequence[bytes], position: int, diagonal: int) -> int:
    end = min(len(old), len(new) + diagonal)
    while position < end and old[position] == new[position - diagonal]:
        position += 1
    return position


def _trace_back(rounds: list[dict[int, int]], old_length: int, new_length: int) -> list[Hunk]:
    """The edits of the way that was found, each a hunk of one element, in order."""
    edits, diagonal = [], old_length - new_length
    for number in range(len(rounds) - 1, 0, -1):
        furthest = rounds[number]
        inserts = _inserts(furthest, number, diagonal)
        diagonal += 1 if inserts else -1
        at_old, at_new = furthest[diagonal], furthest[diagonal] - diagonal
        edits.append(Hunk(at_old, at_old + (not inserts), at_new, at_new + inserts))
    return edits[::-1]


def _join(edits: list[Hunk]) -> list[Hunk]:
    """Neighbours with nothing equal between them become one hunk."""
    hunks: list[Hunk] = []
    for edit in edits:
        if hunks and hunks[-1].old_end == edit.old_start and hunks[-1].new_end == edit.new_start:
            before = hunks.pop()
            hunks.append(Hunk(before.old_start, edit.old_end, before.new_start, edit.new_end))
        else:
            hunks.append(edit)
    return hunks
