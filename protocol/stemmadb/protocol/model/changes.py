"""The recent changes of a head, newest first: what overlap is decided on, shared from head to head.

A new head shares the older changes with the one before it instead of copying them. They are held in blocks: a block
is small enough to copy for one more change, and blocks are few enough to be freed one inside the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from stemmadb.protocol.model import body, patch, pointer
from stemmadb.protocol.model.facts import Fact
from stemmadb.protocol.model.ids import Did, Version

BLOCK: Final = 64
PATHS_MAX: Final = 64


class Change(msgspec.Struct, frozen=True, gc=False):
    """A fact as far as overlap is concerned; `writes` None is every path of the entity (COMMIT-2)."""

    version: Version
    author: Did
    writes: tuple[str, ...] | None


class Changes(msgspec.Struct, frozen=True, gc=False):
    """A block of changes, oldest first, and the blocks before it."""

    block: tuple[Change, ...]
    older: Changes | None
    count: int

    def __iter__(self) -> Iterator[Change]:
        """Newest first."""
        current: Changes | None = self
        while current is not None:
            yield from reversed(current.block)
            current = current.older


def of_fact(fact: Fact, author: Did) -> Change | None:
    """The change a stored fact makes: nothing for a checkpoint, everything where the body is gone (COMMIT-2)."""
    if fact.kind == "checkpoint":
        return None
    if fact.kind != "patch" or fact.body is None:
        return Change(fact.version, author, None)
    operations: Any = body.read_stored(fact.body)
    return of_paths(fact.version, author, patch.footprint(operations).writes)


def of_paths(version: Version, author: Did, writes: tuple[str, ...] | None) -> Change:
    """A change that writes very many paths counts as one of the whole: comparing stays cheap, and that is safe."""
    if writes is not None and len(writes) > PATHS_MAX:
        writes = (pointer.ROOT,)
    return Change(version, author, writes)


def push(changes: Changes | None, seen_after: Version, change: Change, keep: int) -> tuple[Changes, Version]:
    """The changes with a new one in front, and the version after which none is missing.

    At least `keep` are kept; what is beyond twice that is forgotten, half at a time, so that a write costs the same
    on average however long the history is.
    """
    if changes is None:
        return Changes((change,), None, 1), seen_after
    if len(changes.block) < BLOCK:
        pushed = Changes((*changes.block, change), changes.older, changes.count + 1)
    else:
        pushed = Changes((change,), changes, changes.count + 1)
    return (pushed, seen_after) if pushed.count <= 2 * keep else _newest(pushed, keep)


def _newest(changes: Changes, keep: int) -> tuple[Changes, Version]:
    newest = iter(changes)
    kept = [next(newest) for _ in range(keep)]
    forgotten = next(newest).version
    kept.reverse()
    rebuilt: Changes | None = None
    for start in range(0, keep, BLOCK):
        block = tuple(kept[start : start + BLOCK])
        rebuilt = Changes(block, rebuilt, len(block) + (rebuilt.count if rebuilt else 0))
    assert rebuilt is not None, "at least one change is kept"
    return rebuilt, forgotten
