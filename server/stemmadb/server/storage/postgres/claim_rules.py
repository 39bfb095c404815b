"""Who may claim a space, and what an append that moved nothing means. Pure: from rows that were read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stemmadb.protocol.model.values.ids import Hash, Version
from stemmadb.server.storage.port import LogMoved, StorageFailed
from stemmadb.server.storage.postgres.append_statement import Move


class Deposed(StorageFailed):
    """Another node has claimed the space: this one decides nothing about it any more."""


class RowHeld(StorageFailed):
    """Somebody else holds the row of the space; it is as the owner left it, and it is worth another try."""


class SpaceSeen(NamedTuple):
    """The row of a space with the address of its owner, which is None if the row of that node has ended."""

    space: int
    owner: int | None
    term: int
    address: str | None


class Judged(NamedTuple):
    elsewhere: dict[int, str]
    """The addresses of live owners: connections go there."""
    free: dict[int, int]
    """What may be claimed, each with the term that it was seen with."""


def judged(rows: Iterable[SpaceSeen], node: int) -> Judged:
    """A space without an owner, or with one whose row is gone, may be claimed: numbers of nodes never return."""
    found = Judged({}, {})
    for seen in rows:
        if seen.owner is not None and seen.owner != node and seen.address is not None:
            found.elsewhere[seen.space] = seen.address
        else:
            found.free[seen.space] = seen.term
    return found


def why_not_moved(move: Move, owner: int | None, term: int, version: Version, hash_: Hash) -> Exception:
    """Of an append, by the row of its space as it is."""
    if (owner, term) != (move.owner, move.term):
        return Deposed("another node has claimed the space")
    if version != move.expected:
        return LogMoved(f"the log is at version {version} and not at {move.expected}")
    if hash_ != move.previous:
        return StorageFailed("the end of the log is another one")
    return RowHeld("the row of the space is held by somebody else")
