"""The recent changes of a head, newest first: what overlap is decided on, shared from head to head.

A new head shares the older changes with the one before it instead of copying them, so that a write on an entity with
a long history costs what it costs on a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from stemmadb.protocol.model import patch
from stemmadb.protocol.model.log.facts import Foldable
from stemmadb.protocol.model.values import body, pointer
from stemmadb.protocol.model.values.ids import Did, Version

PATHS_MAX: Final = 64


class RecordedChange(msgspec.Struct, frozen=True, gc=False):
    """A fact as far as overlap is concerned; `writes` None is every path of the entity (COMMIT-2)."""

    version: Version
    author: Did
    writes: tuple[str, ...] | None


class Changes(msgspec.Struct, frozen=True, gc=False):
    """The first `count` of a list that heads share: a newer head appends behind what the older ones look at."""

    shared: list[RecordedChange]
    count: int

    def __iter__(self) -> Iterator[RecordedChange]:
        """Newest first."""
        for index in range(self.count - 1, -1, -1):
            yield self.shared[index]


class Changing(Foldable, Protocol):
    """A fact as far as overlap is concerned."""

    @property
    def version(self) -> Version: ...


def of_fact(fact: Changing, author: Did) -> RecordedChange | None:
    """The change a stored fact makes: nothing for a checkpoint, everything where the body is gone (COMMIT-2)."""
    if fact.kind == "checkpoint":
        return None
    if fact.kind != "patch" or fact.body is None:
        return RecordedChange(fact.version, author, None)
    operations: Any = body.read_stored(fact.body)
    return of_paths(fact.version, author, patch.footprint(operations).writes)


def of_paths(version: Version, author: Did, writes: tuple[str, ...] | None) -> RecordedChange:
    """A change that writes very many paths counts as one of the whole: comparing stays cheap, and that is safe."""
    if writes is not None and len(writes) > PATHS_MAX:
        writes = (pointer.ROOT,)
    return RecordedChange(version, author, writes)


def push(changes: Changes | None, seen_after: Version, change: RecordedChange, keep: int) -> tuple[Changes, Version]:
    """The changes with a new one in front, and the version after which none is missing.

    At least `keep` are kept; what is beyond twice that is forgotten, half at a time, so that a write costs the same
    on average however many there are.
    """
    if changes is None:
        return Changes([change], 1), seen_after
    shared, count = changes.shared, changes.count
    if count >= 2 * keep:
        seen_after = shared[count - keep].version
        shared, count = shared[count - keep + 1 : count], keep - 1
    elif count != len(shared):  # another head, of a batch that failed or of a branch, has gone on from here before
        shared = shared[:count]
    shared.append(change)
    return Changes(shared, count + 1), seen_after
