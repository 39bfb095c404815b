"""Sync frames: what a frame carries, and how a large one comes in parts (SYNC-1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from stemmadb.protocol.model.values.ids import Hash, Version
from stemmadb.protocol.wire.messages.base import Part
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict, RejectedVerdict, Verdict
from stemmadb.protocol.wire.messages.sync import CommitItem, Ended, Entered, FactItem, Kept, Left, Reset, Sync

ITEM_BYTES: Final = 224
"""What an item takes beside its bodies, ids and lists, rounded up."""
_HASH_BYTES: Final = 56


class Frame:
    """One frame on its way out: from the state at `from_` to the state at `to`."""

    def __init__(self, from_: Version, to: Version, hash_: Hash, *, reset: Reset | None = None) -> None:
        self.from_ = from_
        self.to = to
        self.hash = hash_
        self.reset = reset
        self.verdicts: list[Verdict] = []
        self.commits: list[CommitItem] = []
        self.entered: list[Entered] = []
        self.left: list[Left] = []
        self.filled: list[int] = []
        self.ended: list[Ended] = []
        self.kept: list[Kept] = []
        self.is_own = False
        """Whether something was left out because its client has it: the frame is right for that one only."""

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing but that the version was reached."""
        return not (
            self.verdicts or self.commits or self.entered or self.left or self.filled or self.ended or self.reset
        )

    def in_one_part(self, bytes_max: int) -> Sync | None:
        """The frame whole; None if it does not fit."""
        if self._size > bytes_max:
            return None
        return Sync(
            from_=self.from_,
            to=self.to,
            hash=self.hash,
            reset=self.reset,
            verdicts=tuple(self.verdicts),
            commits=tuple(self.commits),
            entered=tuple(self.entered),
            left=tuple(self.left),
            filled=tuple(self.filled),
            ended=tuple(self.ended),
            kept=tuple(self.kept),
        )

    @property
    def _size(self) -> int:
        """What its items take, rounded up."""
        size = ITEM_BYTES * (len(self.kept) + len(self.commits) + len(self.entered) + len(self.left))
        size += sum(map(verdict_size, self.verdicts))
        for commit in self.commits:
            size += len(commit.note or b"") + sum([_fact_size(fact) for fact in commit.facts])
        size += sum([len(entered.id) + len(entered.body or b"") for entered in self.entered])
        return size + sum([len(left.id) for left in self.left])

    def parts(self, bytes_max: int) -> Iterator[Sync]:
        """The frame, whole if it fits, or cut where a part is full; lists go on from part to part."""
        whole = self.in_one_part(bytes_max)
        if whole is not None:
            yield whole
            return
        waiting: dict[str, list[Part]] = {}
        capacity = bytes_max
        for field, item, size in self._items(bytes_max):
            if size > capacity and waiting:
                yield self._part(waiting, more=True)
                waiting, capacity = {}, bytes_max
            waiting.setdefault(field, []).append(item)
            capacity -= size
        yield self._part(waiting, more=False)

    def _part(self, items: dict[str, list[Part]], *, more: bool) -> Sync:
        lists: dict[str, Any] = {field: tuple(listed) for field, listed in items.items()}
        if not more:
            lists["filled"], lists["ended"] = tuple(self.filled), tuple(self.ended)
        return Sync(from_=self.from_, to=self.to, hash=self.hash, reset=self.reset, more=more, **lists)

    def _items(self, bytes_max: int) -> Iterator[tuple[str, Part, int]]:
        for verdict in self.verdicts:
            yield "verdicts", verdict, verdict_size(verdict)
        for kept in self.kept:
            yield "kept", kept, ITEM_BYTES
        for commit in self.commits:
            for piece, size in _pieces(commit, bytes_max):
                yield "commits", piece, size
        for entered in self.entered:
            yield "entered", entered, ITEM_BYTES + len(entered.id) + len(entered.body or b"")
        for left in self.left:
            yield "left", left, ITEM_BYTES + len(left.id)


def _pieces(commit: CommitItem, bytes_max: int) -> Iterator[tuple[CommitItem, int]]:
    """The commit in one piece if it fits, else in several of the same version; only the first has the note."""
    sizes = [_fact_size(fact) for fact in commit.facts]
    note = len(commit.note or b"")
    whole = ITEM_BYTES + note + sum(sizes)
    if whole <= bytes_max:
        yield commit, whole
        return
    facts, start, size = iter(commit.facts), 0, ITEM_BYTES + note
    for index, more in enumerate(sizes):
        if size + more > bytes_max and index > start:
            yield _piece(commit, tuple(islice(facts, index - start)), first=start == 0), size
            start, size = index, ITEM_BYTES
        size += more
    yield _piece(commit, tuple(facts), first=start == 0), size


def _piece(commit: CommitItem, facts: tuple[FactItem, ...], *, first: bool) -> CommitItem:
    return replace(commit, facts=facts, note=commit.note if first else None)


def _fact_size(fact: FactItem) -> int:
    return ITEM_BYTES + len(fact.id) + len(fact.body or b"")


def verdict_size(verdict: AcceptedVerdict | RejectedVerdict) -> int:
    """What it takes in a message, rounded up."""
    if isinstance(verdict, AcceptedVerdict):
        return ITEM_BYTES + _HASH_BYTES * len(verdict.hashes)
    current = sum(ITEM_BYTES + len(one.id) + len(one.body or b"") for one in verdict.current)
    return ITEM_BYTES + current + ITEM_BYTES * len(verdict.stale)
